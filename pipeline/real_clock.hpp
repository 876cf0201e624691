// The clock that the program runs on.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include "pipeline/clock.hpp"

namespace sluice::pipeline {

/// CLOCK_BOOTTIME (suspend counts, wall-clock steps do not) and Asio timers.
class real_clock final : public clock {
 public:
  explicit real_clock(asio::any_io_executor executor);
  instant now() const override;
  wall_time wall_now() const override;
  std::unique_ptr<alarm> make_alarm() override;

 private:
  asio::any_io_executor executor_;
};

}  // namespace sluice::pipeline
