#include "pipeline/admission/admission.hpp"

#include <algorithm>

namespace sluice::pipeline {
namespace {

constexpr duration connect_ahead = std::chrono::seconds(2);

instant later_by(instant from, duration by) {
  return by > instant::max() - from ? instant::max() : from + by;
}

}  // namespace

admission::admission(clock& time, ring record, duration max_wait)
    : admission(time, std::make_shared<local_ledger>(std::move(record)), max_wait) {}

admission::admission(clock& time, std::shared_ptr<ledger> record, duration max_wait)
    : clock_(time), ledger_(std::move(record)), max_wait_(max_wait) {
  ledger_->on_news([this] { wake_first(); });
}

admission::~admission() {
  ledger_->on_news({});
}

admission::place::place(admission& in, priority rank, call_cost cost)
    : in_(in), rank_(rank), cost_(cost), alarm_(in.clock_.make_alarm()) {
  in_.queue_.insert(this);
}

admission::place::~place() {
  const bool was_first = in_.first(*this);
  in_.queue_.erase(this);
  if (was_first) in_.wake_first();
  if (in_.queue_.empty()) in_.ledger_->withdraw(in_.clock_.now());
}

asio::awaitable<void> admission::near(place& mine) {
  while (!closed_) {
    const instant now = clock_.now();
    if (!first(mine)) {
      // In burst shape those behind the first have their turn at the same instant.
      const auto hope = ledger_->peek(now, mine.cost_);
      if (!hope || (!probe_only_ && *hope <= now)) co_return;
      co_await mine.alarm_->wait_until(instant::max());
      continue;
    }
    if (!may_go()) {
      co_await mine.alarm_->wait_until(instant::max());
      continue;
    }
    const prospect p = ledger_->look(now, probe_at_, mine.cost_);
    if (p.what == prospect::kind::look_again) {
      co_await mine.alarm_->wait_until(p.when);
      continue;
    }
    if (p.what != prospect::kind::turn) co_return;
    const instant due = std::max(p.when, probe_at_);
    // Connecting is what a probe is about: not ahead of its time.
    const instant connect_at = std::max(due - connect_ahead, probe_at_);
    if (too_far(due, now) || connect_at <= now) co_return;
    co_await mine.alarm_->wait_until(connect_at);
  }
}

asio::awaitable<admission::turn> admission::take(place& mine, std::function<bool()> ready) {
  while (true) {
    if (closed_) co_return turn(no_slot::closed);
    const instant now = clock_.now();
    if (!first(mine) || !may_go()) {
      if (!ledger_->peek(now, mine.cost_)) co_return turn(no_slot::too_costly);
      co_await mine.alarm_->wait_until(instant::max());
      continue;
    }
    prospect p = ledger_->look(now, probe_at_, mine.cost_);
    if (p.what == prospect::kind::turn) {
      const instant due = std::max(p.when, probe_at_);
      if (too_far(due, now)) {
        too_far_by_ = due - now;
        co_return turn(no_slot::too_far);
      }
      if (due > now) {
        if (probe_at_ <= now) ledger_->stand_by(now);
        co_await mine.alarm_->wait_until(due);
        continue;
      }
      if (ready && !ready()) co_return turn(no_slot::not_ready);
      p = ledger_->grant(now, mine.cost_);
    }
    switch (p.what) {
      case prospect::kind::never:
        co_return turn(no_slot::too_costly);
      case prospect::kind::refused:
        too_far_by_ = p.when - now;
        co_return turn(no_slot::refused);
      case prospect::kind::turn:
      case prospect::kind::look_again:
        co_await mine.alarm_->wait_until(p.when);
        continue;
      case prospect::kind::granted:
        break;
    }
    ++in_flight_;
    // The next in line plans from here; those in burst shape may go in this very instant.
    if (auto next = std::next(queue_.begin()); next != queue_.end()) (*next)->alarm_->ring();
    provider::slot granted(provider::slot_key(), p.number, p.when,
                           later_by(p.when, ledger_->use_within()));
    co_return turn(std::move(granted));
  }
}

// A quota is used up. Cool-downs and probes have bounds of their own, and a cool-down of exactly
// the longest wait is longer by its jitter.
bool admission::too_far(instant due, instant now) const {
  return due - now > max_wait_ && due > ledger_->not_before() && due > probe_at_;
}

void admission::finished(std::uint64_t slot) {
  --in_flight_;
  ledger_->finished(slot, clock_.now());
  if (probe_only_) wake_first();
}

void admission::cool_down(duration length) {
  const instant now = clock_.now();
  ledger_->cool_down(later_by(now, length), now);
  wake_all();
}

void admission::unexplained_refusal(instant granted) {
  ledger_->unexplained_refusal(granted, clock_.now());
}

void admission::remember(instant when) {
  ledger_->remember(when);
}

void admission::probe_only(bool on, instant not_before) {
  probe_only_ = on;
  probe_at_ = on ? not_before : instant::min();
  wake_all();
}

void admission::close() {
  closed_ = true;
  wake_all();
}

instant admission::next_turn() const {
  const auto forecast = ledger_->peek(clock_.now(), call_cost());
  return std::max(forecast.value_or(instant::max()), probe_at_);
}

void admission::wake_first() {
  if (!queue_.empty()) (*queue_.begin())->alarm_->ring();
}

void admission::wake_all() {
  for (place* p : queue_) p->alarm_->ring();
}

}  // namespace sluice::pipeline
