// Short of descriptors, on a network that breaks: nothing is lost, and nearly everything succeeds.
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "fixtures/scenario.hpp"
#include "tests/support/sluice_process.hpp"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using namespace testing;

constexpr unsigned many = 1000;

class FewDescriptors : public ::testing::TestWithParam<const char*> {};

TEST_P(FewDescriptors, AThousandDocumentsAllSucceed) {
  fixtures::fake_options options = unlimited();
  options.latency_min = 2ms;
  options.latency_max = 10ms;
  const fixtures::fake_endpoint endpoint(options);
  const desk at(endpoint);
  at.folder.write("batch.jsonl", numbered_documents(many));
  process_options o = at.prepare({"run", "--concurrency", GetParam(), "batch.jsonl"});
  o.most_files = 32;
  const process_end end = run_process(o);
  EXPECT_EQ(end.exit, 0) << end.err.substr(end.err.size() > 2000 ? end.err.size() - 2000 : 0);
  EXPECT_EQ(at.status()["succeeded"], many);
  EXPECT_EQ(grade(endpoint)["duplicate_successes"], 0) << grade(endpoint);
  const bool too_many = std::string(GetParam()) == "64";
  EXPECT_EQ(lines_with(end.err, "raise ulimit -n"), too_many ? 1U : 0U);
}

INSTANTIATE_TEST_SUITE_P(Concurrency, FewDescriptors, ::testing::Values("8", "64"),
                         [](const auto& p) { return "Of" + std::string(p.param); });

// One connection in five is reset: before the answer, in it, or after it.
constexpr const char* resets = R"({"rules": [
  {"probability": 0.07, "answer": {"raw": [{"end": "reset"}]}},
  {"probability": 0.07, "answer": {"raw": [
     {"send": "HTTP/1.1 200 OK\r\nContent-Length: 85\r\n\r\n{\"choices\":[{\"mess"}, {"end": "reset"}]}},
  {"probability": 0.07, "answer": {"raw": [
     {"send": "HTTP/1.1 200 OK\r\nContent-Length: 68\r\n\r\n{\"choices\":[{\"message\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}"},
     {"pause": "1ms"}, {"end": "reset"}]}}]})";

class ResetNetwork : public ::testing::TestWithParam<unsigned> {};

TEST_P(ResetNetwork, LosesNothingAndTheNextRunFinishes) {
  fixtures::fake_options options = unlimited();
  std::atomic<bool> healthy = false;
  options.script = [&healthy, breaking = fixtures::parse_scenario(resets, "resets", GetParam())](
                       unsigned nth, const std::string& text) {
    return healthy ? std::nullopt : breaking(nth, text);
  };
  const fixtures::fake_endpoint endpoint(options);
  const desk at(endpoint);
  at.folder.write("batch.jsonl", numbered_documents(many));
  const std::string seed = std::to_string(GetParam());
  const process_end end = at.sluice({"run", "--seed", seed, "batch.jsonl"});
  const auto rows = at.results();
  EXPECT_EQ(rows.size(), many);
  std::set<std::string> ids;
  unsigned succeeded = 0;
  for (const nlohmann::json& row : rows) {
    ids.insert(row["id"].get<std::string>());
    if (row["outcome"] == "succeeded") {
      ++succeeded;
      continue;
    }
    EXPECT_EQ(row["outcome"], "failed") << row;
    EXPECT_EQ(row["class"], "transient") << row;
    EXPECT_EQ(row["reason"], "connection_lost") << row;
  }
  EXPECT_EQ(ids.size(), many);
  EXPECT_GE(succeeded, many * 94 / 100);
  EXPECT_EQ(end.exit, succeeded == many ? 0 : 3);

  healthy = true;
  EXPECT_EQ(at.sluice({"run", "batch.jsonl"}).exit, 0);
  EXPECT_EQ(at.status()["succeeded"], many);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ResetNetwork, ::testing::Values(1U, 2U, 3U));

}  // namespace
}  // namespace sluice
