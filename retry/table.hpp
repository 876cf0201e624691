// The retry table: one row per reason. What a reason means for the document, for the run and for
// the clock is data here; retry/decision.cpp only reads it.
#pragma once

#include <span>
#include <string_view>

#include "retry/outcome.hpp"
#include "retry/reason.hpp"

namespace sluice::retry {

/// Whose trouble it is.
enum class scope {
  success,
  rate,      ///< the endpoint asks everybody to wait
  endpoint,  ///< the endpoint's fault; counts towards the breaker
  unsent,    ///< nothing was sent; counts towards the breaker, charges nobody
  document,  ///< this document or its answer
  account,   ///< the key or the bill: the run stops
  setup,     ///< URL, model, proxy, certificate: the run stops
  later,     ///< not now: the run ends, or the document is put off
};

/// How often a document may be sent again for this reason.
inline constexpr int never = 0;
inline constexpr int once = 1;
/// Bounded by patience, call budget or outage limit instead of a count.
inline constexpr int patiently = -1;

/// The exit codes a row can ask for (sysexits.h, and our own 3 and 4).
namespace exit_code {
inline constexpr int none = 0;
inline constexpr int some_failed = 3;
inline constexpr int mismatch = 4;
inline constexpr int unavailable = 69;
inline constexpr int come_back_later = 75;
inline constexpr int key_or_billing = 77;
inline constexpr int configuration = 78;
}  // namespace exit_code

/// One row. `again` counts re-sends; `end`/`kind` is the outcome when they are used up; `stops_run`
/// is the exit code of a run that this reason stops, or none.
struct row {
  reason why;
  std::string_view name;
  scope whose;
  int again;
  outcome end;
  outcome_class kind;
  int stops_run;
  std::string_view remedy;
};

/// All rows, in the order of `reason`.
std::span<const row> table();

/// The row of a reason.
const row& row_of(reason r);

}  // namespace sluice::retry
