// The waiting line of a gate: who is next on a budget that many jobs ask for over the network.
// Pure: told the time, it says what is to be answered. The ring decides when, this decides who.
//
// Jobs go round, longest waiting first, and within a job calls go first in, first out. Jobs with
// priority have three turns of four while others wait as well. A job that had its turn a moment ago
// is waited for a little before those go that would come after it: in burst shape all turns of a
// window are at one instant, and whoever is quickest would have them all.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "pipeline/admission/budget_state.hpp"

namespace sluice::pipeline {

/// How somebody asks for a turn.
struct turn_request {
  std::string job;
  std::string attempt;  ///< tells the call from all others of its job; asked again, the same
  call_cost cost;
  duration waited{};  ///< already, be it at this gate before it was started again
  duration max_wait = std::chrono::seconds(90);  ///< the admission timeout
  duration longest = std::chrono::seconds(150);  ///< the call is over by then, said or not
  pace shape = pace::smooth;
  bool priority = false;
  bool ready = true;  ///< has its connection; else it keeps its place and is told when to make one
};

/// What somebody who asked is told.
struct turn_news {
  enum class kind {
    granted,    ///< the call of `number` may be sent
    waiting,    ///< in line; the turn is at `when`, as far as is known
    near,       ///< as `waiting`, and it is time to see to the connection
    refused,    ///< no turn in time: it would be at `when`; no longer in line
    too_costly  ///< never: costs more than a limit allows at all; not in line
  };
  kind what = kind::waiting;
  std::uint64_t client = 0;  ///< whom it is for
  std::uint64_t number = 0;  ///< of the grant
  instant when{};            ///< of the turn
  instant due{};             ///< with a grant: since when it could have been granted
  bool repeated = false;     ///< granted before already
};

/// How a call ended.
struct call_report {
  std::optional<int> status;            ///< HTTP; nothing: not known, or nothing was sent
  std::optional<duration> retry_after;  ///< nobody is to send for so long
  std::optional<std::int64_t> tokens;   ///< as the endpoint counted them
};

class gate_line {
 public:
  /// Picks up where the state left off. Grants are made up to `ahead` before their instant, which
  /// leaves time to write them down; they are not to be told before it.
  explicit gate_line(budget_state state, duration ahead = duration::zero());

  /// Tells one asking from all others: from job and attempt.
  static std::uint64_t client_of(std::string_view job, std::string_view attempt);

  /// Joins the line, or goes on waiting at the same place. An attempt that has been granted a slot
  /// which can still be used is told that again. Never grants anything new: see `advance`.
  turn_news ask(const turn_request& r, instant now);

  /// Goes out of the line; nothing is spent.
  void leave(std::uint64_t client);
  /// Its question was answered without a turn: the place is kept for a moment, for it to ask again.
  void pause(std::uint64_t client, instant now);
  /// The grant could not be told: nothing can have been sent, unless it asks again in time.
  void untold(std::uint64_t number);

  /// A call has ended. Returns whether it was known to be under way; what it says of the endpoint
  /// counts in any case.
  bool done(std::uint64_t number, std::uint64_t client, const call_report& how, instant now);

  /// Grants what is due, and says for whom; also who has waited in vain and who should connect.
  std::vector<turn_news> advance(instant now);
  /// When to advance again if nothing else happens.
  instant next_event(instant now) const;

  budget_state save() const;
  /// Changes whenever what `save` returns has changed.
  std::uint64_t revision() const { return revision_; }

  const ring& record() const { return ring_; }
  const budget_settings& settings() const { return state_.settings; }
  /// Whether anything bounds the calls: else a grant forgotten is no grant too many.
  bool bounded() const {
    return !state_.settings.limits.empty() || state_.settings.max_in_flight != 0;
  }
  std::size_t waiting() const { return waiters_.size(); }
  std::size_t in_flight() const { return under_way_.size(); }
  /// A slot must be used within this after its grant.
  duration use_within() const;
  /// When the turn of somebody in line comes, as far as is known.
  std::optional<instant> turn_of(std::uint64_t client, instant now) const;
  /// How many of each job are in line.
  std::map<std::string, std::size_t> line_by_job() const;

  /// How far ahead of its turn somebody is told to connect.
  static constexpr duration near_by = std::chrono::seconds(2);
  /// How long a place is kept between two questions.
  static constexpr duration kept_for = std::chrono::seconds(5);
  /// How long a job that had its turn is waited for.
  static constexpr duration courtesy = std::chrono::milliseconds(250);
  /// The longest pause before somebody whose gate is away tries again.
  static constexpr duration return_within = std::chrono::seconds(2);
  /// How long a gate that is started again waits for those who were in line: they come back each at
  /// its own time, and the first would take the turns of all.
  static constexpr duration regather = return_within + courtesy;
  /// Turns in a row that jobs with priority have while others wait.
  static constexpr unsigned priority_share = 3;

 private:
  struct waiter {
    turn_request asked;
    std::uint64_t client = 0;
    instant since{};
    instant ready_since{};
    std::optional<instant> gone_at;  ///< between two questions: kept until then
    bool told_near = false;
    instant due{};  ///< as planned last
  };
  struct job {
    std::deque<std::uint64_t> line;  ///< clients, the first to go first
    std::uint64_t round = 0;         ///< its next turn is in this one
    instant since = instant::min();  ///< its last turn, or the beginning of its waiting
    std::uint64_t place = 0;         ///< in the order of turns and arrivals
    instant last_turn = instant::min();
    instant called_at = instant::min();  ///< when its first was told to connect
    bool before(const job& other) const { return rank() < other.rank(); }
    std::tuple<std::uint64_t, instant, std::uint64_t> rank() const { return {round, since, place}; }
  };
  struct class_line {
    std::map<std::string, job> jobs;
    std::uint64_t round = 0;  ///< of the last turn
  };
  class_line& class_of(bool priority) { return classes_[priority ? 0 : 1]; }
  const class_line& class_of(bool priority) const { return classes_[priority ? 0 : 1]; }
  job& job_of(const waiter& w) { return class_of(w.asked.priority).jobs.at(w.asked.job); }
  const job& job_of(const waiter& w) const {
    return class_of(w.asked.priority).jobs.at(w.asked.job);
  }
  bool may_go(std::uint64_t client) const;

  void begin(instant now);
  waiter& join(const turn_request& r, std::uint64_t client, instant now);
  std::vector<std::uint64_t> in_order() const;
  void plan(instant now);
  void tidy(instant now);
  void refuse_the_late(instant now, std::vector<turn_news>& news);
  void call_the_near(instant now, std::vector<turn_news>& news);
  bool priority_goes_first() const;
  const waiter* first_of(const class_line& c) const;
  const waiter* next() const;
  std::optional<instant> awaited(const waiter& candidate, instant now) const;
  instant deadline(const waiter& w) const;
  bool room() const;
  turn_news grant(std::uint64_t client, instant due, instant at);

  budget_state state_;
  duration ahead_;
  ring ring_;
  std::array<class_line, 2> classes_;
  std::unordered_map<std::uint64_t, waiter> waiters_;
  std::vector<call_under_way> under_way_;
  std::uint64_t places_ = 0;
  std::optional<instant> began_;  ///< when first told of the time
  instant gathered_ = instant::min();
  unsigned streak_ = 0;  ///< turns with priority in a row
  std::uint64_t revision_ = 1;
  bool stale_ = false;  ///< the plan
  /// Since when there has been room in flight, and nobody has been waited for.
  instant unhindered_since_ = instant::min();
};

}  // namespace sluice::pipeline
