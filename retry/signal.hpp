// What one attempt said, in terms retry understands. provider/ makes one per attempt, at the edge,
// and nothing above it looks at the wire again.
#pragma once

#include <optional>

#include "retry/reason.hpp"
#include "retry/time.hpp"

namespace sluice::retry {

/// The one signal of an attempt.
struct signal {
  reason why = reason::ok;
  /// HTTP status, 0 when no status line came.
  int status = 0;
  /// The endpoint's own wait, of the best rank that the answer held. Absent is not zero. Already
  /// range-checked; a hint that is beyond any clock is `longest_hint`.
  std::optional<duration> hint;
  /// x-should-retry, when it was exactly "true" or "false".
  std::optional<bool> should_retry;
  /// The request left, or may have left, this machine and no answer came: it may cost money.
  bool may_have_been_billed = false;

  signal() = default;
  explicit signal(reason r, int http_status = 0) : why(r), status(http_status) {}
};

/// What an out-of-range hint is clamped to: longer than any --max-wait, and safe to add to a clock.
inline constexpr duration longest_hint = std::chrono::hours(24 * 366);

}  // namespace sluice::retry
