// Lines from a stream of bytes, in bounded memory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "pipeline/documents/byte_stream.hpp"

namespace sluice::pipeline {

/// One physical line, without its end (LF or CRLF) and, on the first, without a byte order mark.
struct text_line {
  std::uint64_t number = 0;  ///< from 1
  std::string text;
  bool too_long = false;  ///< passed over; text is empty
};

/// Reads lines of at most `longest_document` bytes through a buffer of 64 KiB.
class line_reader {
 public:
  explicit line_reader(std::unique_ptr<byte_stream> from);
  /// The next line into `into`, or false at the end. An unterminated last line counts.
  asio::awaitable<bool> next(text_line& into);
  /// Lets a waiting next() come to an end.
  void cancel() { from_->cancel(); }

 private:
  std::unique_ptr<byte_stream> from_;
  std::unique_ptr<std::array<char, 65536>> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t number_ = 0;
  bool ended_ = false;
};

}  // namespace sluice::pipeline
