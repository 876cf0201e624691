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
    : clock_(time), ring_(std::move(record)), max_wait_(max_wait) {}

admission::place::place(admission& in, priority rank, call_cost cost)
    : in_(in), rank_(rank), cost_(cost), alarm_(in.clock_.make_alarm()) {
  in_.queue_.insert(this);
}

admission::place::~place() {
  const bool was_first = in_.first(*this);
  in_.queue_.erase(this);
  if (was_first) in_.wake_first();
}

asio::awaitable<void> admission::near(place& mine) {
  while (!closed_) {
    const instant now = clock_.now();
    const auto forecast = ring_.forecast(now, mine.cost_);
    if (!forecast) co_return;
    if (first(mine)) {
      const instant due = std::max(*forecast, probe_at_);
      if (!may_go()) {
        co_await mine.alarm_->wait_until(instant::max());
        continue;
      }
      // Connecting is what a probe is about: not ahead of its time.
      const instant connect_at = std::max(due - connect_ahead, probe_at_);
      if (too_far(due, now) || connect_at <= now) co_return;
      co_await mine.alarm_->wait_until(connect_at);
      continue;
    }
    // In burst shape those behind the first have their turn at the same instant.
    if (!probe_only_ && *forecast <= now) co_return;
    co_await mine.alarm_->wait_until(instant::max());
  }
}

asio::awaitable<admission::turn> admission::take(place& mine, std::function<bool()> ready) {
  while (true) {
    if (closed_) co_return turn(no_slot::closed);
    const instant now = clock_.now();
    const auto forecast = ring_.forecast(now, mine.cost_);
    if (!forecast) co_return turn(no_slot::too_costly);
    if (!first(mine) || !may_go()) {
      co_await mine.alarm_->wait_until(instant::max());
      continue;
    }
    const instant due = std::max(*forecast, probe_at_);
    if (too_far(due, now)) {
      too_far_by_ = due - now;
      co_return turn(no_slot::too_far);
    }
    if (due > now) {
      co_await mine.alarm_->wait_until(due);
      continue;
    }
    if (ready && !ready()) co_return turn(no_slot::not_ready);
    const std::uint64_t number = ring_.grant(now, mine.cost_);
    ++in_flight_;
    // The next in line plans from here; those in burst shape may go in this very instant.
    if (auto next = std::next(queue_.begin()); next != queue_.end()) (*next)->alarm_->ring();
    provider::slot granted(provider::slot_key(), number, now, later_by(now, ring_.use_within()));
    co_return turn(std::move(granted));
  }
}

// A quota is used up. Cool-downs and probes have bounds of their own, and a cool-down of exactly
// the longest wait is longer by its jitter.
bool admission::too_far(instant due, instant now) const {
  return due - now > max_wait_ && due > ring_.not_before() && due > probe_at_;
}

void admission::finished() {
  --in_flight_;
  if (probe_only_) wake_first();
}

void admission::cool_down(duration length) {
  ring_.cool_down(later_by(clock_.now(), length));
  wake_all();
}

void admission::unexplained_refusal(instant granted) {
  ring_.unexplained_refusal(granted, clock_.now());
}

void admission::remember(instant when) {
  ring_.grant(when, call_cost());
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
  const auto forecast = ring_.forecast(clock_.now(), call_cost());
  return std::max(forecast.value_or(instant::max()), probe_at_);
}

void admission::wake_first() {
  if (!queue_.empty()) (*queue_.begin())->alarm_->ring();
}

void admission::wake_all() {
  for (place* p : queue_) p->alarm_->ring();
}

}  // namespace sluice::pipeline
