#include "pipeline/documents/reader.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "pipeline/documents/inputs.hpp"
#include "pipeline/documents/jsonl.hpp"
#include "pipeline/documents/lines.hpp"
#include "pipeline/documents/seen_ids.hpp"
#include "pipeline/documents/text_file.hpp"
#include "pipeline/documents/utf8.hpp"

namespace sluice::pipeline {
namespace {

std::array<std::uint64_t, 2> random_key() {
  std::random_device device;
  const auto word = [&] { return std::uint64_t{device()} << 32U | device(); };
  return {word(), word()};
}

// No ID begins so: it is no UTF-8.
constexpr char unnamed_mark = '\xFF';

std::string place_name(const std::string& path, std::uint64_t line) {
  return line == 0 ? to_valid_utf8(path) : to_valid_utf8(path) + ":" + std::to_string(line);
}

class batch_source final : public document_source {
 public:
  batch_source(asio::any_io_executor executor, std::vector<input> inputs)
      : executor_(std::move(executor)), inputs_(std::move(inputs)), seen_(random_key()) {
    for (const input& one : inputs_)
      if (one.from == origin::kind::standard_input)
        standard_input_ = open_descriptor(executor_, STDIN_FILENO);
  }

  asio::awaitable<std::optional<source_item>> next() override {
    while (at_ < inputs_.size()) {
      const bool waits = inputs_[at_].from == origin::kind::standard_input;
      if (waits && aborted_) {
        lines_.reset();
        ++at_;
        continue;
      }
      if (inputs_[at_].from == origin::kind::text_file) {
        source_item item = from_text_file();
        ++at_;
        co_return std::optional<source_item>(std::move(item));
      }
      if (!lines_) {
        if (auto trouble = open_lines()) {
          ++at_;
          co_return std::optional<source_item>(std::move(*trouble));
        }
      }
      const bool more = co_await lines_->next(line_);
      if (waits && aborted_) continue;  // what there is may be half a line
      if (!more) {
        lines_.reset();
        ++at_;
        continue;
      }
      if (!line_.too_long && line_.text.find_first_not_of(" \t\r") == std::string::npos) continue;
      source_item item = from_line();
      co_return std::optional<source_item>(std::move(item));
    }
    co_return std::nullopt;
  }

  void abort() override {
    aborted_ = true;
    const bool waits = at_ < inputs_.size() && inputs_[at_].from == origin::kind::standard_input;
    if (waits && lines_) lines_->cancel();
  }

  // Lines are counted, not read: good enough for an estimate, and only where that is quick.
  std::optional<std::uint64_t> expected() const override {
    constexpr std::uint64_t quick = std::uint64_t{64} << 20U;
    std::uint64_t total = 0;
    for (const input& one : inputs_) {
      if (one.from == origin::kind::standard_input) return std::nullopt;
      if (one.from == origin::kind::text_file) {
        ++total;
        continue;
      }
      std::error_code ec;
      const std::uintmax_t size = std::filesystem::file_size(one.path, ec);
      std::ifstream in(one.path, std::ios::binary);
      if (ec || size > quick || !in) return std::nullopt;
      total += static_cast<std::uint64_t>(
          std::count(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>(), '\n'));
    }
    return total;
  }

 private:
  std::optional<source_item> open_lines() {
    const input& here = inputs_[at_];
    auto bytes = here.from == origin::kind::standard_input ? std::move(standard_input_)
                                                           : open_file(here.path);
    if (!bytes) return bad(0, std::string("cannot be opened: ") + std::strerror(errno));
    lines_ = std::make_unique<line_reader>(std::move(bytes));
    return std::nullopt;
  }

  source_item from_text_file() {
    const input& one = inputs_[at_];
    std::string id = to_valid_utf8(std::string_view(one.path).substr(one.id_at));
    auto read = read_text_file(one.path);
    if (auto* e = std::get_if<text_file_error>(&read)) {
      // The ID is known, so what is wrong is said of the document itself, if it is the first.
      if (seen_.note(id, id_place{here(), 0})) return bad(0, e->cause);
      return bad_as(std::move(id), 0, detail_at(e->line, e->cause));
    }
    document d;
    d.id = std::move(id);
    d.text = std::move(std::get<std::string>(read));
    return checked(std::move(d), 0);
  }

  source_item from_line() {
    if (line_.too_long)
      return bad(line_.number, "longer than " + std::to_string(longest_document >> 20U) + " MiB");
    auto parsed = parse_jsonl(line_.text);
    if (auto* e = std::get_if<jsonl_error>(&parsed)) return bad(line_.number, e->cause);
    auto& entry = std::get<jsonl_entry>(parsed);
    document d;
    d.id = std::move(entry.id);
    d.text = std::move(entry.text);
    d.messages = std::move(entry.messages);
    return checked(std::move(d), line_.number);
  }

  // What holds for every document: its ID is new, and there is something to send.
  source_item checked(document d, std::uint64_t line) {
    d.from = origin_at(line);
    if (const auto first = seen_.note(d.id, id_place{here(), line})) {
      const std::string& path = inputs_[first->input].path;
      return bad(line,
                 "the ID \"" + printable(d.id, 80) + "\" stands already at " +
                     printable(place_name(path, first->line), 300),
                 retry::reason::duplicate_id);
    }
    if (!d.messages.empty() || !blank(d.text)) return d;
    return bad_as(std::move(d.id), line, detail_at(line, "the text is empty"),
                  retry::reason::empty_input);
  }

  // Called after its place, by a number more when the same file is named again.
  source_item bad(std::uint64_t line, const std::string& cause,
                  retry::reason why = retry::reason::input_error) {
    const std::string plain = place_name(inputs_[at_].path, line);
    std::string id = plain;
    for (unsigned n = 2; seen_.note(unnamed_mark + id, id_place{here(), line}); ++n)
      id = plain + "#" + std::to_string(n);
    bad_document b = bad_as(std::move(id), line, detail_at(line, cause), why);
    b.from.unnamed = true;
    return b;
  }

  bad_document bad_as(std::string id, std::uint64_t line, std::string detail,
                      retry::reason why = retry::reason::input_error) const {
    bad_document b;
    b.id = std::move(id);
    b.why = why;
    b.detail = std::move(detail);
    b.from = origin_at(line);
    return b;
  }

  std::uint32_t here() const { return static_cast<std::uint32_t>(at_); }

  origin origin_at(std::uint64_t line) const {
    const input& one = inputs_[at_];
    origin o;
    o.from = one.from;
    if (one.from != origin::kind::standard_input) o.path = one.path;
    o.line = line;
    return o;
  }

  std::string detail_at(std::uint64_t line, const std::string& cause) const {
    return printable(place_name(inputs_[at_].path, line), 300) + ": " + cause;
  }

  asio::any_io_executor executor_;
  std::vector<input> inputs_;
  std::unique_ptr<byte_stream> standard_input_;
  seen_ids seen_;
  std::size_t at_ = 0;
  std::unique_ptr<line_reader> lines_;
  text_line line_;
  bool aborted_ = false;
};

}  // namespace

std::unique_ptr<document_source> open_documents(asio::any_io_executor executor,
                                                std::vector<std::string> inputs) {
  return std::make_unique<batch_source>(std::move(executor), list_inputs(inputs));
}

}  // namespace sluice::pipeline
