// The circuit breaker of a run: five failures of the endpoint in a row open it, then one probe at a
// time, and after --max-outage the run ends. Pure: fed with results, asked for the next instant.
#pragma once

#include <algorithm>
#include <optional>

#include "retry/random.hpp"
#include "retry/table.hpp"
#include "retry/time.hpp"

namespace sluice::retry {

/// Counts failures across documents. Document-level failures and refusals for rate never count.
class breaker {
 public:
  explicit breaker(duration max_outage) : max_outage_(max_outage) {}

  /// An attempt ended with a reason of this scope.
  void note(scope whose, instant now, random& rng) {
    if (whose != scope::endpoint && whose != scope::unsent) {
      // Any real answer shows that somebody is there.
      failures_ = 0;
      since_.reset();
      return;
    }
    if (!since_) since_ = now;
    if (++failures_ < threshold) return;
    const int doublings = std::min(failures_ - threshold, 5);
    const duration bound = std::min<duration>(longest_gap, first_gap * (1LL << doublings));
    probe_at_ = now + bound / 2 + rng.between(duration::zero(), bound / 2);
  }

  /// While open, only one call may be under way, and none before `probe_at`.
  bool open() const { return failures_ >= threshold; }
  instant probe_at() const { return open() ? probe_at_ : instant::min(); }

  /// The outage has outlasted its limit.
  bool given_up(instant now) const { return open() && since_ && now - *since_ >= max_outage_; }

  static constexpr int threshold = 5;

 private:
  static constexpr duration first_gap = std::chrono::seconds(2);
  static constexpr duration longest_gap = std::chrono::seconds(30);
  duration max_outage_;
  int failures_ = 0;
  std::optional<instant> since_;
  instant probe_at_{};
};

}  // namespace sluice::retry
