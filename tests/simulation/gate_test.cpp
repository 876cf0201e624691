// Several jobs that share one gate, at every seed of many: never over the limit, nobody refused,
// nobody left out, whatever becomes of the gate.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "fixtures/simulation/simulation.hpp"
#include "retry/random.hpp"
#include "tests/simulation/seeds.hpp"
#include "tests/simulation/sharing_setups.hpp"

namespace sluice::fixtures {
namespace {

using namespace std::chrono_literals;

const std::uint64_t seeds = testing::seed_count(100);
const std::uint64_t fewer_seeds = testing::seed_count(25);
constexpr duration window = shared_window;

sim_setup at_a_gate(std::uint64_t seed) {
  sim_setup s = crowd(seed);
  s.gate.emplace();
  return s;
}

TEST(Gate, EveryJobSucceedsWithNoCallRefused) {
  all_succeed_unrefused(&at_a_gate, seeds);
}

TEST(Gate, SharesAreEvenWhateverTheNumbersOfWorkers) {
  shares_are_even(&at_a_gate, seeds, (window + 2s) / 2);
}

TEST(Gate, LosesNoTimeAgainstOneJobAlone) {
  no_time_is_lost(&at_a_gate, seeds);
}

TEST(Gate, IsNeverOverTheLimitHoweverOftenItIsKilled) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    sim_setup s = at_a_gate(seed);
    if (seed % 2 == 0) s.options.shape = pipeline::pace::burst;
    retry::random random(seed + 77);
    duration at{};
    for (int i = 0; i < 20; ++i) {
      gate_mishap m;
      at += random.between(1s, 60s);
      m.at = at;
      m.down_for = random.between(10ms, 8s);
      at += m.down_for;
      m.state_lost = seed % 5 == 0 && i % 4 == 0;
      s.gate->mishaps.push_back(m);
    }
    const sim_result r = simulate(s);
    ASSERT_EQ(r.succeeded(), std::uint64_t{s.jobs} * s.documents) << "seed " << seed;
    ASSERT_EQ(r.refused(), 0U) << "seed " << seed;
    ASSERT_FALSE(ever_over(r)) << "seed " << seed;
  }
}

TEST(Gate, ClientsGoOnWithinFiveSecondsOfItsReturn) {
  for (std::uint64_t seed = 1; seed <= fewer_seeds; ++seed) {
    sim_setup s = at_a_gate(seed);
    s.start_within = 0s;
    gate_mishap m;
    m.at = 100s;
    m.down_for = 40s;
    s.gate->mishaps.push_back(m);
    const sim_result r = simulate(s);
    duration next = duration::max();
    for (const sim_arrival& a : r.arrivals) {
      // A slot granted just before may be used just after.
      ASSERT_TRUE(a.sent <= m.at + 1s || a.sent >= m.at + m.down_for) << "seed " << seed;
      if (a.sent >= m.at + m.down_for) next = std::min(next, a.sent);
    }
    ASSERT_LE(next, m.at + m.down_for + 5s) << "seed " << seed;
  }
}

TEST(Gate, LostStateIsWaitedOutForOneWindow) {
  for (std::uint64_t seed = 1; seed <= fewer_seeds; ++seed) {
    sim_setup s = at_a_gate(seed);
    s.start_within = 0s;
    if (seed % 2 == 0) s.options.shape = pipeline::pace::burst;
    gate_mishap m;
    m.at = 100s;
    m.down_for = 1s;
    m.state_lost = true;
    s.gate->mishaps.push_back(m);
    const sim_result r = simulate(s);
    for (const sim_arrival& a : r.arrivals)
      ASSERT_TRUE(a.sent <= m.at + 1s || a.sent >= m.at + m.down_for + window + 2s)
          << "seed " << seed;
    ASSERT_EQ(r.succeeded(), std::uint64_t{s.jobs} * s.documents) << "seed " << seed;
  }
}

TEST(Gate, GoneForGoodNobodySendsAndAllIsDeferred) {
  for (std::uint64_t seed = 1; seed <= fewer_seeds; ++seed) {
    sim_setup s = at_a_gate(seed);
    s.start_within = 0s;
    gate_mishap m;
    m.at = seed % 2 == 0 ? duration(100s) : duration(0s);
    m.down_for = duration::max();
    s.gate->mishaps.push_back(m);
    const sim_result r = simulate(s);
    for (const sim_arrival& a : r.arrivals) ASSERT_LE(a.sent, m.at + 1s) << "seed " << seed;
    if (m.at == 0s) {
      ASSERT_TRUE(r.arrivals.empty());
    }
    for (const pipeline::batch_result& job : r.jobs) {
      ASSERT_TRUE(job.stopped);
      EXPECT_EQ(job.stopped->why, retry::reason::budget_refused);
      EXPECT_EQ(job.stopped->exit, 75);
      EXPECT_NE(job.stopped->detail.find("http://gate"), std::string::npos);
      EXPECT_EQ(job.succeeded + job.deferred, s.documents);
    }
    // The poll under way, the admission timeout and a last try.
    ASSERT_LE(to_seconds(r.ended - m.at), 90 + 20 + 5) << "seed " << seed;
  }
}

// It is there nearly all the time, and never for long enough to grant anything.
TEST(Gate, OneThatNeverStaysUpIsGivenUp) {
  for (std::uint64_t seed = 1; seed <= fewer_seeds; ++seed) {
    sim_setup s = at_a_gate(seed);
    s.start_within = 0s;
    for (int i = 1; i <= 200; ++i) {
      gate_mishap m;
      m.at = i * 3s;
      m.down_for = 5ms;
      m.state_lost = true;
      s.gate->mishaps.push_back(m);
    }
    const sim_result r = simulate(s);
    for (const sim_arrival& a : r.arrivals) ASSERT_LE(a.sent, duration(4s)) << "seed " << seed;
    for (const pipeline::batch_result& job : r.jobs) {
      ASSERT_TRUE(job.stopped) << "seed " << seed;
      EXPECT_EQ(job.stopped->exit, 75);
      EXPECT_EQ(job.succeeded + job.deferred, s.documents);
    }
    ASSERT_LE(to_seconds(r.ended), 3 * 90 + 20 + 5) << "seed " << seed;
  }
}

TEST(Gate, OneRefusalHoldsEveryJobBack) {
  one_refusal_holds_every_job_back(&at_a_gate, fewer_seeds);
}

TEST(Gate, CallsInFlightAreBoundedOverAllJobsAcrossRestarts) {
  for (std::uint64_t seed = 1; seed <= fewer_seeds; ++seed) {
    sim_setup s = at_a_gate(seed);
    s.server.limit.reset();
    s.server.answer_min = 20s;
    s.server.answer_max = 40s;
    s.gate->max_in_flight = 3;
    s.admission_timeouts.assign(s.jobs, 10h);
    s.time_limit = 200h;
    for (int i = 1; i <= 10; ++i) {
      gate_mishap m;
      m.at = i * 50s;
      m.down_for = 2s;
      s.gate->mishaps.push_back(m);
    }
    const sim_result r = simulate(s);
    ASSERT_EQ(r.succeeded(), std::uint64_t{s.jobs} * s.documents) << "seed " << seed;
    ASSERT_LE(r.max_in_flight_of_all, 3U) << "seed " << seed;
  }
}

TEST(Gate, AJobWithoutATurnInTimeEndsLoudlyHavingCalledNothing) {
  sim_setup s = at_a_gate(5);
  s.jobs = 3;
  s.documents = 20;
  s.workers.assign(3, 8);
  s.start_within = 0s;
  s.admission_timeouts = {90s, 90s, 1s};
  // The others are in line before the third asks.
  s.gate->network = 0ns;
  const sim_result r = simulate(s);
  ASSERT_EQ(r.jobs.size(), 3U);
  const pipeline::batch_result& impatient = r.jobs.front();
  ASSERT_TRUE(impatient.stopped);
  EXPECT_EQ(impatient.stopped->why, retry::reason::budget_refused);
  EXPECT_EQ(impatient.stopped->exit, 75);
  EXPECT_EQ(impatient.calls, 0U);
  EXPECT_EQ(impatient.deferred, s.documents);
  EXPECT_EQ(r.succeeded(), 2U * s.documents);
  EXPECT_EQ(r.arrivals.size(), 2U * s.documents);
}

TEST(Gate, PriorityGoesAheadAndStarvesNobody) {
  for (std::uint64_t seed = 1; seed <= fewer_seeds; ++seed) {
    sim_setup s = at_a_gate(seed);
    s.jobs = 3;
    s.documents = 30;
    s.workers.assign(3, 8);
    s.start_within = 0s;
    s.gate->priority = {false, false, true};
    const sim_result r = simulate(s);
    ASSERT_EQ(r.succeeded(), 90U);
    // While the preferred job is there it has three turns of four, give or take the first.
    duration last{};
    for (const sim_arrival& a : r.arrivals)
      if (a.job == 2) last = std::max(last, a.sent);
    unsigned others = 0;
    for (const sim_arrival& a : r.arrivals)
      if (a.job != 2 && a.sent < last) ++others;
    EXPECT_GE(others, 9U) << "seed " << seed;
    EXPECT_LE(others, 12U) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sluice::fixtures
