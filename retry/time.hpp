// The two kinds of time in Sluice, shared by every layer. Durations are integer nanoseconds so that
// ten pacing intervals add up exactly to the window they were cut from.
#pragma once

#include <chrono>

namespace sluice {

using duration = std::chrono::nanoseconds;

/// Tag of the monotonic time line that includes suspend (CLOCK_BOOTTIME on Linux). Reading it is
/// the business of pipeline/clock.hpp alone.
struct boot_clock {
  using duration = sluice::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<boot_clock, duration>;
  static constexpr bool is_steady = true;
};

/// A point on the monotonic time line.
using instant = boot_clock::time_point;

/// A calendar time, for records that people read. Never used to wait.
using wall_time = std::chrono::sys_time<std::chrono::milliseconds>;

/// Seconds as a decimal, for logs and reports.
constexpr double to_seconds(duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace sluice
