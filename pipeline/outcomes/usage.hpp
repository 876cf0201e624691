// How a key was used over several runs: calls, refusals and waiting, and what to change about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "retry/time.hpp"

namespace sluice::pipeline {

/// One run, as far as it lies in the time asked about.
struct run_usage {
  std::string run;
  std::string model;
  wall_time started{};
  duration elapsed{};
  std::uint64_t calls = 0;
  std::uint64_t refused = 0;  ///< answered with 429
  duration waited{};          ///< in queues and back-off, over all documents
  duration calling{};         ///< with at least one call under way
  /// Of the calls that were sent while another was under way.
  std::uint64_t crowded = 0;
  std::uint64_t crowded_refused = 0;

  /// The share of the run's time in which no call was under way; 0 for a run that took no time.
  double waiting_share() const;
};

/// Adds up; `run` and `model` stay empty.
run_usage total(const std::vector<run_usage>& runs);

/// The runs of a store that were going on since then, oldest first; of a named run that one alone.
/// Throws as queries.hpp says.
std::vector<run_usage> usage_since(const std::string& path, wall_time since,
                                   const std::optional<std::string>& run = std::nullopt);

/// What to change about the settings.
enum class advice {
  nothing_sent,       ///< no call in that time
  stop_worrying,      ///< none refused: a shared budget is not needed
  lower_concurrency,  ///< refused only while other calls were under way
  lower_limit,        ///< refused within our own limit: it is too high, or others use the key
};

advice advise(const run_usage& all);
std::string_view name(advice a);

/// One JSON object on one line, without a line end.
std::string to_json(const std::vector<run_usage>& runs, duration span);

}  // namespace sluice::pipeline
