// Who is next on a shared budget: the ring with the turns that jobs have been promised. Pure; the
// one place that decides on a shared budget.
#pragma once

#include <optional>

#include "pipeline/admission/budget_state.hpp"
#include "pipeline/admission/ledger.hpp"

namespace sluice::pipeline {

class budget_line {
 public:
  /// Picks up where the file left off.
  explicit budget_line(budget_state state);

  /// What was promised and not taken in time counts as spent: whoever it was may have sent.
  /// Returns whether there was any.
  bool spend_untaken(instant now);

  /// How somebody asks.
  struct request {
    planned_turn who;         ///< its instant is not looked at
    instant previous_turn{};  ///< of the same job
    duration patience{};      ///< see ask
    bool take = false;        ///< grant if due; else only tell and plan
  };

  /// Tells the turn of a job, and plans it behind those planned before, or grants it. A turn that
  /// is more than `patience` after the latest of now, the job's previous turn and the cool-down is
  /// refused, and nothing is planned.
  prospect ask(const request& r, instant now);

  /// Gives a planned turn back. Returns whether there was one.
  bool withdraw(std::uint64_t client);

  /// See ring. Turns planned already are planned anew, in their order.
  void cool_down(instant until, instant now);
  void unexplained_refusal(instant granted, instant now);
  void settle(std::uint64_t number, std::int64_t tokens) { ring_.settle(number, tokens); }

  /// The ring with every planned turn granted: what comes after all of them.
  ring outlook() const;

  budget_state save() const;
  const ring& record() const { return ring_; }

  /// How long after its instant a planned turn is still kept for a job that is late.
  duration kept_for() const;

 private:
  using place = std::vector<planned_turn>::iterator;
  void stand(ring& ahead, planned_turn& p, instant now) const;
  void plan_anew(instant now);

  budget_state state_;
  ring ring_;
};

}  // namespace sluice::pipeline
