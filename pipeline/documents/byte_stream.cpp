#include "pipeline/documents/byte_stream.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>

#include "pipeline/documents/document.hpp"
#include "pipeline/documents/utf8.hpp"

namespace sluice::pipeline {
namespace {

[[noreturn]] void fail(const std::string& name, const char* cause) {
  throw input_failure(printable(name, 300) + ": reading failed: " + cause +
                      "; check the disk, then run the same command again to go on");
}

// A descriptor that never makes anybody wait for long: a regular file, or /dev/null.
class plain_stream final : public byte_stream {
 public:
  plain_stream(int descriptor, std::string name) : fd_(descriptor), name_(std::move(name)) {}
  ~plain_stream() override { ::close(fd_); }
  plain_stream(const plain_stream&) = delete;
  plain_stream& operator=(const plain_stream&) = delete;

  asio::awaitable<std::size_t> read_some(std::span<char> into) override {
    ssize_t n = 0;
    do n = ::read(fd_, into.data(), into.size());
    while (n < 0 && errno == EINTR);
    if (n < 0) fail(name_, std::strerror(errno));
    co_return static_cast<std::size_t>(n);
  }

 private:
  int fd_;
  std::string name_;
};

// A pipe, a terminal or a socket.
class waiting_stream final : public byte_stream {
 public:
  waiting_stream(const asio::any_io_executor& executor, int descriptor, int flags_to_restore)
      : stream_(executor, descriptor), flags_(flags_to_restore) {}
  ~waiting_stream() override {
    if (flags_ >= 0) ::fcntl(stream_.native_handle(), F_SETFL, flags_);
  }
  waiting_stream(const waiting_stream&) = delete;
  waiting_stream& operator=(const waiting_stream&) = delete;

  asio::awaitable<std::size_t> read_some(std::span<char> into) override {
    boost::system::error_code ec;
    const asio::mutable_buffer room(into.data(), into.size());
    const std::size_t n =
        co_await stream_.async_read_some(room, asio::redirect_error(asio::use_awaitable, ec));
    if (ec == asio::error::operation_aborted) co_return std::size_t{0};
    // A terminal whose other side is gone says EIO: that is an end too.
    if (ec == asio::error::eof || ec == boost::system::errc::io_error) co_return std::size_t{0};
    if (ec) fail("standard input", ec.message().c_str());
    co_return n;
  }

  void cancel() override {
    boost::system::error_code ignored;
    stream_.cancel(ignored);
  }

 private:
  asio::posix::stream_descriptor stream_;
  int flags_;
};

}  // namespace

std::unique_ptr<byte_stream> open_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return nullptr;
  return std::make_unique<plain_stream>(fd, path);
}

std::unique_ptr<byte_stream> open_descriptor(const asio::any_io_executor& executor,
                                             int descriptor) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0)
    throw input_failure("standard input is closed; give it something to read, or name a file");
  if (S_ISDIR(info.st_mode))
    throw input_failure("standard input is a folder; name the folder itself instead of -");
  const bool device = S_ISCHR(info.st_mode) && ::isatty(descriptor) == 0;
  if (S_ISREG(info.st_mode) || device) {
    const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) fail("standard input", std::strerror(errno));
    return std::make_unique<plain_stream>(copy, "standard input");
  }
  // Waiting needs O_NONBLOCK, which a duplicate would share with whoever else holds the terminal or
  // the pipe, standard output included. Opened anew, it has flags of its own; sockets cannot be.
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const int anew = ::open(link.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (anew >= 0) return std::make_unique<waiting_stream>(executor, anew, -1);
  const int flags = ::fcntl(descriptor, F_GETFL);
  const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) fail("standard input", std::strerror(errno));
  return std::make_unique<waiting_stream>(executor, copy, flags);
}

}  // namespace sluice::pipeline
