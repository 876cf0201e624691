#include "pipeline/admission/shared_budget.hpp"

#include <algorithm>
#include <cstdio>

namespace sluice::pipeline {
namespace {

using namespace std::chrono_literals;

// The lock is held for the time of one small write.
constexpr duration lock_nap = 10ms;
constexpr duration place_nap = 100ms;

class held {
 public:
  explicit held(budget_medium& what) : what_(what), got_(what.try_lock()) {}
  ~held() {
    if (got_) what_.unlock();
  }
  held(const held&) = delete;
  held& operator=(const held&) = delete;
  explicit operator bool() const { return got_; }

 private:
  budget_medium& what_;
  bool got_;
};

std::string in_seconds(duration d) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", to_seconds(d));
  return text;
}

}  // namespace

shared_budget::shared_budget(std::unique_ptr<budget_medium> at, sharing how)
    : at_(std::move(at)), how_(std::move(how)), outlook_({}, how_.shape) {
  settings_.limits = how_.limits;
  outlook_ = ring(settings_.limits, how_.shape);
  // A state is replaced as a whole, so it can be read without the lock. What is wrong with it is
  // seen to under the lock, when the first turn is asked for.
  const auto bytes = at_->read();
  if (!bytes) return;
  const auto found = parse_budget(*bytes);
  if (const auto* state = std::get_if<budget_state>(&found)) adopt(state->settings);
}

void shared_budget::adopt(const budget_settings& its) {
  if (how_.limits_asked_for && !same_limits(how_.limits, its.limits))
    throw budget_misuse("budget " + at_->name() + " has the limit " + in_words(its.limits) +
                        ", not " + in_words(how_.limits) +
                        "; leave --limit out to take the budget's, or make the budget anew with "
                        "`sluice budget init`");
  settings_ = its;
}

void shared_budget::warn(const std::string& text) const {
  if (how_.warn) how_.warn("budget " + at_->name() + ": " + text);
}

budget_state shared_budget::load(instant now, bool& anew) {
  const std::string boot = at_->boot_id();
  const std::string consequence = "; its limit counts as just used up";
  const auto bytes = at_->read();
  anew = true;
  if (!bytes) {
    warn("not there, so made anew with the limit " + in_words(settings_.limits) + consequence +
         " (`sluice budget init` avoids the wait where nothing was sent)");
    return used_up_budget(settings_, boot, now);
  }
  auto found = parse_budget(*bytes);
  if (const auto* bad = std::get_if<unusable>(&found)) {
    const std::string aside = at_->set_aside();
    warn(bad->why + "; kept as " + aside + " and made anew with the limit " +
         in_words(settings_.limits) + consequence);
    return used_up_budget(settings_, boot, now);
  }
  auto& state = std::get<budget_state>(found);
  adopt(state.settings);
  if (!of_this_boot(state, boot, now)) {
    warn("the machine was started anew since" + consequence);
    return used_up_budget(state.settings, boot, now);
  }
  anew = false;
  return std::move(state);
}

// Writes the state if it has changed, and keeps what the next look is answered from.
void shared_budget::finish(budget_line& line, const budget_state& before, bool anew, instant now) {
  const budget_state after = line.save();
  if (anew || after != before) at_->write(serialise(after));
  untold_.clear();
  outlook_ = line.outlook();
  outlook_.follow(how_.shape);
  not_before_ = std::max(not_before_, line.record().not_before());
  const auto mine = std::find_if(after.line.begin(), after.line.end(),
                                 [&](const planned_turn& p) { return p.client == how_.client; });
  in_line_ = mine != after.line.end();
  planned_.reset();
  if (in_line_ && mine->at > now) planned_ = mine->at;
}

prospect shared_budget::busy(instant now) {
  if (!busy_since_) busy_since_ = now;
  const duration since = now - *busy_since_;
  if (since <= how_.admission_timeout) return {prospect::kind::look_again, now + lock_nap, 0};
  refusal_ = "budget " + at_->name() + ": its lock has been held by " + at_->holder() + " for " +
             in_seconds(since) + "; see whether that is stopped";
  return {prospect::kind::refused, now, 0};
}

prospect shared_budget::transact(instant now, call_cost cost, bool take) {
  if (!have_place(now)) return {prospect::kind::look_again, now + place_nap, 0};
  const held lock(*at_);
  if (!lock) return busy(now);
  busy_since_.reset();
  bool anew = false;
  const budget_state before = load(now, anew);
  budget_line line(before);
  for (const news& n : untold_) n(line, now);
  budget_line::request r;
  r.who.process = how_.process;
  r.who.client = how_.client;
  r.who.job = how_.job;
  r.who.shape = how_.shape;
  r.who.cost = cost;
  r.previous_turn = previous_turn_;
  r.patience = how_.admission_timeout;
  r.take = take;
  const prospect p = line.ask(r, now);
  finish(line, before, anew, now);
  if (p.what == prospect::kind::granted) {
    previous_turn_ = now;
    if (place_taken_) ++places_in_use_;
    place_taken_ = false;
  }
  if (p.what == prospect::kind::refused)
    refusal_ = "budget " + at_->name() + ": the next turn would be in " + in_seconds(p.when - now) +
               ", behind " + std::to_string(before.line.size()) +
               " planned ones; --admission-timeout is " + in_seconds(how_.admission_timeout);
  return p;
}

// A place in flight is held while queueing for a turn, like a permit. Jobs that have none look for
// one now and then; whoever frees one lets them have it first.
bool shared_budget::have_place(instant now) {
  if (settings_.max_in_flight == 0 || place_taken_) return true;
  if (now >= places_from_) place_taken_ = at_->take_place(settings_.max_in_flight);
  at_->want_place(!place_taken_);
  return place_taken_;
}

void shared_budget::finished(std::uint64_t, instant now) {
  if (places_in_use_ == 0) return;
  --places_in_use_;
  at_->free_place();
  if (at_->others_want_place()) places_from_ = now + 2 * place_nap;
}

std::optional<instant> shared_budget::peek(instant now, call_cost cost) const {
  const auto due = outlook_.forecast(now, cost);
  return due && planned_ ? planned_ : due;
}

prospect shared_budget::look(instant now, instant earliest, call_cost cost) {
  if (earliest > now && !in_line_) return {prospect::kind::turn, earliest, 0};
  // What was planned holds until it is due, then it is looked at again.
  if (planned_ && untold_.empty()) return {prospect::kind::turn, *planned_, 0};
  return transact(now, cost, false);
}

prospect shared_budget::grant(instant now, call_cost cost) {
  return transact(now, cost, true);
}

void shared_budget::withdraw(instant now) {
  if (settings_.max_in_flight > 0) {
    if (place_taken_) at_->free_place();
    place_taken_ = false;
    at_->want_place(false);
  }
  if (!in_line_) return;
  try {
    tell([this](budget_line& l, instant) { l.withdraw(how_.client); }, now);
  } catch (const std::exception&) {
    // Called where nothing may be thrown. The turn counts as spent; the next look will fail loudly.
  }
}

bool shared_budget::flush(instant now) {
  const held lock(*at_);
  if (!lock) return false;
  bool anew = false;
  const budget_state before = load(now, anew);
  budget_line line(before);
  for (const news& n : untold_) n(line, now);
  finish(line, before, anew, now);
  return true;
}

// What cannot be told at once goes with the next look.
void shared_budget::tell(news what, instant now) {
  untold_.push_back(std::move(what));
  flush(now);
}

void shared_budget::cool_down(instant until, instant now) {
  not_before_ = std::max(not_before_, until);
  tell([until](budget_line& l, instant at) { l.cool_down(until, at); }, now);
}

void shared_budget::unexplained_refusal(instant granted, instant now) {
  tell([granted](budget_line& l, instant at) { l.unexplained_refusal(granted, at); }, now);
}

void shared_budget::settle(std::uint64_t number, std::int64_t tokens) {
  const auto& limits = settings_.limits;
  if (std::none_of(limits.begin(), limits.end(),
                   [](const limit& l) { return l.unit == limit_unit::tokens; }))
    return;
  // Not worth a write of its own.
  untold_.emplace_back([=](budget_line& l, instant) { l.settle(number, tokens); });
}

}  // namespace sluice::pipeline
