// The gate without its sockets: questions wait here, grants are written down before they are
// answered. Decides nothing (gate_line.hpp does); runs on the clock seam, so that simulations run
// it as it is.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "pipeline/admission/gate_hour.hpp"
#include "pipeline/admission/gate_protocol.hpp"
#include "pipeline/admission/shared_budget.hpp"
#include "pipeline/clock.hpp"

namespace sluice::pipeline {

/// Where a gate's state is written.
class gate_store {
 public:
  virtual ~gate_store() = default;
  /// Replaces the state, all or nothing; durable on return. Throws storage_failure.
  virtual asio::awaitable<void> write(std::string bytes) = 0;
};

/// What a gate has seen since it started.
struct gate_counts {
  std::uint64_t granted = 0;
  std::uint64_t refused = 0;       ///< no turn in time
  std::uint64_t reported = 0;      ///< calls told to have ended
  std::uint64_t rate_limited = 0;  ///< of these, with 429
  /// Grants answered within each of `lateness_bounds` of their instant, then all.
  std::array<std::uint64_t, 9> late{};
  duration lateness{};  ///< in all
};

class gate_keeper {
 public:
  /// The bounds of gate_counts::late but the last.
  static constexpr std::array<std::int64_t, 8> lateness_bounds_ms{1, 2, 5, 10, 20, 50, 100, 1000};

  /// References must outlive the keeper and its coroutines.
  gate_keeper(clock& time, budget_state from, gate_store& store, std::size_t most_waiting = 1000);
  gate_keeper(const gate_keeper&) = delete;
  gate_keeper& operator=(const gate_keeper&) = delete;

  /// Grants turns until stop(). Throws storage_failure when the state cannot be written: nothing
  /// more is granted then.
  asio::awaitable<void> run();
  /// Sends everybody away who waits.
  void stop();

  /// One question for a turn. Whoever asked may hang up.
  class poll {
   public:
    explicit poll(clock& time) : bell_(time.make_alarm()) {}
    /// The connection has closed: nobody waits for the answer.
    void hang_up() {
      gone_ = true;
      bell_->ring();
    }
    /// The slot it was granted, or 0.
    std::uint64_t granted() const { return granted_; }

   private:
    friend class gate_keeper;
    std::unique_ptr<alarm> bell_;
    std::optional<turn_news> verdict_;
    std::uint64_t granted_ = 0;
    bool gone_ = false;
    bool superseded_ = false;
  };

  /// Waits in line. The answer of somebody who has hung up is of no use. A grant that cannot be
  /// told must be taken back with `untold`.
  asio::awaitable<slot_answer> question(const slot_question& q, poll& by);
  /// The answer that tells of this grant could not be sent.
  void untold(std::uint64_t number);
  /// A call has ended. Returns whether it was known to be under way.
  bool done(std::uint64_t number, std::uint64_t client, const call_report& how);

  const gate_line& line() const { return line_; }
  const gate_counts& counts() const { return counts_; }
  const gate_hour& hour() const { return hour_; }
  bool stopped() const { return stopped_; }

 private:
  asio::awaitable<void> write_down();
  void tell_the_held();
  void tell(const turn_news& news);
  slot_answer answer_of(const turn_news& news, instant arrived);
  slot_answer still_waiting(std::uint64_t client);
  void note_lateness(const turn_news& news, instant now);

  clock& clock_;
  gate_store& store_;
  gate_line line_;
  std::size_t most_waiting_;
  std::unique_ptr<alarm> bell_;
  std::unordered_map<std::uint64_t, poll*> polls_;
  std::vector<turn_news> repeated_;  ///< told again, once they are certainly written down
  std::vector<turn_news> held_;      ///< written down, and told when their instant has come
  std::uint64_t written_ = 0;        ///< the line's revision
  bool urgent_ = true;               ///< to be written at once
  std::optional<instant> unwritten_since_;
  gate_counts counts_;
  gate_hour hour_;
  bool stopped_ = false;
};

/// The state that a gate begins with: what the medium holds if that can be relied on, else a budget
/// that counts as just used up. `asked` replaces the budget's settings where it says something.
struct gate_wish {
  std::vector<limit> limits{limit{}};
  bool limits_asked_for = false;
  std::optional<std::uint32_t> max_in_flight;
  std::function<void(const std::string&)> warn;
};
budget_state load_gate_state(budget_medium& from, const gate_wish& asked, instant now);

}  // namespace sluice::pipeline
