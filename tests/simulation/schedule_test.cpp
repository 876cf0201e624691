// The schedule of a batch, at every seed of many: who is sent when, and who is refused.
#include <gtest/gtest.h>

#include "fixtures/simulation/simulation.hpp"

namespace sluice::fixtures {
namespace {

using namespace std::chrono_literals;

sim_setup fifty(std::uint64_t seed, window_kind kind, bool count_refused) {
  sim_setup s;
  s.seed = seed;
  s.server.limit = server_limit{10, 60s, kind, count_refused};
  s.server.spread = 900ms;
  s.options.limits.push_back(pipeline::limit{});
  return s;
}

struct server_case {
  const char* name;
  window_kind kind;
  bool count_refused;
};

class Schedule : public ::testing::TestWithParam<server_case> {};

constexpr std::uint64_t seeds = 1000;

TEST_P(Schedule, SmoothSendsFiftyInTimeWithNoneRefused) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const sim_result r = simulate(fifty(seed, GetParam().kind, GetParam().count_refused));
    ASSERT_EQ(r.succeeded(), 50U) << "seed " << seed;
    ASSERT_EQ(r.arrivals.size(), 50U) << "seed " << seed;
    ASSERT_EQ(r.refused(), 0U) << "seed " << seed;
    ASSERT_LE(r.last_sent, duration(303800ms)) << "seed " << seed;
    ASSERT_LE(r.max_in_flight, 8U) << "seed " << seed;
  }
}

TEST_P(Schedule, BurstSendsFiftyInFourWindows) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    sim_setup s = fifty(seed, GetParam().kind, GetParam().count_refused);
    s.options.shape = pipeline::pace::burst;
    s.options.concurrency = 16;
    s.server.answer_max = 20s;
    const sim_result r = simulate(s);
    ASSERT_EQ(r.succeeded(), 50U) << "seed " << seed;
    ASSERT_EQ(r.refused(), 0U) << "seed " << seed;
    ASSERT_LE(r.last_sent, duration(248s)) << "seed " << seed;
    ASSERT_LE(r.max_in_flight, 16U) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Servers, Schedule,
                         ::testing::Values(server_case{"Rolling", window_kind::rolling, false},
                                           server_case{"Fixed", window_kind::fixed, false},
                                           server_case{"Counting", window_kind::rolling, true}),
                         [](const auto& server) { return server.param.name; });

TEST(StrictServer, SmoothIsNeverRefused) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    sim_setup s = fifty(seed, window_kind::strict, false);
    s.server.spread = 100ms;
    const sim_result r = simulate(s);
    ASSERT_EQ(r.succeeded(), 50U) << "seed " << seed;
    ASSERT_EQ(r.refused(), 0U) << "seed " << seed;
    ASSERT_LE(r.last_sent, duration(303800ms)) << "seed " << seed;
  }
}

TEST(ForeignClient, TakingAThirdOfTheKeyCostsNoDocument) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    for (const bool counting : {false, true}) {
      sim_setup s = fifty(seed, window_kind::rolling, counting);
      s.server.foreign_share = 1.0 / 3;
      const sim_result r = simulate(s);
      ASSERT_EQ(r.succeeded(), 50U) << "seed " << seed << " counting " << counting;
    }
  }
}

void all_succeed_sharing_nothing(unsigned jobs, bool counting) {
  std::uint64_t calls = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    sim_setup s = fifty(seed, window_kind::rolling, counting);
    s.jobs = jobs;
    const sim_result r = simulate(s);
    ASSERT_EQ(r.succeeded(), std::uint64_t{50} * jobs) << "seed " << seed;
    calls += r.arrivals.size();
  }
  ::testing::Test::RecordProperty("mean_calls", static_cast<int>(calls / 200));
}

TEST(SharingNothing, ThreeJobsAllSucceed) {
  all_succeed_sharing_nothing(3, false);
}
TEST(SharingNothing, ThreeJobsAllSucceedWhereRefusalsCount) {
  all_succeed_sharing_nothing(3, true);
}
TEST(SharingNothing, SixJobsAllSucceed) {
  all_succeed_sharing_nothing(6, false);
}
TEST(SharingNothing, SixJobsAllSucceedWhereRefusalsCount) {
  all_succeed_sharing_nothing(6, true);
}

}  // namespace
}  // namespace sluice::fixtures
