// From one signal and what went before to one decision. Pure: time comes in, durations go out.
#pragma once

#include <array>
#include <optional>

#include "retry/outcome.hpp"
#include "retry/random.hpp"
#include "retry/signal.hpp"
#include "retry/table.hpp"

namespace sluice::retry {

/// The bounds of patience. All waits are real time.
struct bounds {
  duration patience = std::chrono::minutes(30);  ///< for one document's refusals, from the first
  duration max_wait = std::chrono::minutes(15);  ///< longest hint that is waited for
  duration window = std::chrono::seconds(60);    ///< wait after a 429 without a hint
  unsigned calls_per_document = 5;               ///< the run's call budget, times its documents
  unsigned hard_cap = 8;                         ///< charged attempts per document, whatever came
};

/// What one document went through so far in this run.
struct document_history {
  std::array<unsigned char, 64> again_for{};  ///< re-sends charged, by reason
  unsigned unhinted_refusals = 0;
  unsigned charged = 0;                   ///< attempts that count against the hard cap
  std::optional<duration> refused_since;  ///< age of its first 429
};

/// What the run went through so far.
struct run_history {
  std::uint64_t calls = 0;
  std::uint64_t documents = 0;  ///< taken in hand
  std::uint64_t successes = 0;
  unsigned certificate_probes = 0;
};

/// What to do now.
struct decision {
  enum class act { done, again, give_up, stop_run };
  act what = act::done;
  reason why = reason::ok;
  /// Before the document may be sent again.
  duration delay{};
  /// Nobody on this endpoint may be sent before this has passed.
  std::optional<duration> cool_down;
  /// The random part of the wait.
  std::optional<duration> jitter;
  /// The outcome, for everything but `again`.
  outcome end = outcome::succeeded;
  outcome_class kind = outcome_class::none;
  /// Exit code of a run that is stopped.
  int exit = exit_code::none;
};

/// Full jitter: uniform between zero and min(20 s, 1 s * 2^n), n from 0 (Brooker, "Exponential
/// Backoff And Jitter", 2015).
duration full_jitter(unsigned n, random& rng);

/// Decides, and charges the document.
decision decide(const signal& s, document_history& document, const run_history& run,
                const bounds& within, random& rng);

}  // namespace sluice::retry
