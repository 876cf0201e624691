// Several jobs that share one budget, at every seed of many: nobody is refused, nobody is left
// out.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "fixtures/simulation/simulation.hpp"
#include "pipeline/admission/budget_state.hpp"
#include "retry/random.hpp"
#include "tests/simulation/seeds.hpp"
#include "tests/simulation/sharing_setups.hpp"

namespace sluice::fixtures {
namespace {

using namespace std::chrono_literals;

const std::uint64_t seeds = testing::seed_count(100);
const std::uint64_t fewer_seeds = testing::seed_count(20);
constexpr duration window = shared_window;

sim_setup shared(std::uint64_t seed) {
  sim_setup s = crowd(seed);
  s.budget = fresh_file();
  return s;
}

TEST(SharedBudget, EveryJobSucceedsWithNoCallRefused) {
  all_succeed_unrefused(&shared, seeds);
}

TEST(SharedBudget, SharesAreEvenWhateverTheNumbersOfWorkers) {
  shares_are_even(&shared, seeds);
}

TEST(SharedBudget, LosesNoTimeAgainstOneJobAlone) {
  no_time_is_lost(&shared, seeds);
}

TEST(SharedBudget, OneRefusalHoldsEveryJobBack) {
  one_refusal_holds_every_job_back(&shared, seeds);
}

TEST(SharedBudget, CallsInFlightAreBoundedOverAllJobs) {
  for (std::uint64_t seed = 1; seed <= fewer_seeds; ++seed) {
    sim_setup s = shared(seed);
    s.server.limit.reset();
    s.server.answer_min = 20s;
    s.server.answer_max = 40s;
    s.budget = fresh_file(3);
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
