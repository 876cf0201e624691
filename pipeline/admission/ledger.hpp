// The seam of admission: where grants are written down. In process that is a ring; a shared budget
// writes them where other jobs see them. A ledger never waits: it says when to ask again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "pipeline/admission/ring.hpp"

namespace sluice::pipeline {

/// What a ledger says about the turn of whoever is first in line.
struct prospect {
  enum class kind {
    turn,        ///< the turn is at `when`, as far as is known now
    granted,     ///< granted at `when`, under this number
    look_again,  ///< not to be told yet: ask again at `when`, or when the bell rings
    never,       ///< costs more than a limit allows at all
    refused,     ///< the turn, at `when`, is further off than a shared budget lets anybody wait
  };
  kind what = kind::never;
  instant when{};
  std::uint64_t number = 0;
};

class ledger {
 public:
  virtual ~ledger() = default;

  /// When a call of that cost could be sent, if nothing else happens; nothing: never. Changes
  /// nothing and may be out of date.
  virtual std::optional<instant> peek(instant now, call_cost cost) const = 0;

  /// Asked for the first in line alone: its turn. A shared ledger plans the turn, if it is not
  /// wanted before `earliest` or due at once. Never `granted`.
  virtual prospect look(instant now, instant earliest, call_cost cost) = 0;

  /// Grants the turn that `look` told, when it is due. What is not `granted` is to be looked at
  /// again: the turn has moved. A `turn` or `look_again` is later than `now`.
  virtual prospect grant(instant now, call_cost cost) = 0;

  /// The first in line has its connection: from now on its turn may come at any moment.
  virtual void stand_by(instant) {}
  /// Nobody is in line any more: a planned turn is given back.
  virtual void withdraw(instant) {}
  /// The call of a grant has ended, or its slot was burnt.
  virtual void finished(std::uint64_t, instant) {}

  /// `bell` is rung, never from within a call to the ledger, when what the ledger says has changed
  /// by itself: look again.
  virtual void on_news(std::function<void()>) {}

  /// See the ring's functions of these names.
  virtual void cool_down(instant until, instant now) = 0;
  virtual void unexplained_refusal(instant granted, instant now) = 0;
  virtual void settle(std::uint64_t number, std::int64_t tokens) = 0;
  /// Records a call that an earlier process made, unless the ledger knows of it anyway.
  virtual void remember(instant when) = 0;

  virtual duration use_within() const = 0;
  virtual instant not_before() const = 0;
  /// Why the last turn was `refused`, for people.
  virtual std::string refusal() const { return ""; }
};

/// The ledger of a process that is alone with its limit.
class local_ledger final : public ledger {
 public:
  explicit local_ledger(ring record) : ring_(std::move(record)) {}

  std::optional<instant> peek(instant now, call_cost cost) const override {
    return ring_.forecast(now, cost);
  }
  prospect look(instant now, instant, call_cost cost) override {
    const auto due = ring_.forecast(now, cost);
    if (!due) return {prospect::kind::never, now, 0};
    return {prospect::kind::turn, *due, 0};
  }
  prospect grant(instant now, call_cost cost) override {
    return {prospect::kind::granted, now, ring_.grant(now, cost)};
  }
  void cool_down(instant until, instant) override { ring_.cool_down(until); }
  void unexplained_refusal(instant granted, instant now) override {
    ring_.unexplained_refusal(granted, now);
  }
  void settle(std::uint64_t number, std::int64_t tokens) override { ring_.settle(number, tokens); }
  void remember(instant when) override { ring_.grant(when, call_cost()); }
  duration use_within() const override { return ring_.use_within(); }
  instant not_before() const override { return ring_.not_before(); }

 private:
  ring ring_;
};

}  // namespace sluice::pipeline
