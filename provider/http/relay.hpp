// One HTTP exchange whose answer is handed on as it comes, not kept: for the gate that stands
// between a caller and the endpoint. What is meant for one connection alone (RFC 9110,
// section 7.6.1) is left out, the rest is as it came.
#pragma once

#include <sys/uio.h>

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "provider/http/line.hpp"
#include "provider/http/watchdog.hpp"

namespace sluice::provider {

/// Header fields in the order and spelling received.
using header_fields = std::vector<std::pair<std::string, std::string>>;

/// Removes the fields that belong to a connection, those that Connection names included.
void remove_hop_by_hop(header_fields& fields);

/// Status and header of an answer.
struct relay_head {
  int status = 0;
  std::string reason;                   ///< as it came
  header_fields fields;                 ///< without those of the connection
  std::optional<std::uint64_t> length;  ///< of the body, if the header said so
};

/// Where an answer goes.
class answer_sink {
 public:
  virtual ~answer_sink() = default;
  /// Passes on a piece of the answer, the first time with its head; `last`: the body is complete
  /// with it. False: nobody takes it any more.
  virtual asio::awaitable<bool> pass(const relay_head* head, std::string_view body, bool last) = 0;
  /// Nobody takes it any more. Whoever makes this true also ends the waits on the line's socket.
  virtual bool gone() const = 0;
};

/// Bounds of one exchange; the time that the sink takes is not counted as idle.
struct relay_limits {
  duration total{};
  duration idle{};
};

struct relay_result {
  enum class how {
    answered,   ///< complete by framing, and passed on
    gone,       ///< the sink had enough
    timed_out,  ///< a limit ran out
    aborted,    ///< the watchdog was told to
    lost,       ///< the connection ended first
    malformed,  ///< not HTTP, or a header over 64 KiB
  };
  how ended = how::lost;
  int status = 0;            ///< 0: none came
  bool head_passed = false;  ///< the sink has the head
  std::size_t received = 0;  ///< bytes of any kind
  bool keep_alive = false;   ///< the connection may be used again
  std::string cause;         ///< for people

  relay_result() = default;
};

/// Sends `request` and passes the answer on; interim answers (1xx) are skipped. After anything but
/// `answered` the connection is of no further use.
asio::awaitable<relay_result> relay(line& on, watchdog& deadlines, std::span<const iovec> request,
                                    relay_limits within, answer_sink& to);

}  // namespace sluice::provider
