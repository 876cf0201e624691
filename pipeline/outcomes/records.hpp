// What is written down: one row per attempt, one outcome per document and run. And the two seams
// between the workers and the store.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "pipeline/documents/document.hpp"
#include "provider/endpoint.hpp"
#include "retry/outcome.hpp"
#include "retry/reason.hpp"
#include "retry/time.hpp"

namespace sluice::pipeline {

/// First 16 bytes of SHA-256 over endpoint origin, model, parameters, prompt and document.
using fingerprint = std::array<std::uint8_t, 16>;

/// One attempt, as sent and answered.
struct attempt_record {
  std::string document_id;
  unsigned attempt = 0;  ///< from 1, counts every call of this document in this run
  retry::reason why = retry::reason::ok;
  int http_status = 0;
  std::string request_id;
  std::string hints;
  std::string detail;
  std::string raw_body;  ///< only with --keep-bodies
  provider::usage tokens;
  provider::timings took;
  duration queued{};                    ///< waiting for permit and turn
  std::optional<duration> retry_after;  ///< the hint obeyed
  std::optional<duration> jitter;       ///< what was added on top, or the whole jittered wait
  bool may_have_been_billed = false;
  wall_time sent_at{};
};

/// How a document ended in this run.
struct outcome_record {
  std::string document_id;
  retry::outcome outcome = retry::outcome::succeeded;
  retry::reason why = retry::reason::ok;
  retry::outcome_class kind = retry::outcome_class::none;
  std::string text;
  std::string detail;
  unsigned attempts = 0;
  int http_status = 0;
  std::string request_id;
  provider::usage tokens;
  duration waited{};  ///< in queues and back-off
  duration took{};    ///< from taken in hand to the end
  fingerprint inputs{};
  origin from;
  /// A document from standard input as a line of JSONL, else empty.
  std::string kept_document;
  wall_time ended_at{};
};

/// What the store knows of a document from earlier runs.
struct prior_outcome {
  retry::outcome outcome = retry::outcome::succeeded;
  retry::outcome_class kind = retry::outcome_class::none;
  retry::reason why = retry::reason::ok;
  fingerprint inputs{};
};

/// Something is wrong with the store; carries the exit code it calls for. The message names the
/// file, the cause and the remedy.
class store_error : public std::runtime_error {
 public:
  store_error(int code, const std::string& text) : std::runtime_error(text), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

/// Reading or writing the store failed (exit 74).
class storage_failure : public store_error {
 public:
  explicit storage_failure(const std::string& text) : store_error(74, text) {}
};

/// Where workers write. Runs on the I/O thread; the writing itself may be elsewhere.
class recorder {
 public:
  virtual ~recorder() = default;
  /// Queues one attempt. Durable no later than the outcome that follows it.
  virtual void attempt(attempt_record r) = 0;
  /// Returns when the outcome is on disk. Throws storage_failure. A second outcome of the same
  /// document in the same run is a programming error and is refused.
  virtual asio::awaitable<void> outcome(outcome_record r) = 0;
};

/// What earlier runs left behind.
class history {
 public:
  virtual ~history() = default;
  /// The latest outcome of that document, from runs before this one.
  virtual std::optional<prior_outcome> find(std::string_view document_id) = 0;
  /// The text of the answer of that outcome; empty when there is none.
  virtual std::string answer(std::string_view document_id) = 0;
};

}  // namespace sluice::pipeline
