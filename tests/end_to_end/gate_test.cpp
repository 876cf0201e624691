// Real processes that share a gate, against an endpoint that judges them.
#include <sys/stat.h>

#include "tests/support/gate_trial.hpp"
#include "tests/support/plain_client.hpp"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using testing::program;

class GateProcess : public testing::gate_trial {
 protected:
  testing::plain_client client() const {
    return testing::plain_client(static_cast<std::uint16_t>(std::stoi(port)));
  }
  // Until so many jobs are in line, or half a minute is over.
  bool line_reaches(std::size_t jobs) const {
    testing::plain_client c = client();
    for (int look = 0; look < 1500; ++look) {
      const std::string text = c.get("/metrics").body;
      std::size_t seen = 0;
      for (auto at = text.find("sluice_gate_waiting{"); at != std::string::npos;
           at = text.find("sluice_gate_waiting{", at + 1))
        ++seen;
      if (seen >= jobs) return true;
      ::poll(nullptr, 0, 20);
    }
    return false;
  }
};

TEST_F(GateProcess, ThreeJobsAllSucceedThoughFourCallsAreRefused) {
  serve(10, 1s, 4);
  nothing_was_sent();
  program gate = open_gate({"--max-in-flight", "2"});
  std::vector<program> jobs;
  for (const char* name : {"first", "second", "third"}) jobs.push_back(start(name, 15));
  for (program& job : jobs) EXPECT_EQ(job.exit_code(), 0) << job.output();
  EXPECT_EQ(stats()["ok"], 45);
  EXPECT_EQ(grade()["windows_over_limit"], 0);
  EXPECT_LE(stats()["max_in_flight"].get<int>(), 2);
  // The call budget: five for a document.
  EXPECT_LE(stats()["calls"].get<int>(), 5 * 45);
  gate.terminate();
  EXPECT_EQ(gate.exit_code(), 0) << gate.output();
}

TEST_F(GateProcess, TheOneWithoutPatienceEndsLoudlyHavingCalledNothing) {
  serve(1, 1s);
  nothing_was_sent();
  const program gate = open_gate();
  program first = start("first", 4);
  program second = start("second", 4);
  ASSERT_TRUE(line_reaches(2));
  program hasty = start("hasty", 4, {"--admission-timeout", "1s"});
  const std::string hasty_pid = hasty.pid();
  EXPECT_EQ(hasty.exit_code(), 75) << hasty.output();
  EXPECT_NE(hasty.output().find("budget_refused"), std::string::npos) << hasty.output();
  EXPECT_EQ(first.exit_code(), 0) << first.output();
  EXPECT_EQ(second.exit_code(), 0) << second.output();
  const auto seen = stats();
  EXPECT_EQ(seen["calls"], 8);
  for (const auto& arrival : seen["arrivals"]) EXPECT_NE(arrival["job"], hasty_pid);
  EXPECT_EQ(grade()["windows_over_limit"], 0);
}

TEST_F(GateProcess, KilledAndStartedAgainUnderLoadItNeverLetsTooManyThrough) {
  serve(10, 1s);
  nothing_was_sent();
  program gate = open_gate();
  std::vector<program> jobs;
  for (const char* name : {"first", "second", "third"}) jobs.push_back(start(name, 25));
  for (int kills = 0; kills < 4; ++kills) {
    calls_reach(calls() + 6, 5s);
    gate.kill();
    gate = open_gate();
  }
  for (program& job : jobs) EXPECT_EQ(job.exit_code(), 0) << job.output();
  EXPECT_EQ(stats()["ok"], 75);
  EXPECT_EQ(stats()["rate_limited"], 0);
  EXPECT_EQ(grade()["windows_over_limit"], 0);
}

TEST_F(GateProcess, LostStateCountsAsUsedUp) {
  serve(5, 2s);
  nothing_was_sent();
  program gate = open_gate();
  program job = start("job", 12);
  calls_reach(4);
  gate.kill();
  folder.write("gate.state", "no state at all");
  gate = open_gate();
  EXPECT_NE(gate.output().find("just used up"), std::string::npos) << gate.output();
  EXPECT_EQ(job.exit_code(), 0) << job.output();
  EXPECT_EQ(stats()["rate_limited"], 0);
  EXPECT_EQ(grade()["windows_over_limit"], 0);
}

TEST_F(GateProcess, GoneForGoodNothingIsSent) {
  serve(10, 1s);
  {
    nothing_was_sent();
    const program gate = open_gate();
  }
  program job = start("job", 3, {"--admission-timeout", "1s"});
  EXPECT_EQ(job.exit_code(), 75) << job.output();
  EXPECT_NE(job.output().find(gate_url), std::string::npos) << job.output();
  EXPECT_EQ(stats()["calls"], 0);
}

TEST_F(GateProcess, GoneInTheMiddleTheJobEndsInTime) {
  serve(10, 2s);
  nothing_was_sent();
  program gate = open_gate();
  program job = start("job", 30, {"--admission-timeout", "1s"});
  calls_reach(3);
  gate.kill();
  EXPECT_EQ(job.exit_code(), 75) << job.output();
  EXPECT_NE(job.output().find("documents=30"), std::string::npos) << job.output();
}

TEST_F(GateProcess, AnotherLimitInTheMiddleDefersTheRest) {
  serve(10, 2s);
  nothing_was_sent();
  program gate = open_gate();
  program job = start("job", 30, {"--limit", limit});
  calls_reach(3);
  gate.kill();
  limit = "9/2000ms";
  gate = open_gate();
  EXPECT_EQ(job.exit_code(), 78) << job.output();
  EXPECT_NE(job.output().find("documents=30"), std::string::npos) << job.output();
  EXPECT_NE(job.output().find("failed=0"), std::string::npos) << job.output();
  EXPECT_EQ(job.output().find("deferred=0"), std::string::npos) << job.output();
}

TEST_F(GateProcess, AnotherLimitIsRefusedBeforeAnyCall) {
  serve(10, 1s);
  const program gate = open_gate();
  program job = start("job", 3, {"--limit", "20/1s"});
  EXPECT_EQ(job.exit_code(), 78) << job.output();
  EXPECT_NE(job.output().find("20/1s"), std::string::npos) << job.output();
  EXPECT_EQ(stats()["calls"], 0);
}

TEST_F(GateProcess, TheTokenIsAskedForAndNeverShown) {
  serve(10, 1s);
  nothing_was_sent();
  const std::string token = folder.write("token", "0123456789abcdef-secret\n");
  ASSERT_EQ(::chmod(token.c_str(), 0600), 0);
  program gate = open_gate({"--token-file", token});
  program without = start("without", 1);
  EXPECT_EQ(without.exit_code(), 78) << without.output();
  program with = start("with", 1, {"--gate-token-file", token});
  EXPECT_EQ(with.exit_code(), 0) << with.output();
  EXPECT_EQ(gate.output().find("secret"), std::string::npos);
  EXPECT_EQ(with.output().find("secret"), std::string::npos);
}

TEST_F(GateProcess, BesidesLoopbackItWantsTokenAndCertificate) {
  program gate({"gate", "--listen", "0.0.0.0:0", "--state", state}, folder.at("open.log"));
  EXPECT_EQ(gate.exit_code(), 78);
  EXPECT_NE(gate.output().find("--tls-cert"), std::string::npos) << gate.output();
}

TEST_F(GateProcess, TheStateIsUsedByOneGateAlone) {
  serve(10, 1s);
  const program gate = open_gate();
  program other({"gate", "--listen", "127.0.0.1:0", "--state", state}, folder.at("other.log"));
  EXPECT_EQ(other.exit_code(), 75);
  EXPECT_NE(other.output().find(gate.pid()), std::string::npos) << other.output();
}

}  // namespace
}  // namespace sluice
