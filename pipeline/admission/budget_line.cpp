#include "pipeline/admission/budget_line.hpp"

#include <algorithm>

namespace sluice::pipeline {
namespace {

constexpr duration least_kept = std::chrono::seconds(5);
// How long those behind let one go first whose turn is due: in burst shape all turns of a window
// are at one instant, and whoever is quickest would have them all.
constexpr duration courtesy = std::chrono::milliseconds(250);
constexpr duration courteous_nap = std::chrono::milliseconds(10);

}  // namespace

budget_line::budget_line(budget_state state)
    : state_(std::move(state)), ring_(state_.settings.limits, pace::smooth, state_.record) {}

duration budget_line::kept_for() const {
  // Without limits there is no guard, and use_within() is unbounded.
  return state_.settings.limits.empty() ? least_kept : std::max(least_kept, ring_.use_within());
}

bool budget_line::spend_untaken(instant now) {
  const duration kept = kept_for();
  const auto lapsed = [&](const planned_turn& p) { return p.at + kept < now; };
  for (const planned_turn& p : state_.line)
    if (lapsed(p)) ring_.grant(p.at, p.cost);
  return std::erase_if(state_.line, lapsed) > 0;
}

// Counts a planned turn as granted; moves it first if it cannot be had when it was promised. Never
// to an earlier instant: its job looks again only when it believes that it is due. One that is due
// stays where it is, or a job that has died would be put off for ever.
void budget_line::stand(ring& ahead, planned_turn& p, instant now) const {
  if (p.at > now) {
    ahead.follow(p.shape);
    p.at = std::max(p.at, ahead.forecast(p.at, p.cost).value_or(p.at));
  }
  ahead.grant(p.at, p.cost);
}

void budget_line::plan_anew(instant now) {
  ring ahead = ring_;
  for (planned_turn& p : state_.line) stand(ahead, p, now);
}

prospect budget_line::ask(const request& r, instant now) {
  spend_untaken(now);
  auto& line = state_.line;
  const auto mine = std::find_if(line.begin(), line.end(),
                                 [&](const planned_turn& p) { return p.client == r.who.client; });
  ring ahead = ring_;
  for (auto p = line.begin(); p != mine; ++p) stand(ahead, *p, now);
  ahead.follow(r.who.shape);
  const auto due = ahead.forecast(now, r.who.cost);
  if (!due) {
    withdraw(r.who.client);
    return {prospect::kind::never, now, 0};
  }
  if (*due <= now) {
    if (!r.take) return {prospect::kind::turn, now, 0};
    const bool others_first = std::any_of(line.begin(), mine, [&](const planned_turn& p) {
      return p.at <= now && now < p.at + courtesy;
    });
    if (others_first) {
      if (mine == line.end()) {
        line.push_back(r.who);
        line.back().at = now;
      }
      return {prospect::kind::look_again, now + courteous_nap, 0};
    }
    if (mine != line.end()) line.erase(mine);
    const std::uint64_t number = ring_.grant(now, r.who.cost);
    plan_anew(now);
    return {prospect::kind::granted, now, number};
  }
  const instant from = std::max({now, r.previous_turn, ring_.not_before()});
  if (*due - from > r.patience) {
    withdraw(r.who.client);
    return {prospect::kind::refused, *due, 0};
  }
  planned_turn planned = r.who;
  planned.at = *due;
  if (mine == line.end())
    line.push_back(std::move(planned));
  else
    *mine = std::move(planned);
  plan_anew(now);
  return {prospect::kind::turn, *due, 0};
}

bool budget_line::withdraw(std::uint64_t client) {
  return std::erase_if(state_.line, [&](const planned_turn& p) { return p.client == client; }) > 0;
}

void budget_line::cool_down(instant until, instant now) {
  ring_.cool_down(until);
  plan_anew(now);
}

void budget_line::unexplained_refusal(instant granted, instant now) {
  ring_.unexplained_refusal(granted, now);
  plan_anew(now);
}

ring budget_line::outlook() const {
  ring ahead = ring_;
  for (const planned_turn& p : state_.line) ahead.grant(p.at, p.cost);
  return ahead;
}

budget_state budget_line::save() const {
  budget_state s = state_;
  s.record = ring_.save();
  return s;
}

}  // namespace sluice::pipeline
