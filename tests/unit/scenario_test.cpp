// Scenarios: which call is answered by which rule, and what is said about mistakes.
#include "fixtures/scenario.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace sluice::fixtures {
namespace {
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The statuses of calls 1 to n of one message; 0 where the script has nothing to say.
std::vector<int> statuses(const answer_script& script, unsigned n,
                          const std::string& message = "m") {
  std::vector<int> all;
  for (unsigned i = 1; i <= n; ++i) {
    const auto answer = script(i, message);
    all.push_back(answer ? answer->status : 0);
  }
  return all;
}

std::string mistake_of(const std::string& text) {
  try {
    parse_scenario(text, "s.json");
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no mistake";
}

TEST(Scenario, NthAndEveryPickCallsByNumber) {
  const auto script = parse_scenario(R"({"rules": [
    {"nth": 2, "answer": {"status": 500}},
    {"nth": [4, 5], "answer": {"status": 501}},
    {"every": 3, "answer": {"status": 503}}]})",
                                     "s.json");
  EXPECT_THAT(statuses(script, 7), ElementsAre(0, 500, 503, 501, 501, 503, 0));
}

TEST(Scenario, TheFirstRuleThatHoldsAnswers) {
  const auto script = parse_scenario(R"({"rules": [
    {"document": "kettle", "answer": {"status": 400}},
    {"answer": {"status": 500}}]})",
                                     "s.json");
  EXPECT_EQ(script(1, "a blue kettle")->status, 400);
  EXPECT_EQ(script(2, "a blue lamp")->status, 500);
}

TEST(Scenario, TimesBoundARuleInAllAndPerDocument) {
  const auto in_all =
      parse_scenario(R"({"rules": [{"times": 2, "answer": {"status": 500}}]})", "s.json");
  EXPECT_THAT(statuses(in_all, 4), ElementsAre(500, 500, 0, 0));
  const auto each = parse_scenario(
      R"({"rules": [{"times_per_document": 1, "answer": {"status": 500}}]})", "s.json");
  EXPECT_THAT(statuses(each, 3, "one"), ElementsAre(500, 0, 0));
  EXPECT_THAT(statuses(each, 3, "two"), ElementsAre(500, 0, 0));
}

TEST(Scenario, ProbabilityIsDrawnFromSeedAndNumber) {
  const std::string text = R"({"rules": [{"probability": 0.2, "answer": {"status": 500}}]})";
  const auto first = statuses(parse_scenario(text, "s.json", 7), 1000);
  EXPECT_EQ(first, statuses(parse_scenario(text, "s.json", 7), 1000));
  EXPECT_NE(first, statuses(parse_scenario(text, "s.json", 8), 1000));
  const auto hits = std::count(first.begin(), first.end(), 500);
  EXPECT_GT(hits, 150);
  EXPECT_LT(hits, 250);
}

TEST(Scenario, ProbabilitiesOfNoneAndAllAreExact) {
  const auto none =
      parse_scenario(R"({"rules": [{"probability": 0, "answer": {"status": 500}}]})", "s.json");
  const auto all =
      parse_scenario(R"({"rules": [{"probability": 1, "answer": {"status": 500}}]})", "s.json");
  EXPECT_EQ(statuses(none, 200), std::vector<int>(200, 0));
  EXPECT_EQ(statuses(all, 200), std::vector<int>(200, 500));
}

TEST(Scenario, AnswersAreReadInFull) {
  const auto script = parse_scenario(R"({"rules": [
    {"nth": 1, "answer": {"status": 503, "headers": {"Retry-After": 7, "Via": ["a", "b"]},
                          "body": {"k": "v"}, "latency": "250ms"}},
    {"nth": 2, "answer": {"close": true}},
    {"nth": 3, "answer": {"raw": "HTTP/1.1 2\r\n"}},
    {"nth": 4, "answer": {"body": ""}}]})",
                                     "s.json");
  const auto full = script(1, "m");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->status, 503);
  EXPECT_THAT(full->headers, ElementsAre(::testing::Pair("Retry-After", "7"),
                                         ::testing::Pair("Via", "a"), ::testing::Pair("Via", "b")));
  EXPECT_EQ(full->body, R"({"k":"v"})");
  EXPECT_FALSE(full->usual_body);
  EXPECT_EQ(full->latency, 250ms);
  EXPECT_FALSE(full->usual_latency);
  EXPECT_TRUE(script(2, "m")->close_without_answer);
  EXPECT_EQ(script(3, "m")->raw, "HTTP/1.1 2\r\n");
  EXPECT_FALSE(script(4, "m")->usual_body);
}

TEST(Scenario, WhatIsLeftOutIsAsUsual) {
  const auto script = parse_scenario(R"({"rules": [{"answer": {}}]})", "s.json");
  const auto answer = script(1, "m");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_TRUE(answer->usual_body);
  EXPECT_TRUE(answer->usual_latency);
}

struct mistake {
  const char* text;
  const char* says;
};

class ScenarioMistakes : public ::testing::TestWithParam<mistake> {};

TEST_P(ScenarioMistakes, AreNamedWithFileAndRule) {
  EXPECT_THAT(mistake_of(GetParam().text),
              AllOf(HasSubstr("s.json: "), HasSubstr(GetParam().says)));
}

INSTANTIATE_TEST_SUITE_P(
    All, ScenarioMistakes,
    ::testing::Values(
        mistake{"{", "not valid JSON"}, mistake{"[]", "not a scenario"},
        mistake{R"({"rules": {}})", "not a scenario"},
        mistake{R"({"rules": [], "seed": 1})", "has no 'seed'"},
        mistake{R"({"rules": [3]})", "rule 1: a rule must be an object"},
        mistake{R"({"rules": [{"nth": 1}]})", "rule 1: there is no 'answer'"},
        mistake{R"({"rules": [{"answer": {}}, {"nth": 0, "answer": {}}]})", "rule 2: 'nth'"},
        mistake{R"({"rules": [{"nth": [], "answer": {}}]})", "rule 1: 'nth'"},
        mistake{R"({"rules": [{"nth": "3", "answer": {}}]})", "rule 1: 'nth'"},
        mistake{R"({"rules": [{"evry": 3, "answer": {}}]})", "rule 1: a rule has no 'evry'"},
        mistake{R"({"rules": [{"probability": 20, "answer": {}}]})", "rule 1: 'probability'"},
        mistake{R"({"rules": [{"answer": {"staus": 3}}]})", "rule 1: 'answer' has no 'staus'"},
        mistake{R"({"rules": [{"answer": {"status": 100}}]})", "rule 1: 'status'"},
        mistake{R"({"rules": [{"answer": {"status": "500"}}]})", "rule 1: 'status'"},
        mistake{R"({"rules": [{"answer": {"headers": {"A B": "x"}}}]})", "name of a header"},
        mistake{R"({"rules": [{"answer": {"headers": {"A": "x\ny"}}}]})", "control characters"},
        mistake{R"({"rules": [{"answer": {"latency": "3 parsecs"}}]})", "rule 1: "},
        mistake{R"({"rules": [{"answer": {"close": 1}}]})", "rule 1: 'close'"},
        mistake{R"({"rules": [{"answer": {"raw": 1}}]})", "rule 1: 'raw'"},
        mistake{R"({"rules": [{"answer": 1}]})", "rule 1: 'answer' must be an object"}));

TEST(Scenario, AMissingFileIsNamed) {
  try {
    load_scenario("/nowhere/at/all.json");
    FAIL() << "was read";
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), HasSubstr("/nowhere/at/all.json: cannot be read"));
  }
}

TEST(Scenario, AFolderIsNotAScenario) {
  EXPECT_THROW(load_scenario(SLUICE_SOURCE_DIR "/fixtures"), std::invalid_argument);
}

TEST(Scenario, TheExamplesLoadAndAnswer) {
  const std::string folder = SLUICE_SOURCE_DIR "/fixtures/scenarios/";
  const auto rough = load_scenario(folder + "rough-night.json");
  EXPECT_THAT(statuses(rough, 6), ElementsAre(0, 0, 503, 0, 429, 429));
  const auto flaky = load_scenario(folder + "flaky-server.json");
  EXPECT_EQ(flaky(1, "a kettle")->status, 400);
}

}  // namespace
}  // namespace sluice::fixtures
