// The fake endpoint without sockets, where the time is what the test says it is.
#include "fixtures/fake_service.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace sluice::fixtures {
namespace {
using namespace std::chrono_literals;
using nlohmann::json;

fake_request chat(const std::string& document) {
  json j;
  j["model"] = "m";
  j["messages"] = json::array();
  j["messages"].push_back({{"role", "user"}, {"content", document}});
  fake_request request;
  request.method = "POST";
  request.target = "/v1/chat/completions";
  request.job = "job";
  request.body = j.dump();
  return request;
}

/// Handles and sends at once.
fake_reply call(fake_service& service, duration now, const std::string& document = "d") {
  fake_reply reply = service.handle(chat(document), now);
  service.settle(reply, now);
  return reply;
}

std::string header(const fake_reply& reply, const std::string& name) {
  for (const auto& [n, value] : reply.headers) {
    if (n == name) return value;
  }
  return {};
}

fake_options limited(window_kind kind, bool count_refused = false) {
  fake_options options;
  options.limit = server_limit{10, 60s, kind, count_refused};
  return options;
}

TEST(FakeService, RollingRefusalsSayInWholeSecondsWhenThereIsRoom) {
  fake_service service(limited(window_kind::rolling));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(call(service, i * 100ms).status, 200);
  const auto refused = call(service, 8500ms);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(header(refused, "Retry-After"), "52");  // 51.5 s, rounded up
  EXPECT_EQ(header(refused, "X-RateLimit-Reset-Requests"), "52s");
  EXPECT_EQ(header(refused, "X-RateLimit-Limit-Requests"), "10");
  EXPECT_EQ(header(refused, "X-RateLimit-Remaining-Requests"), "0");
  EXPECT_EQ(refused.retry_after, std::optional<duration>(52s));
  EXPECT_EQ(header(call(service, 59999ms), "Retry-After"), "1");
  EXPECT_EQ(call(service, 60s).status, 200);
}

TEST(FakeService, EachKindOfWindowIsEnforced) {
  for (const auto kind : {window_kind::rolling, window_kind::fixed, window_kind::bucket}) {
    fake_service service(limited(kind));
    int ok = 0;
    for (int i = 0; i < 30; ++i) ok += call(service, 1s).status == 200 ? 1 : 0;
    EXPECT_EQ(ok, 10) << static_cast<int>(kind);
    ok = 0;
    for (int i = 0; i < 30; ++i) ok += call(service, 65s).status == 200 ? 1 : 0;
    EXPECT_EQ(ok, 10) << static_cast<int>(kind);
  }
}

TEST(FakeService, SuccessesTellWhatIsLeftAndWhenMoreComes) {
  fake_service service(limited(window_kind::rolling));
  EXPECT_EQ(header(call(service, 0s), "X-RateLimit-Remaining-Requests"), "9");
  const auto second = call(service, 20s);
  EXPECT_EQ(header(second, "X-RateLimit-Remaining-Requests"), "8");
  EXPECT_EQ(header(second, "X-RateLimit-Reset-Requests"), "40s");
  EXPECT_EQ(header(second, "Retry-After"), "");
}

TEST(FakeService, CountedRefusalsKeepAHammeringClientOut) {
  fake_service counting(limited(window_kind::rolling, true));
  fake_service forgiving(limited(window_kind::rolling, false));
  int counted = 0;
  int forgiven = 0;
  for (int i = 0; i < 300; ++i) {
    counted += call(counting, i * 1s).status == 200 ? 1 : 0;
    forgiven += call(forgiving, i * 1s).status == 200 ? 1 : 0;
  }
  EXPECT_EQ(counted, 10);
  EXPECT_EQ(forgiven, 50);
}

TEST(FakeService, LatenciesLieBetweenTheBoundsAndFollowFromTheSeed) {
  const auto latencies = [](std::uint64_t seed) {
    fake_options options;
    options.limit = std::nullopt;
    options.latency_min = 100ms;
    options.latency_max = 300ms;
    options.seed = seed;
    fake_service service(options);
    std::vector<duration> all;
    for (int i = 0; i < 100; ++i) all.push_back(call(service, 0s).latency);
    return all;
  };
  const auto first = latencies(1);
  for (const duration d : first) {
    EXPECT_GE(d, 100ms);
    EXPECT_LE(d, 300ms);
  }
  EXPECT_LT(*std::min_element(first.begin(), first.end()), 120ms);
  EXPECT_GT(*std::max_element(first.begin(), first.end()), 280ms);
  EXPECT_EQ(first, latencies(1));
  EXPECT_NE(first, latencies(2));
}

TEST(FakeService, RefusalsTakeNoTime) {
  fake_options options = limited(window_kind::rolling);
  options.latency_min = options.latency_max = 1s;
  options.first_429 = 1;
  fake_service service(options);
  EXPECT_EQ(call(service, 0s).latency, duration{});
  EXPECT_EQ(call(service, 0s).latency, duration{1s});
}

TEST(FakeService, AScriptedSuccessUsesTheLimitUpAndAScripted429DoesNot) {
  fake_options options = limited(window_kind::rolling);
  options.script = [](unsigned nth, const std::string&) -> std::optional<scripted_answer> {
    if (nth > 20) return std::nullopt;
    scripted_answer answer;
    answer.status = nth <= 5 ? 200 : 429;
    return answer;
  };
  fake_service service(options);
  for (int i = 0; i < 20; ++i) call(service, 0s);
  int ok = 0;
  for (int i = 0; i < 20; ++i) ok += call(service, 1s).status == 200 ? 1 : 0;
  EXPECT_EQ(ok, 5);
}

TEST(FakeService, AScriptedRetryAfterIsJudgedInSecondsAndMilliseconds) {
  for (const auto& [name, value] : {std::pair("retry-after", "1.5"), {"Retry-After-Ms", "1500"}}) {
    fake_options options = limited(window_kind::rolling);
    options.script = [name = name, value = value](unsigned nth, const std::string&) {
      scripted_answer answer;
      answer.status = nth == 1 ? 503 : 500;
      if (nth == 1) answer.headers = {{name, value}};
      return std::optional(answer);
    };
    fake_service service(options);
    call(service, 0s);
    call(service, 1499ms);
    call(service, 1500ms);
    EXPECT_EQ(json::parse(service.grade_json())["early_retries"], 1) << name;
  }
}

TEST(FakeService, AScriptWithAnImpossibleStatusIsReported) {
  fake_options options;
  options.script = [](unsigned, const std::string&) {
    scripted_answer answer;
    answer.status = 42;
    return std::optional(answer);
  };
  fake_service service(options);
  const auto reply = call(service, 0s);
  EXPECT_EQ(reply.status, 500);
  EXPECT_NE(reply.body.find("status 42"), std::string::npos);
}

TEST(FakeService, AClientThatHungUpWasNotServed) {
  fake_service service(fake_options{});
  const auto reply = service.handle(chat("d"), 0s);
  service.hung_up(reply, 1s);
  call(service, 2s);
  const json stats = json::parse(service.stats_json());
  EXPECT_EQ(stats["ok"], 1);
  EXPECT_EQ(stats["arrivals"][0]["status"], 499);
  EXPECT_EQ(json::parse(service.grade_json())["duplicate_successes"], 0);
}

}  // namespace
}  // namespace sluice::fixtures
