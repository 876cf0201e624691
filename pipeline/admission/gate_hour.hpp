// What passed through a gate in the last hour, by the minute. For people who look at its page; it
// is not written down.
#pragma once

#include <array>
#include <cstdint>

#include "retry/time.hpp"

namespace sluice::pipeline {

class gate_hour {
 public:
  /// What happened within one minute of the gate's clock.
  struct minute {
    std::uint32_t calls = 0;         ///< slots granted
    std::uint32_t rate_limited = 0;  ///< calls reported to have met a 429
    bool operator==(const minute&) const = default;
  };
  static constexpr std::size_t length = 60;

  void call(instant now) { ++at(now).calls; }
  void rate_limited(instant now) { ++at(now).rate_limited; }

  /// The oldest first; the last is the minute under way.
  std::array<minute, length> up_to(instant now) const {
    std::array<minute, length> result{};
    const std::int64_t last = number_of(now);
    for (std::size_t i = 0; i < length; ++i) {
      const std::int64_t number = last - static_cast<std::int64_t>(length - 1 - i);
      const cell& c = cells_.at(place_of(number));
      if (c.number == number) result.at(i) = c.seen;
    }
    return result;
  }

 private:
  struct cell {
    std::int64_t number = INT64_MIN;  ///< which minute it tells of
    minute seen;
  };
  static std::int64_t number_of(instant now) {
    return std::chrono::floor<std::chrono::minutes>(now.time_since_epoch()).count();
  }
  static std::size_t place_of(std::int64_t number) {
    constexpr auto n = static_cast<std::int64_t>(length);
    return static_cast<std::size_t>(((number % n) + n) % n);
  }
  minute& at(instant now) {
    const std::int64_t number = number_of(now);
    cell& c = cells_.at(place_of(number));
    if (c.number != number) c = cell{number, {}};
    return c.seen;
  }

  std::array<cell, length> cells_{};
};

}  // namespace sluice::pipeline
