#include "pipeline/admission/gate_line.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "pipeline/admission/gate_protocol.hpp"
#include "retry/random.hpp"

namespace sluice::pipeline {
namespace {

using namespace std::chrono_literals;
using kind = turn_news::kind;

const instant start{1h};

gate_line fresh(std::vector<limit> limits = {limit{}}, std::uint32_t max_in_flight = 0) {
  budget_settings settings;
  settings.limits = std::move(limits);
  settings.max_in_flight = max_in_flight;
  return gate_line(fresh_budget(settings, "boot"));
}

turn_request of(const std::string& job, int attempt) {
  turn_request r;
  r.job = job;
  r.attempt = std::to_string(attempt);
  return r;
}

// Whom the advance grants a turn, by client.
std::vector<std::uint64_t> granted(gate_line& line, instant now) {
  std::vector<std::uint64_t> clients;
  for (const turn_news& n : line.advance(now))
    if (n.what == kind::granted) clients.push_back(n.client);
  return clients;
}

std::uint64_t client(const std::string& job, int attempt) {
  return gate_line::client_of(job, std::to_string(attempt));
}

TEST(GateLine, TurnsGoRoundBetweenJobsAndInOrderWithinOne) {
  gate_line line = fresh();
  for (int i = 1; i <= 3; ++i) line.ask(of("a", i), start);
  line.ask(of("b", 1), start);
  line.ask(of("c", 1), start);
  std::vector<std::uint64_t> order;
  for (instant now = start; order.size() < 5; now = line.next_event(now))
    for (const std::uint64_t c : granted(line, now)) order.push_back(c);
  EXPECT_EQ(order, (std::vector{client("a", 1), client("b", 1), client("c", 1), client("a", 2),
                                client("a", 3)}));
}

// Or a job could have two turns more than another between two instants.
TEST(GateLine, JobsKeepTheirOrderWhoeverAsksFirst) {
  gate_line line = fresh({limit{12, 60s}});
  std::string order;
  int attempt = 0;
  for (const std::string asking : {"abc", "cba", "bca", "acb"}) {
    const instant now = start + attempt * 10ms;
    for (const char name : asking) {
      turn_request r = of(std::string(1, name), attempt);
      r.shape = pace::burst;
      line.ask(r, now);
    }
    for (const std::uint64_t c : granted(line, now))
      for (const char name : asking)
        if (c == client(std::string(1, name), attempt)) order += name;
    ++attempt;
  }
  EXPECT_EQ(order, "abcabcabcabc");
}

TEST(GateLine, TheSameAttemptHasTheSameSlot) {
  gate_line line = fresh();
  line.ask(of("a", 1), start);
  const auto first = line.advance(start);
  ASSERT_EQ(first.size(), 1U);
  const turn_news again = line.ask(of("a", 1), start + 500ms);
  EXPECT_EQ(again.what, kind::granted);
  EXPECT_EQ(again.number, first[0].number);
  EXPECT_TRUE(again.repeated);
  EXPECT_EQ(line.record().granted(), 1U);
  // Too late to be used: it is spent, and asked for anew.
  EXPECT_EQ(line.ask(of("a", 1), start + 1s).what, kind::waiting);
  EXPECT_EQ(granted(line, start + 6200ms), std::vector{client("a", 1)});
  EXPECT_EQ(line.record().granted(), 2U);
}

TEST(GateLine, TheSameAttemptInLineKeepsItsPlace) {
  gate_line line = fresh();
  line.ask(of("x", 0), start);
  line.advance(start);
  line.ask(of("a", 1), start);
  line.ask(of("b", 1), start);
  line.pause(client("a", 1), start + 1s);
  line.ask(of("a", 1), start + 2s);
  EXPECT_EQ(line.waiting(), 2U);
  EXPECT_EQ(granted(line, start + 6200ms), std::vector{client("a", 1)});
}

TEST(GateLine, AFarTurnIsRefusedAtOnceAndCostsNothing) {
  gate_line line = fresh();
  for (const char* job : {"a", "b", "c"}) line.ask(of(job, 1), start);
  turn_request hasty = of("d", 1);
  hasty.max_wait = 18599ms;
  const turn_news no = line.ask(hasty, start);
  EXPECT_EQ(no.what, kind::refused);
  EXPECT_EQ(no.when, start + 18600ms);
  EXPECT_EQ(line.waiting(), 3U);
  hasty.max_wait = 18600ms;
  EXPECT_EQ(line.ask(hasty, start).what, kind::waiting);
}

TEST(GateLine, AJobAloneNeverTimesOut) {
  gate_line line = fresh();
  for (int i = 1; i <= 100; ++i) {
    turn_request r = of("a", i);
    r.max_wait = 6200ms;
    ASSERT_EQ(line.ask(r, start).what, kind::waiting) << i;
  }
  std::size_t turns = 0;
  for (instant now = start; now < start + 620s; now = line.next_event(now))
    for (const turn_news& n : line.advance(now)) {
      ASSERT_EQ(n.what, kind::granted);
      ++turns;
    }
  EXPECT_EQ(turns, 100U);
}

TEST(GateLine, ACoolDownIsNotHeldAgainstThoseWhoWait) {
  gate_line line = fresh();
  line.ask(of("a", 1), start);
  const turn_news slot = line.advance(start).at(0);
  line.ask(of("b", 1), start);
  call_report refused;
  refused.status = 429;
  refused.retry_after = 10min;
  EXPECT_TRUE(line.done(slot.number, slot.client, refused, start + 1s));
  EXPECT_TRUE(line.advance(start + 5min).empty());
  EXPECT_EQ(granted(line, start + 1s + 10min), std::vector{client("b", 1)});
}

TEST(GateLine, WhoWaitedInVainIsTold) {
  gate_line line = fresh({limit{}}, 1);
  line.ask(of("a", 1), start);
  line.advance(start);
  turn_request r = of("b", 1);
  r.max_wait = 10s;
  line.ask(r, start);
  EXPECT_TRUE(line.advance(start + 10s).empty());
  const auto news = line.advance(start + 10001ms);
  ASSERT_EQ(news.size(), 1U);
  EXPECT_EQ(news[0].what, kind::refused);
  EXPECT_EQ(line.waiting(), 0U);
}

TEST(GateLine, CallsUnderWayEndWithTheirReportOrTheirTime) {
  gate_line line = fresh({limit{100, 60s}}, 2);
  for (int i = 1; i <= 4; ++i) {
    turn_request r = of("a", i);
    r.longest = 100s;
    r.max_wait = 10min;
    line.ask(r, start);
  }
  EXPECT_EQ(granted(line, start).size(), 1U);
  EXPECT_EQ(granted(line, start + 1s).size(), 1U);
  EXPECT_TRUE(granted(line, start + 10s).empty());
  EXPECT_TRUE(line.done(1, client("a", 1), call_report(), start + 10s));
  EXPECT_FALSE(line.done(1, client("a", 1), call_report(), start + 10s));
  EXPECT_EQ(granted(line, start + 10s).size(), 1U);
  EXPECT_TRUE(granted(line, start + 100s).empty());
  EXPECT_EQ(line.next_event(start + 100s), start + 101s);
  EXPECT_EQ(granted(line, start + 101s).size(), 1U);
}

TEST(GateLine, AReportOfAnothersSlotEndsNothing) {
  gate_line line = fresh({limit{}}, 1);
  line.ask(of("a", 1), start);
  line.advance(start);
  EXPECT_FALSE(line.done(1, client("b", 1), call_report(), start));
  EXPECT_EQ(line.in_flight(), 1U);
}

TEST(GateLine, ACostAboveTheLimitIsAnError) {
  gate_line line = fresh({limit{1000, 60s, limit_unit::tokens}});
  turn_request r = of("a", 1);
  r.cost.tokens = 1001;
  EXPECT_EQ(line.ask(r, start).what, kind::too_costly);
  EXPECT_EQ(line.waiting(), 0U);
}

TEST(GateLine, PriorityHasThreeTurnsOfFour) {
  gate_line line = fresh();
  for (int i = 1; i <= 12; ++i) {
    turn_request r = of("manual", i);
    r.priority = true;
    line.ask(r, start);
    line.ask(of("nightly", i), start);
  }
  std::string order;
  for (instant now = start; order.size() < 8; now = line.next_event(now))
    for (const turn_news& n : line.advance(now)) {
      bool first = false;
      for (int i = 1; i <= 12; ++i) first = first || n.client == client("manual", i);
      order += first ? 'p' : '-';
    }
  EXPECT_EQ(order, "ppp-ppp-");
}

TEST(GateLine, WhoHasNoConnectionIsCalledInTime) {
  gate_line line = fresh();
  line.ask(of("x", 0), start);
  line.advance(start);
  turn_request r = of("a", 1);
  r.ready = false;
  EXPECT_EQ(line.ask(r, start).what, kind::waiting);
  EXPECT_EQ(line.next_event(start), start + 4200ms);
  const auto news = line.advance(start + 4200ms);
  ASSERT_EQ(news.size(), 1U);
  EXPECT_EQ(news[0].what, kind::near);
  EXPECT_TRUE(granted(line, start + 7s).empty());
  r.ready = true;
  line.ask(r, start + 7s);
  EXPECT_EQ(granted(line, start + 7s).size(), 1U);
}

TEST(GateLine, StateIsKeptAcrossARestart) {
  gate_line line = fresh({limit{}}, 3);
  line.ask(of("a", 1), start);
  const turn_news slot = line.advance(start).at(0);
  const std::string bytes = serialise(line.save());
  gate_line again(std::get<budget_state>(parse_budget(bytes)));
  EXPECT_EQ(again.in_flight(), 1U);
  EXPECT_EQ(again.ask(of("a", 1), start + 300ms).number, slot.number);
  again.ask(of("b", 1), start + 300ms);
  EXPECT_TRUE(again.advance(start + 6199ms).empty());
  EXPECT_EQ(granted(again, start + 6200ms).size(), 1U);
  // Every flipped bit and every missing end is found.
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string bad = bytes;
      bad[i] = static_cast<char>(bad[i] ^ (1U << bit));
      ASSERT_TRUE(std::holds_alternative<unusable>(parse_budget(bad))) << i << " " << bit;
    }
    ASSERT_TRUE(std::holds_alternative<unusable>(parse_budget(bytes.substr(0, i)))) << i;
  }
}

gate_line started_again(const gate_line& before) {
  return gate_line(std::get<budget_state>(parse_budget(serialise(before.save()))));
}

TEST(GateLine, StartedAgainItWaitsForThoseWhoWereInLine) {
  gate_line line = fresh();
  line.ask(of("a", 1), start);
  line.advance(start);
  gate_line again = started_again(line);
  const instant back = start + 10s;
  again.advance(back);
  // Both waited before, the second for longer.
  turn_request quick = of("a", 2);
  quick.waited = 9s;
  again.ask(quick, back);
  EXPECT_TRUE(granted(again, back + 1s).empty());
  turn_request slow = of("b", 1);
  slow.waited = 30s;
  again.ask(slow, back + 2s);
  EXPECT_TRUE(granted(again, back + 2s).empty());
  const instant gathered = back + gate_line::regather;
  EXPECT_EQ(again.next_event(back + 2s), gathered);
  EXPECT_EQ(granted(again, gathered), std::vector{client("b", 1)});
}

TEST(GateLine, WhoComesBackLateStillHasItsTurnOfTheFirstRound) {
  gate_line line = fresh();
  line.ask(of("a", 1), start);
  line.advance(start);
  gate_line again = started_again(line);
  instant now = start + 10s;
  for (int i = 2; i <= 4; ++i) again.ask(of("a", i), now);
  for (int turns = 0; turns < 2; now = again.next_event(now))
    turns += static_cast<int>(granted(again, now).size());
  turn_request late = of("b", 1);
  late.waited = now - start;
  again.ask(late, now);
  again.ask(of("new", 1), now);
  std::vector<std::uint64_t> order;
  for (; order.size() < 3; now = again.next_event(now))
    for (const std::uint64_t c : granted(again, now)) order.push_back(c);
  EXPECT_EQ(order, (std::vector{client("b", 1), client("a", 4), client("new", 1)}));
}

TEST(GateLine, AFirstStartOrALateOneWaitsForNobody) {
  gate_line line = fresh();
  line.advance(start);
  line.ask(of("a", 1), start);
  EXPECT_EQ(granted(line, start).size(), 1U);
  gate_line again = started_again(line);
  again.ask(of("a", 2), start + 3min);
  EXPECT_EQ(granted(again, start + 3min).size(), 1U);
}

// Whatever is asked, left, repeated and reported: never more than N in a closed window, never more
// in flight than allowed, and everybody is answered.
TEST(GateLine, HoldsUnderAnything) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    retry::random random(seed);
    const auto pick = [&](unsigned n) { return static_cast<unsigned>(random.next() % n); };
    gate_line line = fresh({limit{10, 60s}}, seed % 3 == 0 ? 4 : 0);
    instant now = start;
    std::vector<instant> grants;
    std::vector<turn_news> open;
    std::set<std::uint64_t> waiting;
    const auto take = [&](const std::vector<turn_news>& news) {
      for (const turn_news& n : news) {
        if (n.what == kind::near) continue;
        ASSERT_EQ(waiting.erase(n.client), 1U) << "seed " << seed;
        if (n.what != kind::granted) continue;
        grants.push_back(n.when);
        open.push_back(n);
      }
    };
    for (int step = 0; step < 600; ++step) {
      turn_request r = of("job" + std::to_string(pick(5)), static_cast<int>(pick(40)));
      r.shape = pick(2) == 0 ? pace::smooth : pace::burst;
      r.priority = pick(6) == 0;
      r.longest = 40s;
      r.max_wait = 60s;
      switch (pick(6)) {
        case 0:
        case 1:
        case 2:
          if (const auto n = line.ask(r, now); n.what == kind::waiting) waiting.insert(n.client);
          break;
        case 3:
          if (!waiting.empty()) {
            line.leave(*waiting.begin());
            waiting.erase(waiting.begin());
          }
          break;
        case 4:
          if (!open.empty()) {
            line.done(open.back().number, open.back().client, call_report(), now);
            open.pop_back();
          }
          break;
        default:
          now += random.between(0ns, 4s);
      }
      // No later than it asked to be looked at.
      for (instant due = line.next_event(now - 1ns); due <= now && line.waiting() > 0;) {
        take(line.advance(now));
        due = line.next_event(now + 1ns);
      }
      take(line.advance(now));
      if (line.settings().max_in_flight > 0) {
        ASSERT_LE(line.in_flight(), 4U) << "seed " << seed;
      }
    }
    for (int i = 0; i < 2000 && !waiting.empty(); ++i) {
      now = std::max(now + 1ms, line.next_event(now));
      take(line.advance(now));
    }
    ASSERT_TRUE(waiting.empty()) << "seed " << seed;
    for (std::size_t i = 10; i < grants.size(); ++i)
      ASSERT_GT(grants[i] - grants[i - 10], 60s) << "seed " << seed;
  }
}

TEST(GateProtocol, WhatOneEndSaysTheOtherUnderstands) {
  slot_question q;
  q.what = of("nightly \"1\"", 7);
  q.what.cost.tokens = 120;
  q.what.max_wait = 1500ms;
  q.what.longest = 2min;
  q.what.waited = 7s;
  q.what.shape = pace::burst;
  q.what.priority = true;
  q.what.ready = false;
  q.poll = 15s;
  q.limits = std::vector{limit{10, 60s}, limit{1000, 24h}};
  const auto parsed = std::get<slot_question>(parse_question(to_json(q)));
  EXPECT_EQ(to_json(parsed), to_json(q));
  slot_answer a;
  a.status = 200;
  a.slot = slot_id(12, ~std::uint64_t{0});
  a.use_within = 950ms;
  a.waited = 6123ms;
  const auto answer = parse_slot_answer(200, to_json(a));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->waited, duration(6123ms));
  EXPECT_EQ(parse_slot_id(answer->slot)->second, ~std::uint64_t{0});
}

TEST(GateProtocol, NonsenseIsRefusedInWords) {
  const auto why = [](std::string_view body) {
    const auto parsed = parse_question(body);
    const auto* bad = std::get_if<bad_question>(&parsed);
    return bad == nullptr ? std::string() : bad->why;
  };
  EXPECT_EQ(why(""), "job is missing");
  EXPECT_EQ(why("[]"), "the body is not a JSON object");
  EXPECT_EQ(why(R"({"job":"a"})"), "attempt is missing");
  EXPECT_EQ(why(R"({"job":"a","attempt":-1,"cost":-5})"), "cost is negative");
  EXPECT_EQ(why(R"({"job":"a","attempt":1,"cost":1e3})"), "cost is not a whole number");
  EXPECT_EQ(why(R"({"job":"a\n","attempt":1})"), "job holds a control character");
  EXPECT_EQ(why(R"({"job":"a","attempt":1,"max_wait_ms":99999999999})"),
            "max_wait_ms is too large");
  EXPECT_EQ(why(R"({"job":"a","attempt":1,"max_wait_ms":18446744073709551615})"),
            "max_wait_ms is too large");
  EXPECT_FALSE(why(R"({"job":"a","attempt":1,"limit":["x"]})").empty());
  EXPECT_EQ(why(R"({"job":"a","attempt":1})"), "");
}

}  // namespace
}  // namespace sluice::pipeline
