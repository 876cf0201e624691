// Jobs that share a budget while all goes wrong at once: jobs are killed, clocks are set, the gate
// dies, comes back and has lost its state. What must hold then holds at every seed.
#include <gtest/gtest.h>

#include "tests/simulation/seeds.hpp"
#include "tests/simulation/sharing_setups.hpp"

namespace sluice::fixtures {
namespace {

using namespace std::chrono_literals;

const std::uint64_t seeds = testing::seed_count(500);

// Up to all jobs but the last are killed, and the clock on the wall is set by up to a day, both
// ways.
sim_setup in_trouble(std::uint64_t seed) {
  sim_setup s = crowd(seed);
  retry::random random(seed + 1'000'003);
  if (seed % 2 == 0) s.options.shape = pipeline::pace::burst;
  s.server.answer_max = seed % 3 == 0 ? duration(20s) : duration(3s);
  for (unsigned job = 0; job + 1 < s.jobs; ++job)
    s.killed_at.push_back(random.between(0s, 2s) < 1s ? std::optional(random.between(1s, 900s))
                                                      : std::nullopt);
  duration at{};
  for (int i = 0; i < 6; ++i) {
    at += random.between(10s, 200s);
    s.wall_steps.emplace_back(at, random.between(0s, 48h) - 24h);
  }
  // A job that is gone may leave its turn unused, and what it took in flight until that is noticed.
  s.admission_timeouts.assign(s.jobs, 20min);
  return s;
}

// Those that were not killed.
void survivors_have_it_all(const sim_setup& s, const sim_result& r, std::uint64_t seed) {
  std::map<std::string, unsigned> succeeded;
  for (const pipeline::outcome_record& o : r.outcomes)
    if (o.outcome == retry::outcome::succeeded)
      ++succeeded[o.document_id.substr(0, o.document_id.find('-'))];
  for (unsigned job = 0; job < s.jobs; ++job) {
    if (job < s.killed_at.size() && s.killed_at[job]) continue;
    ASSERT_EQ(succeeded["job" + std::to_string(job)], s.documents) << "seed " << seed;
  }
}

TEST(Mishaps, ABudgetFileIsNeverOverspentAndLeavesNobodyOut) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    sim_setup s = in_trouble(seed);
    s.budget = fresh_file(seed % 4 == 0 ? 5 : 0);
    const sim_result r = simulate(s);
    ASSERT_FALSE(ever_over(r)) << "seed " << seed;
    ASSERT_EQ(r.refused(), 0U) << "seed " << seed;
    survivors_have_it_all(s, r, seed);
  }
}

TEST(Mishaps, AGateIsNeverOverspentAndLeavesNobodyOut) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    sim_setup s = in_trouble(seed);
    retry::random random(seed + 77);
    s.gate.emplace();
    s.gate->max_in_flight = seed % 4 == 0 ? 5 : 0;
    duration at{};
    for (int i = 0; i < 5; ++i) {
      gate_mishap m;
      m.at = at += random.between(1s, 200s);
      m.down_for = random.between(0s, 20s);
      m.state_lost = random.between(0s, 3s) < 1s;
      at += m.down_for;
      s.gate->mishaps.push_back(m);
    }
    const sim_result r = simulate(s);
    ASSERT_FALSE(ever_over(r)) << "seed " << seed;
    ASSERT_EQ(r.refused(), 0U) << "seed " << seed;
    survivors_have_it_all(s, r, seed);
  }
}

}  // namespace
}  // namespace sluice::fixtures
