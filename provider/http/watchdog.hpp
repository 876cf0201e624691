// Deadlines of everything under way, kept by one timer. A deadline that moves later costs nothing:
// the timer looks again when it fires. Arming and cancelling a timer per call would cost more than
// the call's own bookkeeping.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <memory>
#include <vector>

#include "retry/time.hpp"

namespace sluice::provider {

namespace asio = boost::asio;

/// The clock of connection deadlines. Asio's timers run on it.
using steady = std::chrono::steady_clock;

class watchdog : public std::enable_shared_from_this<watchdog> {
 public:
  explicit watchdog(const asio::any_io_executor& executor) : timer_(executor) {}

  /// One operation on one socket. Past its deadline, or on abort, whatever waits on the socket
  /// ends; the owner then sees why and closes it. Without a deadline until one is given.
  class watch {
   public:
    watch(watchdog& by, asio::ip::tcp::socket& socket);
    ~watch();
    watch(const watch&) = delete;
    watch& operator=(const watch&) = delete;

    void until(steady::time_point deadline);
    bool expired() const { return expired_; }
    bool aborted() const { return aborted_; }

   private:
    friend class watchdog;
    std::shared_ptr<watchdog> by_;
    asio::ip::tcp::socket& socket_;
    steady::time_point deadline_ = steady::time_point::max();
    std::size_t place_ = 0;
    bool expired_ = false;
    bool aborted_ = false;
  };

  /// Ends all that is under way.
  void abort();

 private:
  void look();
  void arm(steady::time_point when);

  asio::steady_timer timer_;
  steady::time_point armed_for_ = steady::time_point::max();
  std::vector<watch*> watches_;
};

/// `from` + `length`, with lengths that would overflow cut to a year.
inline steady::time_point later(steady::time_point from, duration length) {
  constexpr duration longest = std::chrono::hours(24 * 366);
  return from + (length < longest ? length : longest);
}

}  // namespace sluice::provider
