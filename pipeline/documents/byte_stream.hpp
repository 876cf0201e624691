// Bytes from a file or from standard input, for lines.hpp.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace sluice::pipeline {

namespace asio = boost::asio;

/// A stream of bytes, read once.
class byte_stream {
 public:
  virtual ~byte_stream() = default;
  /// At least one byte, or 0 at the end. Throws input_failure when reading fails.
  virtual asio::awaitable<std::size_t> read_some(std::span<char> into) = 0;
  /// Lets a waiting read_some return 0.
  virtual void cancel() {}
};

/// A regular file. Null, with errno set, when it cannot be opened.
std::unique_ptr<byte_stream> open_file(const std::string& path);

/// An open descriptor, which stays the caller's: waits for pipes, terminals and sockets without
/// holding up the I/O thread. The descriptor's own flags are left alone. Throws input_failure.
std::unique_ptr<byte_stream> open_descriptor(const asio::any_io_executor& executor, int descriptor);

}  // namespace sluice::pipeline
