// How many seeds a sweep goes through: enough for every day, or what SLUICE_TEST_SEEDS says, for
// the long test of the same name.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace sluice::testing {

inline std::uint64_t seed_count(std::uint64_t every_day) {
  const char* asked = std::getenv("SLUICE_TEST_SEEDS");
  const long long number = asked == nullptr ? 0 : std::atoll(asked);
  return number > 0 ? static_cast<std::uint64_t>(number) : every_day;
}

}  // namespace sluice::testing
