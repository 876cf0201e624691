// One connection to the endpoint, plain or TLS, as non-blocking steps; and the idle ones.
#pragma once

#include <sys/uio.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "provider/http/tls.hpp"
#include "provider/http/watchdog.hpp"

namespace sluice::provider {

/// Whether the step is to be taken again when the socket is ready for it.
bool waits(io_result::what ended);
/// What the socket is then to be ready for.
asio::ip::tcp::socket::wait_type awaited(io_result::what ended);
/// How a connection ended, for people.
std::string why_ended(const io_result& r);

/// An open connection. Used by one call at a time.
class line {
 public:
  explicit line(const asio::any_io_executor& executor) : socket(executor) {}
  ~line();
  line(const line&) = delete;
  line& operator=(const line&) = delete;

  io_result read(void* to, std::size_t size);
  /// Writes the parts as one, from `skip` bytes on, as far as the socket takes them.
  io_result write(std::span<const iovec> parts, std::size_t skip);
  /// True when the peer has neither closed nor said anything unasked.
  bool alive();

  asio::ip::tcp::socket socket;
  std::optional<tls_session> tls;
  boost::beast::flat_buffer in;  ///< read and not yet parsed
  bool reused = false;           ///< has been idle: the peer may have closed it meanwhile
  instant idle_since{};
  std::optional<duration> connecting;   ///< until told to the first call
  std::optional<duration> handshaking;  ///< likewise

 private:
  std::string joined_;  // TLS takes one piece of memory at a time
};

/// Idle connections, the most recently used first.
class line_pool {
 public:
  explicit line_pool(std::size_t most) : most_(most) {}

  /// A live one that has not been idle for too long, or none.
  std::unique_ptr<line> take(instant now);
  void give(std::unique_ptr<line> back, instant now);
  /// Frees one descriptor. False: there was none to free.
  bool drop_oldest();
  void clear() { idle_.clear(); }
  std::size_t size() const { return idle_.size(); }

  /// Servers and what stands in between close idle connections, some after 30 s.
  static constexpr duration longest_idle = std::chrono::seconds(20);

 private:
  std::size_t most_;
  std::deque<std::unique_ptr<line>> idle_;
};

}  // namespace sluice::provider
