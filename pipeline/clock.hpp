// The clock seam: whatever waits or reads time takes a clock&. The real one uses CLOCK_BOOTTIME and
// Asio timers; the simulated one (fixtures/simulation) jumps from one waiter to the next.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "retry/time.hpp"

namespace sluice::pipeline {

namespace asio = boost::asio;

/// Something one coroutine at a time can wait on, until a point in time or until rung. A ring with
/// nobody waiting is remembered for the next wait. Waking says nothing: look at the state again.
class alarm {
 public:
  virtual ~alarm() = default;
  /// Returns at `when`, or earlier when rung. `instant::max()` waits for a ring alone.
  virtual asio::awaitable<void> wait_until(instant when) = 0;
  /// Wakes the waiter. Idempotent until the next wait.
  virtual void ring() = 0;
};

/// Time, and the means to wait for it.
class clock {
 public:
  virtual ~clock() = default;
  virtual instant now() const = 0;
  virtual wall_time wall_now() const = 0;
  virtual std::unique_ptr<alarm> make_alarm() = 0;
};

}  // namespace sluice::pipeline
