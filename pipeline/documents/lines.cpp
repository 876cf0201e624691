#include "pipeline/documents/lines.hpp"

#include <cstring>
#include <string_view>

#include "pipeline/documents/jsonl.hpp"

namespace sluice::pipeline {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
// A line this long does not keep its memory for the ones to come.
constexpr std::size_t worth_keeping = std::size_t{256} << 10U;

}  // namespace

line_reader::line_reader(std::unique_ptr<byte_stream> from)
    : from_(std::move(from)), buffer_(std::make_unique<std::array<char, 65536>>()) {}

asio::awaitable<bool> line_reader::next(text_line& into) {
  if (into.text.capacity() > worth_keeping) into.text = std::string();
  into.text.clear();
  into.too_long = false;
  bool started = false;
  while (true) {
    if (begin_ == end_ && !ended_) {
      begin_ = 0;
      end_ = co_await from_->read_some(*buffer_);
      ended_ = end_ == 0;
    }
    if (ended_) {
      if (!started) co_return false;
      break;
    }
    started = true;
    const char* first = buffer_->data() + begin_;
    const auto* newline = static_cast<const char*>(std::memchr(first, '\n', end_ - begin_));
    const std::size_t n =
        newline != nullptr ? static_cast<std::size_t>(newline - first) : end_ - begin_;
    // Room for a byte order mark and a carriage return, which are not of the line.
    if (!into.too_long && into.text.size() + n <= longest_document + 4) {
      into.text.append(first, n);
    } else {
      into.too_long = true;
      into.text = std::string();
    }
    begin_ += n;
    if (newline != nullptr) {
      ++begin_;
      break;
    }
  }
  into.number = ++number_;
  if (number_ == 1 && into.text.starts_with(byte_order_mark))
    into.text.erase(0, byte_order_mark.size());
  if (into.text.ends_with('\r')) into.text.pop_back();
  if (into.text.size() > longest_document) {
    into.too_long = true;
    into.text = std::string();
  }
  co_return true;
}

}  // namespace sluice::pipeline
