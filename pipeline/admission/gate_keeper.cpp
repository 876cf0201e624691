#include "pipeline/admission/gate_keeper.hpp"

#include <algorithm>
#include <cstdio>

namespace sluice::pipeline {
namespace {

using namespace std::chrono_literals;

// What is not worth a write of its own goes with the next, or is written after this.
constexpr duration lazily = 1s;
// A disk writes a grant down well within this.
constexpr duration ahead = 20ms;

std::string in_seconds(duration d) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", to_seconds(d));
  return text.data();
}

slot_answer refusal(int status, const char* error, std::string message) {
  slot_answer a;
  a.status = status;
  a.error = error;
  a.message = std::move(message);
  return a;
}

}  // namespace

gate_keeper::gate_keeper(clock& time, budget_state from, gate_store& store,
                         std::size_t most_waiting)
    : clock_(time),
      store_(store),
      line_(std::move(from), ahead),
      most_waiting_(most_waiting),
      bell_(time.make_alarm()) {}

asio::awaitable<void> gate_keeper::run() {
  while (!stopped_) {
    const instant now = clock_.now();
    std::vector<turn_news> granted = std::exchange(repeated_, {});
    for (const turn_news& n : line_.advance(now)) {
      if (n.what == turn_news::kind::granted)
        granted.push_back(n);
      else
        tell(n);
    }
    const bool dirty = line_.revision() != written_;
    if (dirty && !unwritten_since_) unwritten_since_ = now;
    const bool owed = !granted.empty() && line_.bounded();
    if (dirty && (owed || urgent_ || now - *unwritten_since_ >= lazily)) co_await write_down();
    held_.insert(held_.end(), granted.begin(), granted.end());
    tell_the_held();
    if (stopped_) break;
    instant next = line_.next_event(clock_.now());
    for (const turn_news& n : held_) next = std::min(next, n.when);
    if (unwritten_since_) next = std::min(next, *unwritten_since_ + lazily);
    co_await bell_->wait_until(next);
  }
  if (line_.revision() != written_) co_await write_down();
}

void gate_keeper::tell_the_held() {
  const instant now = clock_.now();
  const auto later = std::stable_partition(held_.begin(), held_.end(),
                                           [&](const turn_news& n) { return n.when > now; });
  const std::vector<turn_news> due(later, held_.end());
  held_.erase(later, held_.end());
  for (const turn_news& n : due) tell(n);
}

asio::awaitable<void> gate_keeper::write_down() {
  urgent_ = false;
  unwritten_since_.reset();
  const std::uint64_t revision = line_.revision();
  std::string bytes = serialise(line_.save());
  co_await store_.write(std::move(bytes));
  written_ = revision;
}

void gate_keeper::stop() {
  stopped_ = true;
  bell_->ring();
  for (auto& [client, p] : polls_) p->bell_->ring();
}

// Whoever is not there to hear of its grant may come back for it while the slot is good.
void gate_keeper::tell(const turn_news& news) {
  const bool granted = news.what == turn_news::kind::granted;
  if (granted && !news.repeated) {
    ++counts_.granted;
    hour_.call(clock_.now());
  }
  if (news.what == turn_news::kind::refused) ++counts_.refused;
  const auto it = polls_.find(news.client);
  if (it == polls_.end()) {
    if (granted) line_.untold(news.number);
    return;
  }
  if (granted && !news.repeated) note_lateness(news, clock_.now());
  it->second->verdict_ = news;
  it->second->bell_->ring();
}

void gate_keeper::note_lateness(const turn_news& news, instant now) {
  const duration late = std::max(duration::zero(), now - news.due);
  counts_.lateness += late;
  for (std::size_t i = 0; i < counts_.late.size(); ++i)
    if (i == lateness_bounds_ms.size() ||
        late <= std::chrono::milliseconds(lateness_bounds_ms.at(i)))
      ++counts_.late.at(i);
}

slot_answer gate_keeper::still_waiting(std::uint64_t client) {
  const instant now = clock_.now();
  slot_answer a;
  a.status = 202;
  a.turn_in = std::min<duration>(line_.turn_of(client, now).value_or(now) - now, 366 * 24h);
  a.cool_down = std::max(line_.record().not_before(), now) - now;
  return a;
}

slot_answer gate_keeper::answer_of(const turn_news& news, instant arrived) {
  const instant now = clock_.now();
  switch (news.what) {
    case turn_news::kind::granted: {
      slot_answer a;
      a.status = 200;
      a.slot = slot_id(news.number, news.client);
      a.use_within = std::max(duration::zero(), news.when + line_.use_within() - now);
      a.waited = now - arrived;
      return a;
    }
    case turn_news::kind::refused: {
      const duration off = news.when - now;
      slot_answer a = refusal(409, "no_turn_in_time",
                              "the next turn would be in " + in_seconds(off) + ", behind " +
                                  std::to_string(line_.waiting()) + " waiting");
      a.retry_in = std::max<duration>(off, 1ms);
      return a;
    }
    case turn_news::kind::too_costly:
      return refusal(
          422, "too_costly",
          "costs more than the limit " + in_words(line_.settings().limits) + " allows at all");
    case turn_news::kind::waiting:
    case turn_news::kind::near:
      break;
  }
  line_.pause(news.client, now);
  return still_waiting(news.client);
}

asio::awaitable<slot_answer> gate_keeper::question(const slot_question& q, poll& by) {
  const instant arrived = clock_.now();
  if (stopped_) co_return refusal(503, "closing", "the gate is closing");
  if (q.limits && !same_limits(*q.limits, line_.settings().limits)) {
    slot_answer a = refusal(409, "another_limit",
                            "the gate has the limit " + in_words(line_.settings().limits) +
                                ", not " + in_words(*q.limits));
    a.limits = line_.settings().limits;
    co_return a;
  }
  const std::uint64_t client = gate_line::client_of(q.what.job, q.what.attempt);
  if (line_.waiting() >= most_waiting_ && !line_.turn_of(client, arrived)) {
    slot_answer a = refusal(503, "too_many_waiting",
                            std::to_string(line_.waiting()) + " calls are waiting already");
    a.retry_in = 1s;
    co_return a;
  }
  const turn_news first = line_.ask(q.what, arrived);
  bell_->ring();
  if (first.what == turn_news::kind::granted) {
    repeated_.push_back(first);
  } else if (first.what != turn_news::kind::waiting) {
    if (first.what == turn_news::kind::refused) ++counts_.refused;
    co_return answer_of(first, arrived);
  }

  // Asked twice at once: the later question counts, its asker has most likely given up the other.
  if (const auto other = polls_.find(client); other != polls_.end()) {
    other->second->superseded_ = true;
    other->second->bell_->ring();
  }
  polls_[client] = &by;
  const instant until = q.poll ? arrived + *q.poll : instant::max();
  while (!by.verdict_ && !by.gone_ && !by.superseded_ && !stopped_ && clock_.now() < until)
    co_await by.bell_->wait_until(until);
  if (by.superseded_) co_return refusal(409, "superseded", "the same attempt was asked for anew");
  polls_.erase(client);
  if (by.verdict_) {
    if (by.verdict_->what == turn_news::kind::granted) by.granted_ = by.verdict_->number;
    if (by.gone_ && by.granted_ != 0) untold(by.granted_);
    co_return answer_of(*by.verdict_, arrived);
  }
  if (by.gone_ || stopped_) {
    line_.leave(client);
    bell_->ring();
    co_return refusal(503, "closing", "the gate is closing");
  }
  line_.pause(client, clock_.now());
  bell_->ring();
  co_return still_waiting(client);
}

void gate_keeper::untold(std::uint64_t number) {
  line_.untold(number);
  bell_->ring();
}

bool gate_keeper::done(std::uint64_t number, std::uint64_t client, const call_report& how) {
  ++counts_.reported;
  if (how.status == 429) {
    ++counts_.rate_limited;
    hour_.rate_limited(clock_.now());
  }
  // What holds everybody back must not be forgotten.
  if (how.status == 429 || how.retry_after) urgent_ = true;
  bell_->ring();
  return line_.done(number, client, how, clock_.now());
}

budget_state load_gate_state(budget_medium& from, const gate_wish& asked, instant now) {
  const std::string boot = from.boot_id();
  const std::string consequence = "; the limit counts as just used up: one window to wait";
  const auto warn = [&](const std::string& text) {
    if (asked.warn) asked.warn("state " + from.name() + ": " + text);
  };
  budget_settings wanted;
  wanted.limits = asked.limits;
  wanted.max_in_flight = asked.max_in_flight.value_or(0);
  const auto bytes = from.read();
  if (!bytes) {
    warn("not there, so made anew" + consequence);
    return used_up_budget(wanted, boot, now);
  }
  auto found = parse_budget(*bytes);
  if (const auto* bad = std::get_if<unusable>(&found)) {
    const std::string aside = from.set_aside();
    warn(bad->why + "; kept as " + aside + " and made anew" + consequence);
    return used_up_budget(wanted, boot, now);
  }
  auto& state = std::get<budget_state>(found);
  if (asked.max_in_flight) state.settings.max_in_flight = *asked.max_in_flight;
  const bool other = asked.limits_asked_for && !same_limits(asked.limits, state.settings.limits);
  const bool boot_changed = !of_this_boot(state, boot, now);
  if (!other && !boot_changed) return std::move(state);
  if (other)
    warn("has the limit " + in_words(state.settings.limits) + ", now " + in_words(asked.limits) +
         consequence);
  else
    warn("the machine was started anew since" + consequence);
  wanted.limits = other ? asked.limits : state.settings.limits;
  wanted.max_in_flight = state.settings.max_in_flight;
  budget_state anew = used_up_budget(wanted, boot, now);
  // Calls on other machines go on when this one starts anew.
  for (call_under_way c : state.under_way) {
    if (boot_changed) c.at = now;
    anew.under_way.push_back(c);
  }
  return anew;
}

}  // namespace sluice::pipeline
