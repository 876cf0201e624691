// One HTTP exchange on an open connection: the request out, one complete answer in, within the
// deadlines and the size limits.
#pragma once

#include <sys/uio.h>

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <span>
#include <string>

#include "provider/answer.hpp"
#include "provider/http/line.hpp"
#include "provider/http/watchdog.hpp"

namespace sluice::provider {

/// Bounds of one exchange.
struct exchange_limits {
  duration total{};  ///< over everything, whatever trickles in
  duration idle{};   ///< between two signs of life
  std::size_t max_body = 0;
};

/// What an exchange came to.
struct exchange_result {
  enum class how {
    answered,    ///< complete by framing
    timed_out,   ///< `total` ran out
    idled_out,   ///< `idle` ran out
    aborted,     ///< the watchdog was told to
    lost,        ///< the connection ended first
    over_limit,  ///< the body is over its limit
    malformed,   ///< not HTTP, or a header over its limit
  };
  how ended = how::lost;
  /// When `answered`, the whole; otherwise what there was of it: the headers only when all of them
  /// came.
  http_answer answer;
  std::string cause;         ///< of `lost` and `malformed`, for people
  std::size_t received = 0;  ///< bytes of any kind
  bool written = false;      ///< the whole request was handed to the system
  bool header_done = false;  ///< status and headers are complete, whatever came of the body
  bool wants_tls = false;    ///< `malformed`: what came is TLS, though plain HTTP was spoken
  bool distrusted = false;   ///< TLS: `lost` because of the client's certificate, as `cause` says
  bool keep_alive = false;   ///< the connection may be used again
  std::optional<duration> first_byte;

  exchange_result() = default;
};

/// Sends `request` and reads the answer; interim answers (1xx) are skipped. After anything but
/// `answered` the connection is of no further use.
asio::awaitable<exchange_result> exchange(line& on, watchdog& deadlines,
                                          std::span<const iovec> request, exchange_limits within);

}  // namespace sluice::provider
