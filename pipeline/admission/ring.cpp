#include "pipeline/admission/ring.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace sluice::pipeline {
namespace {

using namespace std::chrono_literals;

constexpr duration least_guard = 50ms;
constexpr std::int64_t guard_share = 30;
// Longer windows are quotas: they cap, and spreading a batch over a day would help nobody.
constexpr duration longest_paced_window = 1h;
constexpr double cut_to = 0.7;
constexpr double least_share = 0.1;
constexpr double ease_by = 0.03;

}  // namespace

duration ring::default_guard(const limit& l) {
  return std::max(least_guard, l.window / guard_share);
}

bool ring::track::paces() const {
  return what.window < longest_paced_window;
}

std::int64_t ring::track::cost_of(call_cost cost) const {
  return what.unit == limit_unit::requests ? 1 : std::max<std::int64_t>(cost.tokens, 1);
}

void ring::track::expire(instant now) {
  while (!entries.empty() && entries.front().at + span() <= now) {
    in_window -= entries.front().cost;
    entries.pop_front();
  }
}

// The rate after the windows that have passed without a 429 since the last change.
double ring::track::rate_at(instant now) const {
  if (rate >= full_rate) return full_rate;
  const auto windows = std::max<duration::rep>(0, (now - eased_at) / what.window);
  return std::min(full_rate,
                  rate + static_cast<double>(windows) * ease_by * static_cast<double>(what.amount));
}

duration ring::track::gap(bool smooth, instant now) const {
  if (!paces()) return duration::zero();
  duration pause{};
  if (smooth) {
    // Rounded up: N gaps must never be shorter than the window and its guard.
    const auto share = (span().count() + what.amount - 1) / what.amount;
    pause = std::min(span(), duration(share) * last_cost);
  }
  if (const double r = rate_at(now); r < full_rate) {
    const double ticks = static_cast<double>(what.window.count()) / r;
    pause = std::max(pause, duration(static_cast<duration::rep>(std::ceil(ticks))));
  }
  return pause;
}

// r_max = N*W/(W+G): without a slow-down the pace is the smooth one.
void ring::track::guard_by(duration g) {
  guard = g;
  if (what.unit != limit_unit::requests) return;
  full_rate = static_cast<double>(what.amount) * static_cast<double>(what.window.count()) /
              static_cast<double>(span().count());
}

ring::ring(std::vector<limit> limits, pace shape, std::optional<duration> guard)
    : limits_(std::move(limits)), shape_(shape) {
  for (const limit& l : limits_) {
    track t;
    t.what = l;
    t.guard_by(guard.value_or(default_guard(l)));
    t.rate = t.full_rate;
    tracks_.push_back(std::move(t));
  }
}

ring::ring(std::vector<limit> limits, pace shape, const ring_state& from)
    : ring(std::move(limits), shape) {
  if (from.tracks.size() != tracks_.size())
    throw std::invalid_argument("a ring's state must have one track for each limit");
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    track& t = tracks_[i];
    const ring_state::track& s = from.tracks[i];
    t.guard_by(s.guard);
    t.entries.assign(s.entries.begin(), s.entries.end());
    for (const entry& e : s.entries) t.in_window += e.cost;
    t.last_at = s.last_at;
    t.last_cost = s.last_cost;
    t.rate = s.rate;
    t.eased_at = s.eased_at;
  }
  not_before_ = from.not_before;
  smooth_until_ = from.smooth_until;
  cut_at_ = from.cut_at;
  granted_ = from.granted;
}

ring_state ring::save() const {
  ring_state s;
  for (const track& t : tracks_)
    s.tracks.push_back({t.guard, std::vector<entry>(t.entries.begin(), t.entries.end()), t.last_at,
                        t.last_cost, t.rate, t.eased_at});
  s.not_before = not_before_;
  s.smooth_until = smooth_until_;
  s.cut_at = cut_at_;
  s.granted = granted_;
  return s;
}

std::optional<instant> ring::forecast(instant now, call_cost cost) const {
  instant turn = std::max(now, not_before_);
  for (const track& t : tracks_) {
    const std::int64_t needs = t.cost_of(cost);
    if (needs > t.what.amount) return std::nullopt;
    // Entries leave the window oldest first, until enough has left.
    std::int64_t used = t.in_window;
    for (const entry& e : t.entries) {
      if (used + needs <= t.what.amount) break;
      turn = std::max(turn, e.at + t.span());
      used -= e.cost;
    }
  }
  // The pace depends on the instant, so it comes after the windows.
  for (const track& t : tracks_) {
    if (t.last_cost == 0) continue;
    const bool smooth = shape_ == pace::smooth || turn < smooth_until_;
    turn = std::max(turn, t.last_at + t.gap(smooth, now));
  }
  return turn;
}

std::uint64_t ring::grant(instant now, call_cost cost) {
  ++granted_;
  for (track& t : tracks_) {
    t.expire(now);
    const std::int64_t needs = t.cost_of(cost);
    t.entries.push_back({granted_, now, needs});
    t.in_window += needs;
    // A turn that nobody took is written down late, behind those granted since.
    if (t.last_cost == 0 || now >= t.last_at) {
      t.last_at = now;
      t.last_cost = needs;
    }
  }
  return granted_;
}

void ring::use_up(instant now) {
  ++granted_;
  duration quiet{};
  for (track& t : tracks_) {
    t.entries.push_back({granted_, now, t.what.amount});
    t.in_window += t.what.amount;
    t.last_at = now;
    t.last_cost = t.what.amount;
    if (t.paces()) quiet = std::max(quiet, t.span());
  }
  if (quiet > duration::zero()) cool_down(now + quiet);
}

void ring::settle(std::uint64_t number, std::int64_t tokens) {
  for (track& t : tracks_) {
    if (t.what.unit != limit_unit::tokens) continue;
    const auto it = std::lower_bound(t.entries.begin(), t.entries.end(), number,
                                     [](const entry& e, std::uint64_t n) { return e.number < n; });
    if (it == t.entries.end() || it->number != number) continue;
    t.in_window += tokens - it->cost;
    it->cost = tokens;
  }
}

void ring::cool_down(instant until) {
  if (until <= not_before_) return;
  not_before_ = until;
  for (const track& t : tracks_)
    if (t.paces()) smooth_until_ = std::max(smooth_until_, until + t.span());
}

void ring::unexplained_refusal(instant granted, instant now) {
  if (granted <= cut_at_) return;
  cut_at_ = now;
  for (track& t : tracks_) {
    if (t.full_rate <= 0 || !t.paces()) continue;
    const double n = static_cast<double>(t.what.amount);
    t.rate = std::max(least_share * n, cut_to * t.rate_at(now));
    t.eased_at = now;
  }
}

duration ring::use_within() const {
  duration least = duration::max();
  for (const track& t : tracks_) least = std::min(least, t.guard / 2);
  return least;
}

}  // namespace sluice::pipeline
