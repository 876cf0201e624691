// A gate that is killed and started again a hundred times under load.
#include "tests/support/gate_trial.hpp"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using testing::program;

class LongGate : public testing::gate_trial {};

TEST_F(LongGate, AHundredKillsAndNoCallTooMany) {
  serve(20, 1s);
  nothing_was_sent();
  program gate = open_gate();
  std::vector<program> jobs;
  for (const char* name : {"first", "second", "third"}) jobs.push_back(start(name, 400));
  for (int kills = 0; kills < 100; ++kills) {
    const int before = calls();
    calls_reach(before + 5, 5s);
    EXPECT_GT(calls(), before) << "nobody went on within 5 s of start " << kills;
    gate.kill();
    gate = open_gate();
  }
  for (program& job : jobs) EXPECT_EQ(job.exit_code(), 0) << job.output();
  EXPECT_EQ(stats()["ok"], 1200);
  EXPECT_EQ(stats()["rate_limited"], 0);
  EXPECT_EQ(grade()["windows_over_limit"], 0);
}

}  // namespace
}  // namespace sluice
