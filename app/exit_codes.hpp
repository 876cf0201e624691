// The program's exit codes: a contract with cron jobs (see the README). The codes that a run's own
// decisions ask for stand in retry/table.hpp.
#pragma once

#include "pipeline/batch.hpp"

namespace sluice::app::exit_codes {

inline constexpr int success = 0;
inline constexpr int usage = 64;
inline constexpr int unreadable_input = 65;
inline constexpr int internal = 70;
inline constexpr int storage = 74;
inline constexpr int interrupted_base = 128;

/// What a batch's result means for whoever started it. `signal` is the number of the signal that
/// interrupted it, or 0.
inline int of(const pipeline::batch_result& result, int signal) {
  if (signal != 0) return interrupted_base + signal;
  if (result.stopped && result.stopped->exit != 0) return result.stopped->exit;
  if (result.deferred > 0) return retry::exit_code::come_back_later;
  if (result.mismatched > 0) return retry::exit_code::mismatch;
  if (result.failed > 0) return retry::exit_code::some_failed;
  return success;
}

}  // namespace sluice::app::exit_codes
