// Rate limits kept against a server that enforces them and judges: whole batches, smooth and in
// bursts, and processes that know nothing of each other.
#include <gtest/gtest.h>

#include "tests/support/sluice_process.hpp"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::desk;

fixtures::fake_options allowing(std::size_t calls, duration window) {
  fixtures::fake_options o;
  fixtures::server_limit limit;
  limit.calls = calls;
  limit.window = window;
  o.limit = limit;
  o.latency_min = 5ms;
  o.latency_max = 30ms;
  return o;
}

void expect_fifty_calls_and_no_refusal(const std::vector<std::string>& more) {
  fixtures::fake_endpoint server(allowing(10, 2s));
  desk d(server);
  d.environment["SLUICE_LIMIT"] = "10/2s";
  d.folder.write("in.jsonl", testing::numbered_documents(50));
  testing::arguments words{"run", "in.jsonl"};
  words.insert(words.end(), more.begin(), more.end());

  const auto end = d.sluice(words);

  ASSERT_EQ(end.exit, 0) << ::testing::PrintToString(end);
  EXPECT_EQ(testing::lines_with(end.err, "status=429"), 0U);
  EXPECT_EQ(testing::calls(server), 50U);
  EXPECT_EQ(testing::stats(server)["rate_limited"], 0);
  const json verdict = testing::grade(server);
  EXPECT_EQ(verdict["windows_over_limit"], 0) << verdict;
  EXPECT_EQ(verdict["duplicate_successes"], 0) << verdict;
  EXPECT_TRUE(verdict["ok"]) << verdict;
  EXPECT_EQ(d.status()["succeeded"], 50);
}

TEST(Limits, SmoothPaceIsNeverRefused) {
  expect_fifty_calls_and_no_refusal({});
}

TEST(Limits, BurstOfSixteenIsNeverRefused) {
  expect_fifty_calls_and_no_refusal({"--pace", "burst", "--concurrency", "16"});
}

TEST(Limits, ARunThatFollowsAtOnceRemembersTheCallsBefore) {
  fixtures::fake_endpoint server(allowing(5, 2s));
  desk d(server);
  d.environment["SLUICE_LIMIT"] = "5/2s";
  d.environment["SLUICE_PACE"] = "burst";
  for (const char* name : {"a", "b", "c"}) {
    d.folder.write("in.jsonl", testing::numbered_documents(5, name));
    ASSERT_EQ(d.sluice({"run", "in.jsonl"}).exit, 0);
  }
  EXPECT_EQ(testing::calls(server), 15U);
  EXPECT_EQ(testing::stats(server)["rate_limited"], 0);
  EXPECT_EQ(testing::grade(server)["windows_over_limit"], 0);
}

TEST(Limits, ConcurrencyBoundsCallsInFlight) {
  fixtures::fake_options o = testing::unlimited();
  o.latency_min = o.latency_max = 20ms;
  fixtures::fake_endpoint server(o);
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(40));
  ASSERT_EQ(d.sluice({"run", "in.jsonl", "--concurrency", "3"}).exit, 0);
  EXPECT_LE(testing::stats(server)["max_in_flight"], 3);
}

TEST(Limits, ThreeJobsThatShareNothingAllSucceed) {
  fixtures::fake_endpoint server(allowing(10, 1s));
  std::vector<std::unique_ptr<desk>> desks;
  std::vector<testing::process> jobs;
  for (const char* name : {"a", "b", "c"}) {
    auto d = std::make_unique<desk>(server);
    d->environment["SLUICE_LIMIT"] = "10/1s";
    d->folder.write("in.jsonl", testing::numbered_documents(15, name));
    jobs.emplace_back(d->prepare({"run", "in.jsonl"}));
    desks.push_back(std::move(d));
  }
  std::size_t refusals_told = 0;
  for (testing::process& job : jobs) {
    const auto end = job.wait();
    EXPECT_EQ(end.exit, 0) << ::testing::PrintToString(end);
    refusals_told += testing::lines_with(end.err, "status=429");
  }
  const json seen = testing::stats(server);
  EXPECT_EQ(seen["ok"], 45);
  EXPECT_EQ(seen["rate_limited"], refusals_told);
  EXPECT_LE(seen["calls"], 5 * 45);
  EXPECT_EQ(testing::grade(server)["duplicate_successes"], 0);
  for (const auto& d : desks) EXPECT_EQ(d->status()["succeeded"], 15);
}

}  // namespace
}  // namespace sluice
