// Seeded randomness that is the same on every platform: std's distributions are not.
#pragma once

#include <cstdint>

#include "retry/time.hpp"

namespace sluice::retry {

/// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
class random {
 public:
  explicit random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

  /// Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }

  /// Uniform between the bounds.
  duration between(duration low, duration high) {
    if (high <= low) return low;
    return low +
           duration(static_cast<duration::rep>(unit() * static_cast<double>((high - low).count())));
  }

 private:
  std::uint64_t state_;
};

}  // namespace sluice::retry
