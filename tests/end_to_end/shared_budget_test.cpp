// Three real processes that share a budget's file, against an endpoint that judges them.
#include <gtest/gtest.h>
#include <poll.h>

#include <nlohmann/json.hpp>

#include "fixtures/fake_endpoint.hpp"
#include "pipeline/admission/budget_file.hpp"
#include "tests/support/program.hpp"
#include "tests/support/scratch_folder.hpp"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using testing::program;

class SharedBudgetFile : public ::testing::Test {
 protected:
  void serve(std::size_t calls, duration window) {
    fixtures::fake_options options;
    options.limit = fixtures::server_limit{calls, window};
    options.latency_min = 5ms;
    options.latency_max = 40ms;
    endpoint = std::make_unique<fixtures::fake_endpoint>(options);
    pipeline::budget_settings settings;
    settings.limits = {pipeline::limit{static_cast<std::int64_t>(calls), window}};
    pipeline::init_budget(budget, settings);
  }

  program start(const std::string& name, int documents, const std::string& patience = "90s") {
    std::string lines;
    for (int i = 1; i <= documents; ++i)
      lines += R"({"id": "d)" + std::to_string(i) + R"(", "text": "document )" + std::to_string(i) +
               " of " + name + "\"}\n";
    const std::string batch = folder.write(name + ".jsonl", lines);
    return program({"run", batch, "--endpoint", endpoint->url(), "--model", "any", "--store",
                    folder.at(name + ".db"), "--budget", budget, "--admission-timeout", patience},
                   folder.at(name + ".log"));
  }

  nlohmann::json stats() const { return nlohmann::json::parse(endpoint->stats_json()); }
  nlohmann::json grade() const { return nlohmann::json::parse(endpoint->grade_json()); }

  // Until `jobs` have a turn planned, or half a minute is over.
  bool line_reaches(std::size_t jobs) const {
    for (int look = 0; look < 1500; ++look) {
      if (pipeline::describe_budget(budget).state.line.size() >= jobs) return true;
      ::poll(nullptr, 0, 20);
    }
    return false;
  }

  testing::scratch_folder folder;
  std::string budget = folder.at("key.budget");
  std::unique_ptr<fixtures::fake_endpoint> endpoint;
};

TEST_F(SharedBudgetFile, ThreeProcessesAllSucceedUnderOneLimit) {
  serve(10, 1s);
  std::vector<program> jobs;
  for (const char* name : {"first", "second", "third"}) jobs.push_back(start(name, 20));
  for (program& job : jobs) EXPECT_EQ(job.exit_code(), 0) << job.output();
  EXPECT_EQ(stats()["ok"], 60);
  EXPECT_LE(stats()["rate_limited"].get<int>(), 1);
  EXPECT_EQ(grade()["windows_over_limit"], 0);
}

TEST_F(SharedBudgetFile, TheOneWithoutPatienceEndsLoudlyHavingCalledNothing) {
  serve(1, 1s);
  program first = start("first", 5);
  program second = start("second", 5);
  ASSERT_TRUE(line_reaches(2));
  program hasty = start("hasty", 5, "1s");
  const std::string hasty_pid = hasty.pid();
  EXPECT_EQ(hasty.exit_code(), 75) << hasty.output();
  EXPECT_NE(hasty.output().find("budget_refused"), std::string::npos) << hasty.output();
  EXPECT_EQ(first.exit_code(), 0) << first.output();
  EXPECT_EQ(second.exit_code(), 0) << second.output();
  EXPECT_EQ(stats()["calls"], 10);
  const auto seen = stats();
  for (const auto& arrival : seen["arrivals"]) EXPECT_NE(arrival["job"], hasty_pid);
  EXPECT_EQ(grade()["windows_over_limit"], 0);
}

TEST_F(SharedBudgetFile, AKilledJobLeavesTheOthersTheirTurns) {
  serve(10, 1s);
  program victim = start("victim", 50);
  program other = start("other", 20);
  ASSERT_TRUE(line_reaches(2));
  { const program killed = std::move(victim); }
  EXPECT_EQ(other.exit_code(), 0) << other.output();
  EXPECT_EQ(grade()["windows_over_limit"], 0);
}

TEST_F(SharedBudgetFile, AnotherLimitIsRefusedBeforeAnyCall) {
  serve(10, 1s);
  const std::string batch = folder.write("one.txt", "text");
  program job({"run", batch, "--endpoint", endpoint->url(), "--model", "any", "--store",
               folder.at("one.db"), "--budget", budget, "--limit", "20/1s"},
              folder.at("one.log"));
  EXPECT_EQ(job.exit_code(), 78);
  EXPECT_NE(job.output().find("10/1s"), std::string::npos) << job.output();
  EXPECT_NE(job.output().find("20/1s"), std::string::npos) << job.output();
  EXPECT_EQ(stats()["calls"], 0);
}

TEST_F(SharedBudgetFile, IsMadeAndShownByTheProgram) {
  program init({"budget", "init", budget, "--limit", "10/60s", "--max-in-flight", "4"},
               folder.at("init.log"));
  EXPECT_EQ(init.exit_code(), 0) << init.output();
  program show({"budget", "show", budget, "--json"}, folder.at("show.log"));
  EXPECT_EQ(show.exit_code(), 0);
  const auto shown = nlohmann::json::parse(show.output());
  EXPECT_EQ(shown["limits"][0]["limit"], "10/60s");
  EXPECT_EQ(shown["limits"][0]["left"], 10);
  EXPECT_EQ(shown["max_in_flight"], 4);
  EXPECT_EQ(shown["next_turn_seconds"], 0.0);
  program words({"budget", "show", budget}, folder.at("words.log"));
  EXPECT_EQ(words.exit_code(), 0);
  EXPECT_NE(words.output().find("10/60s: 0 used, 10 left"), std::string::npos) << words.output();
  program none({"budget", "show", folder.at("no.budget")}, folder.at("none.log"));
  EXPECT_EQ(none.exit_code(), 78);
  EXPECT_NE(none.output().find("sluice budget init"), std::string::npos);
}

}  // namespace
}  // namespace sluice
