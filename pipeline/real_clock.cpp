#include "pipeline/real_clock.hpp"

#include <time.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace sluice::pipeline {
namespace {

// The longest single sleep: Asio's timers stand still during suspend, so a long wait is looked at
// again now and then.
constexpr duration longest_nap = std::chrono::seconds(5);

class timer_alarm final : public alarm {
 public:
  timer_alarm(const real_clock& owner, const asio::any_io_executor& executor)
      : clock_(owner), timer_(executor) {}

  asio::awaitable<void> wait_until(instant when) override {
    while (!rung_) {
      if (when == instant::max()) {
        timer_.expires_at(std::chrono::steady_clock::time_point::max());
      } else {
        const duration left = when - clock_.now();
        if (left <= duration::zero()) break;
        timer_.expires_after(std::min(left, longest_nap));
      }
      co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
    }
    rung_ = false;
  }

  void ring() override {
    rung_ = true;
    timer_.cancel();
  }

 private:
  const real_clock& clock_;
  asio::steady_timer timer_;
  bool rung_ = false;
};

}  // namespace

real_clock::real_clock(asio::any_io_executor executor) : executor_(std::move(executor)) {}

instant real_clock::now() const {
  timespec t{};
  ::clock_gettime(CLOCK_BOOTTIME, &t);
  return instant(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
}

wall_time real_clock::wall_now() const {
  return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

std::unique_ptr<alarm> real_clock::make_alarm() {
  return std::make_unique<timer_alarm>(*this, executor_);
}

}  // namespace sluice::pipeline
