// What holds for a run as a whole: refusals stop everybody, trouble with the account or the
// endpoint stops the run, interrupts and full disks end it well, and limits hold whatever happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "retry/table.hpp"
#include "tests/simulation/sim_setups.hpp"

namespace sluice::fixtures {
namespace {

using namespace std::chrono_literals;
using retry::outcome;
using retry::reason;

constexpr duration gap = 6200ms;  // the default pace

// --- one refusal stops everybody

TEST(Refusal, StopsAllEightWorkersUntilItHasPassed) {
  sim_setup s = unlimited(40, 8);
  s.server.answers = [](unsigned nth, const std::string&) {
    return nth == 3 ? just(bad_answer(reason::rate_limited, 429, 30s)) : std::nullopt;
  };
  const sim_result r = simulate(s);
  EXPECT_EQ(r.succeeded(), 40U);
  EXPECT_EQ(r.arrivals.size(), 41U);
  for (const sim_arrival& a : r.arrivals)
    EXPECT_TRUE(a.sent == 0ns || a.sent >= 30s) << to_seconds(a.sent);
}

TEST(Refusal, HoldsThoseThatAreQueueingForTheirTurn) {
  sim_setup s = ten_a_minute(20);
  s.server.answers = [](unsigned nth, const std::string&) {
    return nth == 1 ? just(bad_answer(reason::rate_limited, 429, 50s, 1s)) : std::nullopt;
  };
  const sim_result r = simulate(s);
  EXPECT_EQ(r.succeeded(), 20U);
  ASSERT_EQ(r.arrivals.size(), 21U);
  EXPECT_GE(r.arrivals[1].sent, duration(51s));
  EXPECT_LE(r.arrivals[1].sent, duration(53s));
  // Its permit went to the ninth document; it takes the next one that is freed, ahead of the tenth.
  EXPECT_EQ(r.arrivals[2].document, "job0-1");
}

TEST(Refusal, ThatIsUnexplainedSlowsThePace) {
  sim_setup s = ten_a_minute(8);
  s.server.answers = [](unsigned nth, const std::string&) {
    return nth == 1 ? just(bad_answer(reason::rate_limited, 429, 5s)) : std::nullopt;
  };
  const sim_result r = simulate(s);
  ASSERT_GE(r.arrivals.size(), 4U);
  const double slowed = to_seconds(gap) / 0.7;
  EXPECT_NEAR(to_seconds(r.arrivals[3].sent - r.arrivals[2].sent), slowed, 0.01);
}

TEST(BackOff, LeavesThePermitToOthers) {
  sim_setup s = unlimited(2, 1);
  s.server.answers = [](unsigned nth, const std::string&) {
    return nth == 1 ? just(bad_answer(reason::server_error, 503, 60s)) : std::nullopt;
  };
  const sim_result r = simulate(s);
  ASSERT_EQ(r.outcomes.size(), 2U);
  EXPECT_EQ(r.outcomes[0].document_id, "job0-2");
  EXPECT_EQ(r.outcome_times[0], duration(100ms));
  EXPECT_EQ(r.outcomes[1].document_id, "job0-1");
  EXPECT_GE(r.outcome_times[1], duration(60s));
  EXPECT_EQ(r.succeeded(), 2U);
}

TEST(Retry, GoesAheadOfNewDocumentsAndCostsASlot) {
  sim_setup s = ten_a_minute(20);
  s.server.answers = [](unsigned nth, const std::string&) {
    return nth == 1 || nth == 4 ? just(bad_answer(reason::server_error, 500)) : std::nullopt;
  };
  const sim_result r = simulate(s);
  ASSERT_EQ(r.arrivals.size(), 22U);
  // One call ends, its permit goes to the retry, and the retry has the next turn: ahead of seven
  // that queue for theirs.
  EXPECT_EQ(r.arrivals[2].document, r.arrivals[0].document);
  EXPECT_EQ(r.arrivals[5].document, r.arrivals[3].document);
  for (std::size_t i = 0; i < r.arrivals.size(); ++i)
    EXPECT_EQ(r.arrivals[i].sent, gap * static_cast<int>(i)) << "call " << i;
}

// --- what stops the run

TEST(KeyRefused, CostsOneCallAndANewRunTakesTheRestUp) {
  sim_setup s = ten_a_minute(50);
  s.server.answers = [](unsigned, const std::string&) {
    return just(bad_answer(reason::key_refused, 401, std::nullopt, 200ms));
  };
  const sim_result r = simulate(s);
  EXPECT_EQ(r.arrivals.size(), 1U);
  ASSERT_TRUE(r.jobs.at(0).stopped);
  EXPECT_EQ(r.jobs[0].stopped->exit, retry::exit_code::key_or_billing);
  EXPECT_EQ(r.jobs[0].deferred, 50U);
  EXPECT_EQ(r.outcomes.size(), 50U);
  EXPECT_LE(r.ended, duration(1s)) << "the others wait for nothing";

  sim_setup next = ten_a_minute(50);
  next.past = r.past_after();
  const sim_result second = simulate(next);
  EXPECT_EQ(second.succeeded(), 50U);
  EXPECT_EQ(second.jobs.at(0).skipped, 0U);
}

sim_setup unreachable(unsigned documents, duration until) {
  sim_setup s = unlimited(documents, 8);
  s.server.connecting = [until](unsigned, duration at) {
    sim_readiness how;
    how.takes = 100ms;
    if (at < until) how.trouble = bad_answer(reason::connect_failure, 0);
    return how;
  };
  return s;
}

TEST(Breaker, ProbesOneByOneAndEndsTheRunWithTheOutage) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    sim_setup s = unreachable(40, 48h);
    s.seed = seed;
    const sim_result r = simulate(s);
    EXPECT_TRUE(r.arrivals.empty());
    EXPECT_TRUE(r.attempts.empty()) << "what was never sent is no attempt";
    ASSERT_TRUE(r.jobs.at(0).stopped);
    EXPECT_EQ(r.jobs[0].stopped->exit, retry::exit_code::unavailable);
    EXPECT_EQ(r.jobs[0].stopped->why, reason::endpoint_down);
    EXPECT_EQ(r.jobs[0].deferred, 40U);
    EXPECT_GE(r.ended, duration(15min));
    EXPECT_LE(r.ended, duration(15min + 31s));
    // Eight began at once, and four more before the fifth failure was known; from then on there is
    // one at a time, and seldom.
    ASSERT_GT(r.connecting.size(), 25U);
    for (std::size_t i = 12; i < r.connecting.size(); ++i)
      EXPECT_GE(r.connecting[i] - r.connecting[i - 1], duration(15s)) << "probe " << i;
  }
}

TEST(Breaker, KeepsItsDistanceFromTheFirstProbeOn) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    sim_setup s = unreachable(10, 48h);
    s.seed = seed;
    s.options.concurrency = 1;
    const sim_result r = simulate(s);
    const duration least[] = {1s, 2s, 4s, 8s, 15s, 15s};
    ASSERT_GT(r.connecting.size(), 11U);
    for (std::size_t i = 0; i < std::size(least); ++i)
      EXPECT_GE(r.connecting[5 + i] - r.connecting[4 + i], least[i]) << "probe " << i;
  }
}

TEST(Breaker, LosesNothingWhenTheEndpointComesBackInTime) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    sim_setup s = unreachable(40, 14min);
    s.seed = seed;
    const sim_result r = simulate(s);
    EXPECT_EQ(r.succeeded(), 40U);
    EXPECT_EQ(r.arrivals.size(), 40U);
    EXPECT_LE(r.ended, duration(15min));
  }
}

TEST(Breaker, OpensForServerErrorsTooAndThenSendsOneAtATime) {
  sim_setup s = unlimited(12, 4);
  s.server.answers = [](unsigned, const std::string&) {
    return just(bad_answer(reason::server_error, 503, std::nullopt, 1s));
  };
  const sim_result r = simulate(s);
  EXPECT_EQ(r.outcomes.size(), 12U);
  ASSERT_GT(r.arrivals.size(), 9U);
  // The first four at once, then at most four more before the fifth failure is known.
  for (std::size_t i = 9; i < r.arrivals.size(); ++i)
    EXPECT_GE(r.arrivals[i].sent - r.arrivals[i - 1].sent, duration(1s)) << "call " << i;
}

// --- interrupts

TEST(Interrupt, SendsNothingMoreAndGivesCallsUnderWayTheGracePeriod) {
  sim_setup s = ten_a_minute(50);
  // Sent at 0, 6.2, 12.4 and 18.6 s.
  const std::map<std::string, duration> takes{
      {"job0-1", 1s}, {"job0-2", 15s}, {"job0-3", 100s}, {"job0-4", 5s}};
  s.server.answers = [takes](unsigned, const std::string& document) {
    return just(good_answer(takes.at(document)));
  };
  s.interrupt_at = 20s;
  s.options.grace = 8s;
  const sim_result r = simulate(s);
  EXPECT_EQ(r.arrivals.size(), 4U);
  EXPECT_EQ(r.outcomes.size(), 50U);
  ASSERT_TRUE(r.jobs.at(0).stopped);
  EXPECT_EQ(r.jobs[0].stopped->why, reason::interrupted);
  EXPECT_EQ(r.ended, duration(28s));
  for (const char* in_time : {"job0-1", "job0-2", "job0-4"})
    EXPECT_EQ(r.outcome_of(in_time).outcome, outcome::succeeded) << in_time;
  const auto& cut = r.outcome_of("job0-3");
  EXPECT_EQ(cut.outcome, outcome::deferred);
  EXPECT_EQ(cut.why, reason::interrupted);
  EXPECT_EQ(cut.attempts, 1U);
  for (std::size_t i = 0; i < r.outcomes.size(); ++i) {
    const auto& o = r.outcomes[i];
    if (o.attempts > 0) continue;
    EXPECT_EQ(o.outcome, outcome::deferred) << o.document_id;
    EXPECT_EQ(o.why, reason::interrupted) << o.document_id;
    EXPECT_EQ(r.outcome_times[i], duration(20s)) << o.document_id;
  }

  sim_setup next = ten_a_minute(50);
  next.past = r.past_after();
  const sim_result second = simulate(next);
  EXPECT_EQ(second.arrivals.size(), 47U);
  EXPECT_EQ(second.jobs.at(0).skipped, 3U);
  EXPECT_EQ(second.succeeded(), 50U);
}

struct wait_case {
  const char* name;
  sim_setup setup;
};

std::vector<wait_case> all_waits() {
  std::vector<wait_case> all;
  sim_setup back_off = unlimited(3, 2);
  back_off.server.answers = [](unsigned, const std::string&) {
    return just(bad_answer(reason::server_error, 503, 10min));
  };
  all.push_back({"back-off", back_off});
  sim_setup cool_down = unlimited(3, 2);
  cool_down.server.answers = [](unsigned, const std::string&) {
    return just(bad_answer(reason::rate_limited, 429, 10min));
  };
  all.push_back({"cool-down", cool_down});
  all.push_back({"open breaker", unreachable(20, 48h)});
  sim_setup turn = ten_a_minute(60);
  turn.options.shape = pipeline::pace::burst;
  all.push_back({"window", turn});
  sim_setup slow = unlimited(10, 3);
  slow.server.connecting = [](unsigned, duration) {
    sim_readiness how;
    how.takes = 1h;
    return how;
  };
  slow.options.grace = 0s;
  all.push_back({"connecting", slow});
  return all;
}

TEST(Interrupt, CutsEveryKindOfWaitShort) {
  for (wait_case& c : all_waits()) {
    SCOPED_TRACE(c.name);
    const std::size_t documents = c.setup.documents;
    c.setup.interrupt_at = 40s + 1ns;
    const sim_result r = simulate(c.setup);
    EXPECT_EQ(r.outcomes.size(), documents);
    EXPECT_LE(r.ended, duration(40s + 200ms));
    EXPECT_LE(r.last_sent, duration(40s));
    EXPECT_GT(r.jobs.at(0).deferred, 0U);
    EXPECT_EQ(r.jobs.at(0).deferred + r.jobs.at(0).succeeded, documents);
  }
}

// --- a bad disk

TEST(DiskFull, StopsPayingAndLetsCallsUnderWayEnd) {
  for (unsigned nth : {1U, 2U, 10U, 39U}) {
    SCOPED_TRACE(nth);
    sim_setup s = unlimited(40, 4);
    s.server.answer_min = 100ms;
    s.server.answer_max = 3s;
    s.disk_full_at = nth;
    const sim_result r = simulate(s);
    ASSERT_EQ(r.storage_failures.size(), 1U);
    EXPECT_EQ(r.outcomes.size(), nth - 1);
    ASSERT_TRUE(r.disk_full_since);
    EXPECT_LE(r.last_sent, *r.disk_full_since) << "no call after the disk was found full";
    EXPECT_EQ(r.attempts.size(), r.arrivals.size()) << "each call under way was seen to its end";
    EXPECT_LE(r.arrivals.size(), nth + 3);
  }
}

TEST(DiskFull, EndsARunThatWaitsOutACoolDown) {
  sim_setup s = unlimited(10, 2);
  s.server.answers = [](unsigned nth, const std::string&) {
    return nth == 2 ? just(bad_answer(reason::rate_limited, 429, 10min)) : std::nullopt;
  };
  s.disk_full_at = 1;
  const sim_result r = simulate(s);
  EXPECT_EQ(r.storage_failures.size(), 1U);
  EXPECT_LE(r.ended, duration(1s));
}

// --- what earlier runs left

pipeline::prior_outcome earlier(outcome how, retry::outcome_class kind, reason why,
                                const char* text = "text") {
  pipeline::document d;
  d.text = text;
  pipeline::prior_outcome p;
  p.outcome = how;
  p.kind = kind;
  p.why = why;
  p.inputs = sim_fingerprint(d);
  return p;
}

sim_setup second_run() {
  using enum retry::outcome_class;
  sim_setup s = unlimited(0, 4);
  for (const char* id : {"new", "done", "changed", "passing", "lasting", "put-off", "differs"})
    s.items.push_back(item(id));
  s.past.emplace("done", earlier(outcome::succeeded, none, reason::ok));
  s.past.emplace("changed", earlier(outcome::succeeded, none, reason::ok, "an earlier text"));
  s.past.emplace("passing", earlier(outcome::failed, transient, reason::server_error));
  s.past.emplace("lasting", earlier(outcome::failed, permanent, reason::content_filter));
  s.past.emplace("put-off", earlier(outcome::deferred, none, reason::interrupted));
  s.past.emplace("differs", earlier(outcome::mismatched, permanent, reason::mismatched));
  return s;
}

std::vector<std::string> sent(const sim_result& r) {
  std::vector<std::string> ids;
  for (const auto& a : r.arrivals) ids.push_back(a.document);
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(History, SkipsWhatIsFinishedAndTakesTheRestUp) {
  const sim_result r = simulate(second_run());
  EXPECT_EQ(sent(r), (std::vector<std::string>{"changed", "new", "passing", "put-off"}));
  EXPECT_EQ(r.outcomes.size(), 4U) << "what is skipped keeps its outcome";
  const auto& job = r.jobs.at(0);
  EXPECT_EQ(job.documents, 7U);
  EXPECT_EQ(job.skipped, 3U);
  EXPECT_EQ(job.succeeded, 5U) << "those skipped count in the verdict";
  EXPECT_EQ(job.failed, 1U);
  EXPECT_EQ(job.mismatched, 1U);
  EXPECT_EQ(job.by_reason.at(reason::content_filter), 1U);
}

TEST(History, IsPassedOverWhenAskedFor) {
  sim_setup s = second_run();
  s.options.again = true;
  const sim_result r = simulate(s);
  EXPECT_EQ(r.arrivals.size(), 7U);
  EXPECT_EQ(r.jobs.at(0).skipped, 0U);
  EXPECT_EQ(r.succeeded(), 7U);
}

TEST(BadDocuments, AreRecordedWithoutACallAndStopNobody) {
  sim_setup s = unlimited(0, 2);
  s.items.push_back(item("a"));
  const std::pair<const char*, reason> bad_ones[] = {{"batch.jsonl:2", reason::input_error},
                                                     {"batch.jsonl:3", reason::duplicate_id},
                                                     {"empty.txt", reason::empty_input},
                                                     {"gone.txt", reason::document_missing}};
  for (const auto& [id, why] : bad_ones) {
    pipeline::bad_document bad;
    bad.id = id;
    bad.why = why;
    bad.detail = std::string(id) + ": cannot be used";
    s.items.emplace_back(std::move(bad));
  }
  s.items.push_back(item("b"));
  const sim_result r = simulate(s);
  EXPECT_EQ(sent(r), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(r.outcomes.size(), 6U);
  for (const auto& [id, why] : bad_ones) {
    const auto& o = r.outcome_of(id);
    EXPECT_EQ(o.outcome, outcome::failed) << id;
    EXPECT_EQ(o.why, why) << id;
    EXPECT_EQ(o.kind, retry::outcome_class::permanent) << id;
    EXPECT_EQ(o.attempts, 0U) << id;
    EXPECT_EQ(o.detail, std::string(id) + ": cannot be used");
  }
  EXPECT_EQ(r.jobs.at(0).failed, 4U);
  EXPECT_EQ(r.succeeded(), 2U);
}

// --- limits

pipeline::limit limit_of(const char* text) {
  return pipeline::parse_limit(text);
}

TEST(Limits, AQuotaThatIsUsedUpEndsTheRunAndSaysWhenToComeBack) {
  sim_setup s = ten_a_minute(50);
  s.options.limits.push_back(limit_of("20/1d"));
  const sim_result r = simulate(s);
  EXPECT_EQ(r.arrivals.size(), 20U);
  EXPECT_EQ(r.succeeded(), 20U);
  EXPECT_EQ(r.jobs.at(0).deferred, 30U);
  ASSERT_TRUE(r.jobs[0].stopped);
  EXPECT_EQ(r.jobs[0].stopped->exit, retry::exit_code::come_back_later);
  EXPECT_EQ(r.jobs[0].stopped->why, reason::daily_limit);
  EXPECT_LE(r.ended, duration(3min));
  ASSERT_TRUE(r.jobs[0].stopped->come_back);
  // The first call of the day leaves the window a day and its guard after it was sent.
  EXPECT_EQ(r.last_sent + *r.jobs[0].stopped->come_back, duration(24h + 48min));

  // Too early, it is refused again without a call; at the time named, it goes on.
  for (const duration slack : {duration(-1h), duration(0s)}) {
    sim_setup next = ten_a_minute(50);
    next.options.limits.push_back(limit_of("20/1d"));
    next.past = r.past_after();
    const duration resumed = r.last_sent + *r.jobs[0].stopped->come_back + slack;
    for (const auto& a : r.arrivals) next.slots_before.push_back(resumed - a.sent);
    const sim_result second = simulate(next);
    if (slack < 0s) {
      EXPECT_TRUE(second.arrivals.empty());
      EXPECT_EQ(second.jobs.at(0).deferred, 30U);
    } else {
      EXPECT_EQ(second.arrivals.size(), 20U);
    }
  }
}

TEST(Limits, AnUnhintedRefusalWaitsForTheWindowAndNotForTheQuota) {
  for (const bool quota_first : {false, true}) {
    sim_setup s = unlimited(3, 1);
    s.options.limits = {limit_of("10/30s"), limit_of("1000/1d")};
    if (quota_first) std::swap(s.options.limits[0], s.options.limits[1]);
    s.server.answers = [](unsigned nth, const std::string&) {
      return nth == 1 ? just(bad_answer(reason::rate_limited, 429)) : std::nullopt;
    };
    const sim_result r = simulate(s);
    EXPECT_EQ(r.succeeded(), 3U);
    ASSERT_GT(r.arrivals.size(), 1U);
    EXPECT_GE(r.arrivals[1].sent, duration(30s));
    EXPECT_LE(r.arrivals[1].sent, duration(32s));
  }
}

TEST(Limits, ADocumentThatCostsMoreThanALimitFailsAtOnce) {
  sim_setup s = unlimited(0, 2);
  s.options.limits = {limit_of("1000tok/60s")};
  s.tokens = [](const std::string& text) { return static_cast<std::int64_t>(text.size()); };
  s.items = {item("small", std::string(400, 'x')), item("huge", std::string(1001, 'x')),
             item("as big as can be", std::string(1000, 'x'))};
  const sim_result r = simulate(s);
  EXPECT_EQ(sent(r), (std::vector<std::string>{"as big as can be", "small"}));
  const auto& huge = r.outcome_of("huge");
  EXPECT_EQ(huge.outcome, outcome::failed);
  EXPECT_EQ(huge.why, reason::too_large);
  EXPECT_EQ(huge.kind, retry::outcome_class::permanent);
  EXPECT_EQ(huge.attempts, 0U);
  EXPECT_LE(huge.took, duration(100ms)) << "an error, never a wait";
  EXPECT_FALSE(huge.detail.empty());
}

TEST(Limits, SeveralHoldAtOnce) {
  for (const pipeline::pace shape : {pipeline::pace::smooth, pipeline::pace::burst}) {
    sim_setup s = unlimited(30, 8);
    s.options.shape = shape;
    s.options.limits = {limit_of("10/60s"), limit_of("2000tok/60s"), limit_of("3/10s")};
    s.tokens = [](const std::string&) { return std::int64_t{500}; };
    const sim_result r = simulate(s);
    EXPECT_EQ(r.succeeded(), 30U);
    for (std::size_t i = 4; i < r.arrivals.size(); ++i)
      EXPECT_GE(r.arrivals[i].sent - r.arrivals[i - 4].sent, duration(62s)) << "tokens, call " << i;
    for (std::size_t i = 3; i < r.arrivals.size(); ++i)
      EXPECT_GE(r.arrivals[i].sent - r.arrivals[i - 3].sent, duration(10s)) << "calls, call " << i;
  }
}

TEST(Limits, HoldOverARestart) {
  for (const duration ago : {30s, 50s, 61s}) {
    sim_setup s = ten_a_minute(15);
    s.options.shape = pipeline::pace::burst;
    s.options.concurrency = 16;
    s.slots_before.assign(10, ago);
    const sim_result r = simulate(s);
    EXPECT_EQ(r.arrivals.at(0).sent, duration(62s) - ago);
    EXPECT_EQ(r.arrivals.at(9).sent, duration(62s) - ago);
    EXPECT_EQ(r.arrivals.at(10).sent, duration(124s) - ago);
  }
}

// --- slots and connections

TEST(Slots, ThatAreBurntAreAskedForAnewWithoutACall) {
  sim_setup s = ten_a_minute(10);
  s.server.dawdling = [](unsigned nth) { return nth == 2 ? duration(3s) : duration::zero(); };
  const sim_result r = simulate(s);
  EXPECT_EQ(r.succeeded(), 10U);
  EXPECT_EQ(r.arrivals.size(), 10U);
  EXPECT_EQ(r.jobs.at(0).calls, 10U);
  EXPECT_EQ(r.attempts.size(), 10U);
  EXPECT_EQ(r.outcome_of("job0-2").attempts, 1U);
  // The second turn was lost, and only that one.
  EXPECT_EQ(r.last_sent, gap * 10);
}

TEST(Slots, ThatAreUsedJustInTimeAreGood) {
  sim_setup s = ten_a_minute(5);
  s.server.dawdling = [](unsigned) { return duration(1s); };
  const sim_result r = simulate(s);
  EXPECT_EQ(r.succeeded(), 5U);
  EXPECT_EQ(r.last_sent, gap * 4 + 1s);
}

TEST(Slots, AreNotSpentOnAConnectionThatIsSlowToBecomeReady) {
  sim_setup s = ten_a_minute(5);
  s.server.connecting = [](unsigned, duration) {
    sim_readiness how;
    how.takes = 7s;
    return how;
  };
  const sim_result r = simulate(s);
  EXPECT_EQ(r.succeeded(), 5U);
  EXPECT_EQ(r.arrivals.size(), 5U);
  for (std::size_t i = 1; i < r.arrivals.size(); ++i)
    EXPECT_GE(r.arrivals[i].sent - r.arrivals[i - 1].sent, gap);
}

struct resend_case {
  const char* name;
  provider::attempt_report report;
};

std::vector<resend_case> resends() {
  resend_case stale{"stale connection", bad_answer(reason::connection_lost, 0)};
  stale.report.stale_connection = true;
  resend_case elsewhere{"redirect", bad_answer(reason::redirected, 307)};
  elsewhere.report.redirected = true;
  return {stale, elsewhere};
}

TEST(Resend, CostsASlotAndChargesNoAttempt) {
  for (const resend_case& c : resends()) {
    SCOPED_TRACE(c.name);
    sim_setup s = ten_a_minute(5);
    s.server.answers = [&c](unsigned nth, const std::string&) {
      if (nth == 2) return just(c.report);
      // The resend meets a server error: the document still has its one retry for that.
      if (nth == 3) return just(bad_answer(reason::server_error, 500));
      return std::optional<provider::attempt_report>();
    };
    const sim_result r = simulate(s);
    EXPECT_EQ(r.succeeded(), 5U);
    ASSERT_EQ(r.arrivals.size(), 7U);
    for (std::size_t i = 0; i < r.arrivals.size(); ++i)
      EXPECT_EQ(r.arrivals[i].sent, gap * static_cast<int>(i)) << "call " << i;
    EXPECT_EQ(r.calls_of("job0-2").size(), 3U);
    EXPECT_EQ(r.attempts.size(), 7U) << "all are written down";
  }
}

TEST(Resend, IsNotGivenForEver) {
  for (const resend_case& c : resends()) {
    SCOPED_TRACE(c.name);
    sim_setup s = unlimited(3, 1);
    s.server.answers = [&c](unsigned, const std::string&) { return just(c.report); };
    const sim_result r = simulate(s);
    EXPECT_EQ(r.outcomes.size(), 3U);
    EXPECT_EQ(r.succeeded(), 0U);
    EXPECT_LE(r.arrivals.size(), 12U);
  }
}

}  // namespace
}  // namespace sluice::fixtures
