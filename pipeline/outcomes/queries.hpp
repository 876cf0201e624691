// What the store says: for status, results and rerun. Opens it read-only; a run may be going on.
// All throw store_error: 65 when there is nothing to tell, 74 when it cannot be read, 78 when a
// newer Sluice wrote it. A run is named by its ID or `last`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/documents/reader.hpp"
#include "pipeline/outcomes/run_store.hpp"

namespace sluice::pipeline {

/// What a store or a run came to. Of the whole store: the latest outcome of each document, the
/// calls of all runs.
struct summary {
  std::string run;  ///< the one named, or the last
  std::uint64_t documents = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::uint64_t failed_permanent = 0;
  std::uint64_t failed_transient = 0;
  std::uint64_t deferred = 0;
  std::uint64_t mismatched = 0;
  std::uint64_t calls = 0;
  std::uint64_t rate_limited = 0;  ///< calls answered with 429
  std::uint64_t retries = 0;       ///< calls beyond a document's first in a run
  std::uint64_t documents_retried = 0;
  duration model_wait{};                      ///< in queues and back-off, over all documents
  duration elapsed{};                         ///< from the beginning to the end of each run
  std::optional<std::int64_t> prompt_tokens;  ///< of all calls; absent when unknown for all
  std::optional<std::int64_t> completion_tokens;
  std::optional<duration> retry_after_p50;  ///< nearest rank
  std::optional<duration> retry_after_p95;
  std::optional<duration> jitter_min;
  std::optional<duration> jitter_max;
  std::map<std::string, std::uint64_t> by_reason;  ///< of those not succeeded
  bool unfinished = false;                         ///< the run goes on, or was killed
  std::optional<int> exit;                         ///< of the run
};

summary summarise(const std::string& path, const std::optional<std::string>& run = std::nullopt);

/// One JSON object on one line, without a line end.
std::string to_json(const summary& s);

/// How one document ended, as `results` shows it.
struct result_row {
  std::string id;
  std::string run;
  std::string outcome;
  std::string reason;
  std::string kind;  ///< permanent, transient or none
  std::string text;
  std::uint64_t attempts = 0;
  int http_status = 0;
  std::string request_id;
  std::optional<std::int64_t> prompt_tokens;
  std::optional<std::int64_t> completion_tokens;
  duration waited{};
  duration took{};
  std::string detail;
};

/// Calls `each` for every document, in the order in which they were first seen.
void for_each_result(const std::string& path, const std::optional<std::string>& run,
                     const std::function<void(const result_row&)>& each);

/// One JSON object on one line, without a line end. Unknown is null.
std::string to_json_line(const result_row& row);

/// One run as it was written down.
run_info find_run(const std::string& path, const std::optional<std::string>& run = std::nullopt);

/// When the latest calls to that endpoint were sent, oldest first, of those since `since` and at
/// most `most`: what a limit still remembers of runs before this one.
std::vector<wall_time> calls_since(const std::string& path, const std::string& endpoint,
                                   wall_time since, std::size_t most);

/// Which documents a re-run takes up.
enum class selection {
  failed_and_deferred,
  failed,
  ids,  ///< any documents that the store knows
};

/// What a re-run needs: where its documents came from, and how they were asked for.
struct rerun_choice {
  std::vector<rerun_target> targets;
  std::vector<std::string> unknown_ids;
  run_info of;  ///< the run whose settings are taken over
};

/// Of a run (or the last): the documents that ended so there and have not ended better since. With
/// `selection::ids`: those documents, whichever run had them.
rerun_choice rerun_targets(const std::string& path, const std::optional<std::string>& run,
                           selection which, const std::vector<std::string>& ids = {});

}  // namespace sluice::pipeline
