#include "pipeline/admission/gate_ledger.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>

#include "pipeline/admission/shared_budget.hpp"

namespace sluice::pipeline {
namespace {

using namespace std::chrono_literals;

// A question is put off no longer: what stands between may cut a silent connection.
constexpr duration longest_poll = 15s;
constexpr duration shortest_poll = 100ms;
constexpr duration answer_slack = 5s;
// A gate started again is found soon, by all its clients at their own times.
constexpr duration longest_pause = gate_line::return_within;
constexpr duration first_pause = 100ms;
constexpr duration telling_time = 5s;
constexpr duration closing_time = 2s;
constexpr duration keep_place_every = 2s;
constexpr unsigned most_late = 5;
// Whatever cuts every question off is no gate that is started again.
constexpr unsigned most_unanswered = 3;  // admission timeouts

std::string in_seconds(duration d) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", to_seconds(d));
  return text.data();
}

}  // namespace

gate_ledger::gate_ledger(asio::any_io_executor executor, clock& time,
                         std::unique_ptr<gate_wire> asking, std::unique_ptr<gate_wire> telling,
                         gate_use how)
    : executor_(std::move(executor)),
      clock_(time),
      asking_(std::move(asking)),
      telling_(std::move(telling)),
      how_(std::move(how)),
      random_(how_.seed),
      asker_bell_(time.make_alarm()),
      teller_bell_(time.make_alarm()) {}

asio::awaitable<void> gate_ledger::run() {
  auto group = asio::experimental::make_parallel_group(
      asio::co_spawn(executor_, ask_for_turns(), asio::deferred),
      asio::co_spawn(executor_, tell_of_ends(), asio::deferred));
  auto [order, first, second] =
      co_await std::move(group).async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
  if (first) std::rethrow_exception(first);
  if (second) std::rethrow_exception(second);
}

void gate_ledger::close() {
  if (closed_) return;
  closed_ = true;
  close_by_ = clock_.now() + closing_time;
  withdraw(clock_.now());
  asker_bell_->ring();
  teller_bell_->ring();
}

// --- What admission asks
// ----------------------------------------------------------------------------

std::optional<instant> gate_ledger::peek(instant, call_cost) const {
  return expected_.value_or(instant::max());
}

prospect gate_ledger::look(instant now, instant earliest, call_cost cost) {
  if (!mistake_.empty()) throw budget_misuse(mistake_);
  if (refused_until_) return {prospect::kind::refused, std::max(now, *refused_until_), 0};
  if (earliest > now) {
    withdraw(now);
    return {prospect::kind::turn, earliest, 0};
  }
  if (hand_ && !hand_->good(now)) {
    give_back();
    start_anew();
  }
  // Another one is first now. What costs less may have the turn as it is.
  if (!wanted_ || cost.tokens > cost_.tokens) {
    if (wanted_)
      withdraw(now);
    else
      wanted_since_ = now;
    wanted_ = true;
    cost_ = cost;
    asker_bell_->ring();
    return {prospect::kind::look_again, instant::max(), 0};
  }
  if (never_) return {prospect::kind::never, now, 0};
  if (hand_) return {prospect::kind::turn, now, 0};
  if (near_) return {prospect::kind::turn, std::max(now, expected_.value_or(now)), 0};
  if (expected_ && *expected_ > now) return {prospect::kind::turn, *expected_, 0};
  return {prospect::kind::look_again, instant::max(), 0};
}

prospect gate_ledger::grant(instant now, call_cost) {
  if (!hand_ || !hand_->good(now)) {
    stand_by(now);
    return {prospect::kind::look_again, instant::max(), 0};
  }
  const prospect granted{prospect::kind::granted, hand_->when, hand_->number};
  use_within_ = hand_->use_within;
  calls_.emplace(hand_->number, std::move(hand_->id));
  hand_.reset();
  wanted_ = false;
  start_anew();
  return granted;
}

void gate_ledger::stand_by(instant) {
  if (standing_by_) return;
  standing_by_ = true;
  asker_bell_->ring();
}

void gate_ledger::withdraw(instant) {
  if (!wanted_) return;
  wanted_ = false;
  give_back();
  start_anew();
  if (under_way_) asking_->abort();
}

// Whatever is known of the turn asked for is of the past.
void gate_ledger::start_anew() {
  ++attempt_;
  standing_by_ = false;
  near_ = false;
  never_ = false;
  expected_.reset();
  asker_bell_->ring();
}

void gate_ledger::give_back() {
  if (!hand_) return;
  calls_.emplace(hand_->number, std::move(hand_->id));
  const std::uint64_t number = hand_->number;
  hand_.reset();
  finished(number, clock_.now());
}

void gate_ledger::finished(std::uint64_t number, instant now) {
  const auto it = calls_.find(number);
  if (it == calls_.end()) return;
  ended_call e;
  e.number = number;
  e.id = std::move(it->second);
  e.since = now;
  calls_.erase(it);
  last_ended_ = e.id;
  ended_.push_back(std::move(e));
  teller_bell_->ring();
}

// What a call brings back is told together with its end: the teller comes to it a moment later.
void gate_ledger::cool_down(instant until, instant now) {
  not_before_ = std::max(not_before_, until);
  if (ended_.empty()) {
    if (last_ended_.empty()) return;
    ended_call e;
    e.id = last_ended_;
    e.since = now;
    ended_.push_back(std::move(e));
    teller_bell_->ring();
  }
  ended_.back().not_before = std::max(until, ended_.back().not_before.value_or(until));
}

void gate_ledger::unexplained_refusal(instant, instant) {
  if (!ended_.empty()) ended_.back().how.status = 429;
}

void gate_ledger::settle(std::uint64_t number, std::int64_t tokens) {
  for (ended_call& e : ended_)
    if (e.number == number) e.how.tokens = tokens;
}

// --- What is said to the gate
// -----------------------------------------------------------------------

duration gate_ledger::poll_length() const {
  return std::clamp<duration>(how_.admission_timeout / 2, shortest_poll, longest_poll);
}

bool gate_ledger::something_to_ask(instant now) const {
  if (!wanted_ || hand_ || never_ || refused_until_ || !mistake_.empty()) return false;
  return standing_by_ || !near_ || now >= ask_again_at_;
}

asio::awaitable<void> gate_ledger::ask_for_turns() {
  while (!closed_) {
    const instant now = clock_.now();
    if (!something_to_ask(now)) {
      // Only a time still to come is waited for: when there is nothing more to ask, that of the
      // last answer is over.
      const bool keeping = wanted_ && near_ && !hand_ && ask_again_at_ > now;
      co_await asker_bell_->wait_until(keeping ? ask_again_at_ : instant::max());
      continue;
    }
    slot_question q;
    q.what.job = how_.job;
    q.what.attempt = std::to_string(attempt_);
    q.what.cost = cost_;
    q.what.waited = now - wanted_since_;
    q.what.max_wait = how_.admission_timeout;
    q.what.longest = how_.longest_call;
    q.what.shape = how_.shape;
    q.what.priority = how_.priority;
    q.what.ready = standing_by_;
    q.poll = poll_length();
    q.limits = how_.limits;
    const std::uint64_t asked = attempt_;
    std::string body = to_json(q);
    under_way_ = true;
    const gate_reply reply = co_await asking_->send("/v1/slots", std::move(body),
                                                    *q.poll + std::min(answer_slack, 5 * *q.poll));
    under_way_ = false;
    if (asked != attempt_) {
      // Withdrawn meanwhile. A slot that came all the same is given back.
      if (reply.ended == gate_reply::how::answered && reply.status == 200) {
        const std::optional<slot_in_hand> mine = std::exchange(hand_, std::nullopt);
        const auto answer = parse_slot_answer(reply.status, reply.body);
        if (answer) take_in_slot(*answer, now);
        give_back();
        hand_ = mine;
      }
      continue;
    }
    take_in(reply, now);
    if (news_) news_();
    if (failing_since_ && !refused_until_ && mistake_.empty())
      co_await back_off(tries_, *failing_since_ + how_.admission_timeout);
  }
}

// Full jitter, or all clients would come back at once.
asio::awaitable<void> gate_ledger::back_off(unsigned tries, instant no_later) {
  const duration most =
      std::min<duration>(longest_pause, first_pause * (1U << std::min(tries, 6U)));
  const instant until =
      std::min(clock_.now() + std::max<duration>(1ms, random_.between(0ns, most)), no_later);
  const std::uint64_t asked = attempt_;
  while (!closed_ && asked == attempt_ && clock_.now() < until)
    co_await asker_bell_->wait_until(until);
}

// A gate that is killed again and again is not there for the time between only: `there` is how long
// one stood in its line this time.
void gate_ledger::fail(const std::string& cause, duration there) {
  const instant now = clock_.now();
  if (!failing_since_) failing_since_ = now - there;
  if (!unanswered_since_) unanswered_since_ = failing_since_;
  *failing_since_ += there;
  ++tries_;
  if (now - *failing_since_ < how_.admission_timeout &&
      now - *unanswered_since_ < most_unanswered * how_.admission_timeout)
    return;
  refuse(now, "gate " + how_.name + " could not be used for " + in_seconds(now - *failing_since_) +
                  ": " + cause + "; nothing was sent without it");
}

void gate_ledger::reached() {
  failing_since_.reset();
  unanswered_since_.reset();
  tries_ = 0;
}

void gate_ledger::mistake(const std::string& text) {
  mistake_ = "gate " + how_.name + ": " + text;
}

void gate_ledger::refuse(instant when, std::string text) {
  refused_until_ = when;
  refusal_ = std::move(text);
}

void gate_ledger::take_in(const gate_reply& reply, instant asked_at) {
  if (reply.ended == gate_reply::how::aborted) return;
  const duration there = reply.reached ? clock_.now() - asked_at : duration::zero();
  if (reply.ended == gate_reply::how::failed) return fail(reply.cause, there);
  if (reply.ended == gate_reply::how::mistaken) return mistake(reply.cause);
  const auto answer = parse_slot_answer(reply.status, reply.body);
  if (!answer)
    return mistake("answers with " + std::to_string(reply.status) +
                   ", but not like a gate; check the address in --gate");
  const instant now = clock_.now();
  switch (reply.status) {
    case 200:
      reached();
      take_in_slot(*answer, asked_at);
      if (hand_ && hand_->good(now)) {
        late_ = 0;
        return;
      }
      give_back();
      start_anew();
      if (++late_ >= most_late)
        refuse(now, "gate " + how_.name +
                        ": its slots come too late to be used; it is too far away, or this machine "
                        "too busy, for so short a window");
      return;
    case 202:
      reached();
      expected_ = now + answer->turn_in;
      near_ = !standing_by_ && answer->turn_in <= gate_line::near_by;
      ask_again_at_ = now + keep_place_every;
      if (answer->cool_down > duration::zero())
        not_before_ = std::max(not_before_, now + answer->cool_down);
      return;
    case 422:
      never_ = true;
      return;
    case 409:
      if (answer->error == "no_turn_in_time")
        return refuse(now + answer->retry_in, "gate " + how_.name + ": " + answer->message +
                                                  "; --admission-timeout is " +
                                                  in_seconds(how_.admission_timeout));
      if (answer->error == "another_limit")
        return mistake("has the limit " + in_words(answer->limits) + ", not " +
                       in_words(how_.limits.value_or(answer->limits)) +
                       "; leave --limit out to take the gate's, or start the gate with another");
      return fail(answer->message, duration::zero());
    case 401:
      return mistake("refuses the token; give --gate-token-file, or set SLUICE_GATE_TOKEN");
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return fail(answer->message, answer->error == "closing" ? now - asked_at : duration::zero());
    default:
      return mistake(answer->message + " (" + std::to_string(reply.status) + ")");
  }
}

// The gate's clock is not ours: of what passed between question and answer only the gate's own
// waiting is certain, so all of the rest counts as the answer's way here. An answer that was held
// up, or read late, is not taken for a fresh slot.
void gate_ledger::take_in_slot(const slot_answer& a, instant asked_at) {
  const auto id = parse_slot_id(a.slot);
  if (!id) return mistake("names a slot that is none; is it of another version?");
  hand_ = slot_in_hand{id->first, a.slot, asked_at + a.waited, a.use_within};
}

asio::awaitable<void> gate_ledger::tell_of_ends() {
  unsigned tries = 0;
  while (!closed_ || !ended_.empty()) {
    if (ended_.empty()) {
      co_await teller_bell_->wait_until(instant::max());
      continue;
    }
    if (clock_.now() >= close_by_) break;
    ended_call e = std::move(ended_.front());
    ended_.pop_front();
    const instant now = clock_.now();
    if (e.not_before && *e.not_before > now) e.how.retry_after = *e.not_before - now;
    std::string body = to_json(e.how);
    std::string path = "/v1/slots/" + e.id + "/done";
    const duration time = closed_ ? closing_time : telling_time;
    const gate_reply reply = co_await telling_->send(std::move(path), std::move(body), time);
    const bool again = reply.ended == gate_reply::how::failed ||
                       (reply.ended == gate_reply::how::answered && reply.status >= 500);
    // The gate ends calls by itself that nobody tells it of.
    if (!again || clock_.now() - e.since > how_.longest_call) {
      tries = 0;
      continue;
    }
    ended_.push_front(std::move(e));
    ++tries;
    const instant until =
        clock_.now() +
        random_.between(
            1ms, std::min<duration>(longest_pause, first_pause * (1U << std::min(tries, 6U))));
    while (clock_.now() < std::min(until, close_by_))
      co_await teller_bell_->wait_until(std::min(until, close_by_));
  }
}

}  // namespace sluice::pipeline
