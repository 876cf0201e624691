// The journey of a batch: documents are drawn from the source, each makes its way through permit,
// connection, slot, send, signal and decision, and ends with exactly one recorded outcome.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/admission/admission.hpp"
#include "pipeline/answers/answer_recording.hpp"
#include "pipeline/answers/expected_answers.hpp"
#include "pipeline/clock.hpp"
#include "pipeline/documents/document.hpp"
#include "pipeline/outcomes/records.hpp"
#include "pipeline/permits.hpp"
#include "provider/endpoint.hpp"
#include "retry/breaker.hpp"
#include "retry/decision.hpp"

namespace sluice::pipeline {

/// How a batch is run.
struct batch_options {
  unsigned concurrency = 8;       ///< permits: calls queueing for a turn or under way
  unsigned hands_per_permit = 4;  ///< documents in hand, times concurrency
  std::vector<limit> limits;      ///< empty: no limit
  pace shape = pace::smooth;
  retry::bounds patience;
  duration max_outage = std::chrono::minutes(15);
  duration grace = std::chrono::seconds(8);
  std::uint64_t seed = 1;
  bool again = false;              ///< analyse documents anew that an earlier run has finished with
  std::shared_ptr<ledger> budget;  ///< where grants are written down; null: in process
  bool keep_bodies = false;        ///< raw answers are written down with their attempts
  std::shared_ptr<answer_recording> recording;  ///< where answers are kept as fixtures; may be null
  std::shared_ptr<expected_answers> expected;   ///< what answers are compared with; may be null
};

/// Why a run ended before its documents did.
struct stop_cause {
  retry::reason why = retry::reason::interrupted;
  int exit = 0;
  std::string detail;                 ///< the endpoint's words
  std::optional<duration> come_back;  ///< from now
};

/// What a batch came to, skipped documents included.
struct batch_result {
  std::uint64_t documents = 0;
  std::uint64_t skipped = 0;  ///< finished with by an earlier run
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::uint64_t deferred = 0;
  std::uint64_t mismatched = 0;
  std::uint64_t calls = 0;
  std::uint64_t refused = 0;
  std::map<retry::reason, std::uint64_t> by_reason;  ///< of those not succeeded
  duration waited{};
  duration calling{};  ///< with at least one call under way
  std::optional<stop_cause> stopped;
};

/// What a batch tells whoever watches. Called on the I/O thread.
class observer {
 public:
  virtual ~observer() = default;
  virtual void attempt_ended(const attempt_record&, const retry::decision&) {}
  virtual void document_ended(const outcome_record&) {}
  virtual void run_stopping(const stop_cause&) {}
};

/// How a document becomes a request, and what tells that its inputs have changed.
struct document_view {
  std::function<std::string(const document&)> render;
  std::function<fingerprint(const document&)> inputs;
  std::function<std::int64_t(const std::string& body)> tokens;
};

class batch {
 public:
  /// All references must outlive the batch. `past` may be null.
  batch(asio::any_io_executor executor, clock& time, provider::endpoint& to, document_source& from,
        history* past, recorder& into, observer& watcher, document_view view,
        batch_options options);
  ~batch();
  batch(const batch&) = delete;
  batch& operator=(const batch&) = delete;

  /// Runs to the end. Throws storage_failure or input_failure after what was in flight is over.
  asio::awaitable<batch_result> run();

  /// Stops admission, cuts every wait short, gives calls under way the grace period.
  void interrupt();

  const batch_result& so_far() const { return result_; }
  admission& turns() { return admission_; }
  unsigned in_hand() const { return in_hand_; }

 private:
  struct journey;
  asio::awaitable<void> worker();
  asio::awaitable<void> handle(source_item item);
  asio::awaitable<void> travel(journey& j);
  asio::awaitable<std::optional<provider::attempt_report>> one_call(journey& j);
  asio::awaitable<void> end(journey& j, retry::outcome how, retry::reason why,
                            retry::outcome_class kind);
  asio::awaitable<void> end_mismatched(journey& j, std::string difference);
  void keep_answer(const journey& j, const outcome_record& r);
  void count(retry::outcome how, retry::reason why);
  asio::awaitable<void> end_grace();
  void note_attempt(journey& j, const provider::attempt_report& report,
                    const retry::decision& verdict);
  void act_on(const provider::attempt_report& report, const retry::decision& verdict,
              instant granted);
  void stop(stop_cause cause);
  void stop_waiting();
  bool stopping() const { return result_.stopped.has_value() || failure_ != nullptr; }

  asio::any_io_executor executor_;
  clock& clock_;
  provider::endpoint& endpoint_;
  document_source& source_;
  history* history_;
  recorder& recorder_;
  observer& observer_;
  document_view view_;
  batch_options options_;
  retry::random random_;
  admission admission_;
  permits permits_;
  permits reader_turn_;
  retry::breaker breaker_;
  retry::run_history run_;
  instant next_certificate_probe_ = instant::min();
  batch_result result_;
  std::exception_ptr failure_;
  bool exhausted_ = false;
  bool interrupted_ = false;
  bool finished_ = false;
  std::optional<instant> grace_until_;
  unsigned under_way_ = 0;
  instant calling_since_{};
  unsigned in_hand_ = 0;
  std::uint64_t next_order_ = 0;
  std::map<std::uint64_t, alarm*> backing_off_;
  std::unique_ptr<alarm> grace_bell_;
};

}  // namespace sluice::pipeline
