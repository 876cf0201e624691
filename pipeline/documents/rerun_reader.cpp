// The documents of a re-run, read again from where they came.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "pipeline/documents/jsonl.hpp"
#include "pipeline/documents/lines.hpp"
#include "pipeline/documents/reader.hpp"
#include "pipeline/documents/text_file.hpp"
#include "pipeline/documents/utf8.hpp"

namespace sluice::pipeline {
namespace {

bad_document bad_one(const rerun_target& of, const std::string& cause,
                     retry::reason why = retry::reason::document_missing) {
  std::string place = of.from.from == origin::kind::standard_input ? "-" : of.from.path;
  if (of.from.line != 0) place += ":" + std::to_string(of.from.line);
  bad_document b;
  b.id = of.id;
  b.why = why;
  b.detail = printable(place, 300) + ": " + cause;
  b.from = of.from;
  return b;
}

source_item finished(const rerun_target& of, std::string text, std::string messages) {
  if (messages.empty() && blank(text))
    return bad_one(of, "the text is empty", retry::reason::empty_input);
  document d;
  d.id = of.id;
  d.text = std::move(text);
  d.messages = std::move(messages);
  d.from = of.from;
  return d;
}

source_item from_text_file(const rerun_target& of) {
  auto read = read_text_file(of.from.path);
  if (auto* text = std::get_if<std::string>(&read))
    return finished(of, std::move(*text), std::string());
  const auto& e = std::get<text_file_error>(read);
  // A file that is there but no longer readable as text is as bad as it would be in a first run.
  if (e.line == 0) return bad_one(of, e.cause);
  return bad_one(of, "line " + std::to_string(e.line) + ": " + e.cause, retry::reason::input_error);
}

source_item from_kept(const rerun_target& of) {
  auto parsed = parse_jsonl(of.kept_document);
  auto* kept = std::get_if<jsonl_entry>(&parsed);
  if (kept == nullptr || kept->id != of.id || of.from.unnamed)
    return bad_one(of, "the document could not be kept: pipe it in again");
  return finished(of, std::move(kept->text), std::move(kept->messages));
}

source_item from_line(const rerun_target& of, const text_line& line) {
  auto parsed = parse_jsonl(line.text);
  if (line.too_long) parsed = jsonl_error{"the line is too long"};
  if (auto* e = std::get_if<jsonl_error>(&parsed))
    return bad_one(of, e->cause, retry::reason::input_error);
  auto& entry = std::get<jsonl_entry>(parsed);
  if (of.from.unnamed || entry.id != of.id)
    return bad_one(
        of, "now holds the ID \"" + printable(entry.id, 80) + "\": run the batch again instead");
  return finished(of, std::move(entry.text), std::move(entry.messages));
}

class rerun_source final : public document_source {
 public:
  explicit rerun_source(std::vector<rerun_target> targets) : targets_(std::move(targets)) {
    // Files in the order in which they come up, lines in the order of the file.
    std::map<std::string, std::size_t> files;
    for (const rerun_target& t : targets_) files.emplace(t.from.path, files.size());
    const auto rank = [&](const rerun_target& t) {
      return std::pair(files.at(t.from.path), t.from.line);
    };
    std::stable_sort(
        targets_.begin(), targets_.end(),
        [&](const rerun_target& a, const rerun_target& b) { return rank(a) < rank(b); });
  }

  asio::awaitable<std::optional<source_item>> next() override {
    if (at_ == targets_.size()) co_return std::nullopt;
    const rerun_target& target = targets_[at_];
    std::optional<source_item> item;
    switch (target.from.from) {
      case origin::kind::text_file:
        item = from_text_file(target);
        break;
      case origin::kind::standard_input:
        item = from_kept(target);
        break;
      case origin::kind::jsonl_line: {
        if (path_ != target.from.path) open(target.from.path);
        while (lines_ && line_.number < target.from.line) {
          const bool more = co_await lines_->next(line_);
          if (!more) lines_.reset();
        }
        if (lines_ && line_.number == target.from.line)
          item = from_line(target, line_);
        else
          item = bad_one(target, problem_);
        break;
      }
    }
    ++at_;
    co_return item;
  }

 private:
  void open(const std::string& path) {
    path_ = path;
    line_ = text_line();
    auto bytes = open_file(path);
    problem_ = bytes ? "the file has fewer lines now"
                     : std::string("cannot be opened: ") + std::strerror(errno);
    lines_ = bytes ? std::make_unique<line_reader>(std::move(bytes)) : nullptr;
  }

  std::vector<rerun_target> targets_;
  std::size_t at_ = 0;
  std::optional<std::string> path_;
  std::string problem_;
  std::unique_ptr<line_reader> lines_;
  text_line line_;
};

}  // namespace

std::unique_ptr<document_source> open_rerun(asio::any_io_executor,
                                            std::vector<rerun_target> targets) {
  return std::make_unique<rerun_source>(std::move(targets));
}

}  // namespace sluice::pipeline
