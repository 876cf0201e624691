// Several jobs that share one budget, at every seed of many: nobody is refused, nobody is left
// out.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "fixtures/simulation/simulation.hpp"
#include "pipeline/admission/budget_state.hpp"
#include "retry/random.hpp"
#include "tests/simulation/seeds.hpp"

namespace sluice::fixtures {
namespace {

using namespace std::chrono_literals;

const std::uint64_t seeds = testing::seed_count(100);
const std::uint64_t fewer_seeds = testing::seed_count(20);
constexpr duration window = 60s;
constexpr std::size_t calls_per_window = 10;

std::shared_ptr<memory_budget> fresh(std::uint32_t max_in_flight = 0) {
  auto budget = std::make_shared<memory_budget>();
  pipeline::budget_settings settings;
  settings.limits.emplace_back();
  settings.max_in_flight = max_in_flight;
  budget->bytes = pipeline::serialise(pipeline::fresh_budget(settings, budget->boot));
  return budget;
}

// One to six jobs with one to sixteen workers each, 150 documents in all, or a few more.
sim_setup shared(std::uint64_t seed) {
  retry::random random(seed);
  sim_setup s;
  s.seed = seed;
  s.jobs = 1 + static_cast<unsigned>(seed % 6);
  s.documents = (150 + s.jobs - 1) / s.jobs;
  for (unsigned job = 0; job < s.jobs; ++job)
    s.workers.push_back(static_cast<unsigned>(random.between(1s, 17s) / 1s));
  s.start_within = 30s;
  s.server.limit = server_limit{calls_per_window, window, window_kind::rolling, false};
  s.server.spread = 900ms;
  s.server.answer_max = 3s;
  s.options.limits.emplace_back();
  s.budget = fresh();
  return s;
}

// Whether more than the limit arrived in any window.
bool ever_over(const sim_result& r) {
  std::vector<duration> at;
  for (const sim_arrival& a : r.arrivals) at.push_back(a.arrived);
  std::sort(at.begin(), at.end());
  for (std::size_t i = calls_per_window; i < at.size(); ++i)
    if (at[i] - at[i - calls_per_window] < window) return true;
  return false;
}

// The sends of each job while all of them were there, within `length` of the last one's start.
std::map<unsigned, unsigned> shares(const sim_result& r, unsigned jobs, duration length) {
  std::map<unsigned, duration> first;
  std::map<unsigned, duration> last;
  for (const sim_arrival& a : r.arrivals) {
    first.try_emplace(a.job, a.sent);
    last[a.job] = a.sent;
  }
  duration from{};
  duration until = duration::max();
  for (unsigned job = 0; job < jobs; ++job) {
    from = std::max(from, first[job]);
    until = std::min(until, last[job]);
  }
  until = std::min(until, from + length);
  std::map<unsigned, unsigned> result;
  for (unsigned job = 0; job < jobs; ++job) result[job] = 0;
  for (const sim_arrival& a : r.arrivals)
    if (a.sent >= from && a.sent < until) ++result[a.job];
  return result;
}

TEST(SharedBudget, EveryJobSucceedsWithNoCallRefused) {
  for (const pipeline::pace shape : {pipeline::pace::smooth, pipeline::pace::burst}) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      sim_setup s = shared(seed);
      s.options.shape = shape;
      const sim_result r = simulate(s);
      const auto all = std::uint64_t{s.jobs} * s.documents;
      ASSERT_EQ(r.succeeded(), all) << "seed " << seed;
      ASSERT_EQ(r.arrivals.size(), all) << "seed " << seed;
      ASSERT_EQ(r.refused(), 0U) << "seed " << seed;
      ASSERT_FALSE(ever_over(r)) << "seed " << seed;
    }
  }
}

TEST(SharedBudget, SharesAreEvenWhateverTheNumbersOfWorkers) {
  for (const pipeline::pace shape : {pipeline::pace::smooth, pipeline::pace::burst}) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      sim_setup s = shared(seed);
      s.options.shape = shape;
      // Whoever waits for a long answer with its only worker asks for no turn.
      if (shape == pipeline::pace::burst) s.workers.assign(s.jobs, 10);
      const sim_result r = simulate(s);
      const auto share = shares(r, s.jobs, 5 * (window + 2s));
      const auto [least, most] =
          std::minmax_element(share.begin(), share.end(),
                              [](const auto& a, const auto& b) { return a.second < b.second; });
      ASSERT_LE(most->second - least->second, 1U) << "seed " << seed << " jobs " << s.jobs;
    }
  }
}

TEST(SharedBudget, LosesNoTimeAgainstOneJobAlone) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const sim_setup s = shared(seed);
    const sim_result r = simulate(s);
    // Smooth turns are 6.2 s apart; the starts, and turns without a taker at the end, add a little.
    const double turns = static_cast<double>(s.jobs) * s.documents;
    ASSERT_LE(to_seconds(r.last_sent), 6.2 * turns + 60) << "seed " << seed;
  }
}

TEST(SharedBudget, OneRefusalHoldsEveryJobBack) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    sim_setup s = shared(seed);
    s.server.limit.reset();
    s.server.spread = 0s;
    // The twentieth call is refused for 50 s, whoever makes it.
    s.server.answers = [](unsigned nth, const std::string&) {
      std::optional<provider::attempt_report> report;
      if (nth != 20) return report;
      report.emplace();
      report->signal = retry::signal(retry::reason::rate_limited, 429);
      report->signal.hint = 50s;
      return report;
    };
    const sim_result r = simulate(s);
    ASSERT_EQ(r.succeeded(), std::uint64_t{s.jobs} * s.documents) << "seed " << seed;
    std::vector<duration> sent;
    for (const sim_arrival& a : r.arrivals) sent.push_back(a.sent);
    std::sort(sent.begin(), sent.end());
    ASSERT_GE(sent[20] - sent[19], duration(50s)) << "seed " << seed;
  }
}

TEST(SharedBudget, CallsInFlightAreBoundedOverAllJobs) {
  for (std::uint64_t seed = 1; seed <= fewer_seeds; ++seed) {
    sim_setup s = shared(seed);
    s.server.limit.reset();
    s.server.answer_min = 20s;
    s.server.answer_max = 40s;
    s.budget = fresh(3);
    s.time_limit = 200h;
    const sim_result r = simulate(s);
    ASSERT_EQ(r.succeeded(), std::uint64_t{s.jobs} * s.documents) << "seed " << seed;
    ASSERT_LE(r.max_in_flight_of_all, 3U) << "seed " << seed;
    ASSERT_EQ(s.budget->places_taken, 0U) << "seed " << seed;
  }
}

TEST(SharedBudget, AJobWithoutATurnInTimeEndsLoudlyHavingCalledNothing) {
  sim_setup s = shared(5);
  s.jobs = 3;
  s.documents = 20;
  s.workers.assign(3, 8);
  s.start_within = 0s;
  s.admission_timeouts = {90s, 90s, 1s};
  const sim_result r = simulate(s);
  ASSERT_EQ(r.jobs.size(), 3U);
  const pipeline::batch_result& impatient = r.jobs.front();
  ASSERT_TRUE(impatient.stopped);
  EXPECT_EQ(impatient.stopped->why, retry::reason::budget_refused);
  EXPECT_EQ(impatient.stopped->exit, 75);
  EXPECT_NE(impatient.stopped->detail.find("in memory"), std::string::npos);
  EXPECT_EQ(impatient.calls, 0U);
  EXPECT_EQ(impatient.deferred, s.documents);
  EXPECT_EQ(r.succeeded(), 2U * s.documents);
  // Nothing was spent on it: the others' turns follow each other without a gap.
  EXPECT_EQ(r.arrivals.size(), 2U * s.documents);
  EXPECT_LE(to_seconds(r.last_sent), 6.2 * 2 * s.documents);
}

}  // namespace
}  // namespace sluice::fixtures
