// Admission: the thin awaitable over a ledger. Calls queue for a turn, retries ahead of new
// documents and the oldest first; a turn is forecast without changing anything and granted when
// due, so that a cancel or a cool-down costs nothing.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <compare>
#include <functional>
#include <memory>
#include <set>
#include <variant>

#include "pipeline/admission/ledger.hpp"
#include "pipeline/clock.hpp"
#include "provider/slot.hpp"

namespace sluice::pipeline {

/// Where a call stands in the queues for permit and turn: retries first, then by document.
struct priority {
  bool fresh = true;        ///< false for a retry
  std::uint64_t order = 0;  ///< of the document in the batch

  auto operator<=>(const priority&) const = default;
};

/// Why there is no slot.
enum class no_slot {
  closed,      ///< admission was closed: the run is stopping
  too_costly,  ///< costs more than a limit allows at all
  too_far,     ///< the turn is further off than the longest wait: a quota is used up
  refused,     ///< a shared budget has no turn in time, or cannot be asked; nothing is spent
  not_ready,   ///< the caller's connection went away while queueing
};

class admission {
 public:
  /// Alone with the limit.
  admission(clock& time, ring record, duration max_wait);
  /// With grants written down elsewhere.
  admission(clock& time, std::shared_ptr<ledger> record, duration max_wait);
  ~admission();
  admission(const admission&) = delete;
  admission& operator=(const admission&) = delete;

  /// A place in the queue; leaving the scope gives it up at no cost.
  class place {
   public:
    place(admission& in, priority rank, call_cost cost);
    ~place();
    place(const place&) = delete;
    place& operator=(const place&) = delete;

   private:
    friend class admission;
    admission& in_;
    priority rank_;
    call_cost cost_;
    std::unique_ptr<alarm> alarm_;
  };

  using turn = std::variant<provider::slot, no_slot>;

  /// Returns when the turn is about two seconds off, or admission has closed: time to see to the
  /// connection.
  asio::awaitable<void> near(place& mine);

  /// Waits for the turn. `ready` is asked just before the grant; false gives `not_ready` and keeps
  /// the place.
  asio::awaitable<turn> take(place& mine, std::function<bool()> ready);

  /// The call of the slot of that number has ended, or the slot was burnt.
  void finished(std::uint64_t slot);

  /// Nobody is admitted for that long; those already queueing are planned anew.
  void cool_down(duration length);
  /// See ring::unexplained_refusal.
  void unexplained_refusal(instant granted);
  void settle(std::uint64_t slot, std::int64_t tokens) { ledger_->settle(slot, tokens); }
  /// Records a call that an earlier process made, so that the limit holds across a restart.
  void remember(instant when);

  /// One call at a time, none before `not_before`: the breaker is open.
  void probe_only(bool on, instant not_before);

  /// No more turns: everybody queueing returns with `closed`.
  void close();
  bool closed() const { return closed_; }

  std::size_t queueing() const { return queue_.size(); }
  unsigned in_flight() const { return in_flight_; }
  /// The next turn, as far as can be told now.
  instant next_turn() const;
  instant not_before() const { return ledger_->not_before(); }
  /// For how long the turn of the last `too_far` or `refused` was off.
  duration too_far_by() const { return too_far_by_; }
  /// Why the last turn was `refused`, for people.
  std::string refusal() const { return ledger_->refusal(); }

 private:
  friend class place;
  struct earlier {
    bool operator()(const place* a, const place* b) const { return a->rank_ < b->rank_; }
  };
  bool first(const place& p) const { return *queue_.begin() == &p; }
  bool too_far(instant due, instant now) const;
  void wake_first();
  void wake_all();
  bool may_go() const { return !probe_only_ || in_flight_ == 0; }

  clock& clock_;
  std::shared_ptr<ledger> ledger_;
  duration max_wait_;
  std::set<place*, earlier> queue_;
  unsigned in_flight_ = 0;
  bool closed_ = false;
  bool probe_only_ = false;
  instant probe_at_ = instant::min();
  duration too_far_by_{};
};

}  // namespace sluice::pipeline
