// Interrupts: the first lets calls under way end and records them, the second ends at once.
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <memory>

#include "tests/support/sluice_process.hpp"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::desk;

// Tells when so many calls have come.
class call_bell {
 public:
  explicit call_bell(unsigned calls, fixtures::fake_options& of) : reached_(ring_.get_future()) {
    of.script = [this, calls](unsigned nth, const std::string&) {
      if (nth == calls) ring_.set_value();
      return std::optional<fixtures::scripted_answer>();
    };
  }
  /// False when they have not come in half a minute.
  bool wait() { return reached_.wait_for(30s) == std::future_status::ready; }

 private:
  std::promise<void> ring_;
  std::future<void> reached_;
};

class Interrupt : public ::testing::TestWithParam<int> {};

TEST_P(Interrupt, DrainsWhatIsInFlightAndDefersTheRest) {
  fixtures::fake_options o = testing::unlimited();
  o.latency_min = o.latency_max = 300ms;
  call_bell bell(4, o);
  fixtures::fake_endpoint server(o);
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(40));
  testing::process run(d.prepare({"run", "in.jsonl", "--concurrency", "4"}));
  ASSERT_TRUE(bell.wait());
  run.send(GetParam());
  const auto end = run.wait();

  EXPECT_EQ(end.exit, 128 + GetParam()) << ::testing::PrintToString(end);
  const json seen = testing::stats(server);
  for (const json& arrival : seen["arrivals"])
    EXPECT_EQ(arrival["status"], 200) << "every call under way came to its end";
  EXPECT_LT(seen["calls"], 40);
  const json status = d.status();
  EXPECT_EQ(status["succeeded"], seen["ok"]) << "what was answered is on disk";
  EXPECT_EQ(status["failed"], 0);
  EXPECT_EQ(testing::lines_with(end.err, "event=model_call_ok"), seen["ok"]);
  EXPECT_TRUE(testing::lines_of(end.err).back().starts_with("model_wait_seconds="));

  // Going on takes up the others alone.
  const auto next = d.sluice({"run", "in.jsonl"});
  EXPECT_EQ(next.exit, 0) << ::testing::PrintToString(next);
  EXPECT_EQ(testing::calls(server), 40U);
  EXPECT_EQ(d.status()["succeeded"], 40);
  EXPECT_EQ(testing::grade(server)["duplicate_successes"], 0);
}

TEST_P(Interrupt, TheSecondEndsAtOnce) {
  fixtures::fake_options o = testing::unlimited();
  o.latency_min = o.latency_max = 1min;
  call_bell bell(2, o);
  fixtures::fake_endpoint server(o);
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(10));
  testing::process run(d.prepare({"run", "in.jsonl", "--concurrency", "2", "--grace", "50s"}));
  ASSERT_TRUE(bell.wait());
  run.send(GetParam());
  ASSERT_TRUE(run.says("event=interrupted"));
  run.send(GetParam());
  EXPECT_TRUE(run.ends_within(20s)) << "well before grace and answers";
  EXPECT_EQ(run.wait().exit, 128 + GetParam());
  EXPECT_EQ(testing::calls(server), 2U);
}

TEST_P(Interrupt, GraceBoundsTheDraining) {
  fixtures::fake_options o = testing::unlimited();
  o.latency_min = o.latency_max = 1min;
  call_bell bell(2, o);
  fixtures::fake_endpoint server(o);
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(10));
  testing::process run(d.prepare({"run", "in.jsonl", "--concurrency", "2", "--grace", "100ms"}));
  ASSERT_TRUE(bell.wait());
  run.send(GetParam());
  EXPECT_TRUE(run.ends_within(20s));
  EXPECT_EQ(run.wait().exit, 128 + GetParam());
  EXPECT_EQ(d.status()["succeeded"], 0);
}

TEST_P(Interrupt, StandardInputThatStaysOpenDoesNotHoldItUp) {
  fixtures::fake_options o = testing::unlimited();
  call_bell bell(3, o);
  fixtures::fake_endpoint server(o);
  const desk d(server);
  auto options = d.prepare({"run", "-"});
  options.input = testing::numbered_documents(3);
  options.keep_input_open = true;
  testing::process run(options);
  ASSERT_TRUE(bell.wait());
  run.send(GetParam());
  ASSERT_TRUE(run.ends_within(20s));
  const auto end = run.wait();
  EXPECT_EQ(end.exit, 128 + GetParam()) << ::testing::PrintToString(end);
  EXPECT_EQ(d.status()["succeeded"], testing::stats(server)["ok"]);
}

TEST_P(Interrupt, EndsAWaitForATurnAtOnce) {
  fixtures::fake_options o = testing::unlimited();
  call_bell bell(1, o);
  fixtures::fake_endpoint server(o);
  desk d(server);
  d.environment["SLUICE_LIMIT"] = "1/1h";
  d.folder.write("in.jsonl", testing::numbered_documents(5));
  testing::process run(d.prepare({"run", "in.jsonl"}));
  ASSERT_TRUE(bell.wait());
  ASSERT_TRUE(run.says("event=model_call_ok"));
  run.send(GetParam());
  ASSERT_TRUE(run.ends_within(20s));
  EXPECT_EQ(run.wait().exit, 128 + GetParam());
  EXPECT_EQ(testing::calls(server), 1U);
  EXPECT_EQ(d.status()["succeeded"], 1);
}

TEST_P(Interrupt, EndsABackOffAtOnce) {
  fixtures::fake_options o = testing::unlimited();
  o.script = [](unsigned, const std::string&) {
    fixtures::scripted_answer a;
    a.status = 429;
    a.headers = {{"Retry-After", "600"}};
    a.usual_body = true;
    return std::optional(a);
  };
  fixtures::fake_endpoint server(o);
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(3));
  testing::process run(d.prepare({"run", "in.jsonl"}));
  ASSERT_TRUE(run.says("status=429"));
  run.send(GetParam());
  ASSERT_TRUE(run.ends_within(20s));
  EXPECT_EQ(run.wait().exit, 128 + GetParam());
  EXPECT_EQ(d.status()["deferred"].get<int>() + d.status()["succeeded"].get<int>(),
            d.status()["documents"]);
}

std::string signal_name(const ::testing::TestParamInfo<int>& of) {
  return of.param == SIGINT ? "Sigint" : "Sigterm";
}
INSTANTIATE_TEST_SUITE_P(Both, Interrupt, ::testing::Values(SIGINT, SIGTERM), signal_name);

TEST(Serving, TheFakeEndpointEndsWithZeroOnSigterm) {
  const desk d;
  auto o = d.prepare({"fake-endpoint", "--listen", "127.0.0.1:0"});
  testing::process server(o);
  EXPECT_FALSE(server.ends_within(200ms));
  server.send(SIGTERM);
  const auto end = server.wait();
  EXPECT_EQ(end.exit, 0) << ::testing::PrintToString(end);
  EXPECT_TRUE(end.out.starts_with("listening on http://127.0.0.1:")) << end.out;
}

}  // namespace
}  // namespace sluice
