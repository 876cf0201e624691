// The fake endpoint as a client sees it.
#include "fixtures/fake_endpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/support/certificates.hpp"
#include "tests/support/endpoint_world.hpp"
#include "tests/support/fake_requests.hpp"
#include "tests/support/plain_client.hpp"

namespace sluice::fixtures {
namespace {
using nlohmann::json;
using ::testing::AllOf;
using testing::ask;
using testing::chat;
using ::testing::HasSubstr;
using testing::limited;
using ::testing::Not;
using testing::plain_client;
using testing::plain_response;
using testing::scripted;
using ::testing::StartsWith;
using testing::unlimited;

json error_of(const plain_response& r) {
  return json::parse(r.body).at("error");
}

TEST(FakeEndpoint, AnswersAsAChatCompletionsEndpointDoes) {
  fake_endpoint endpoint(unlimited());
  plain_client client(endpoint.port());
  const auto r = client.post(chat, ask("Two words", "gpt-x"));
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.header("content-type"), "application/json");
  EXPECT_THAT(r.header("x-request-id"), StartsWith("req_"));
  const json j = json::parse(r.body);
  EXPECT_EQ(j["object"], "chat.completion");
  EXPECT_EQ(j["model"], "gpt-x");
  ASSERT_EQ(j["choices"].size(), 1U);
  EXPECT_EQ(j["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(j["choices"][0]["message"]["role"], "assistant");
  EXPECT_THAT(j["choices"][0]["message"]["content"].get<std::string>(),
              AllOf(HasSubstr("\"Two words\""), HasSubstr("2 words")));
  EXPECT_EQ(j["usage"]["prompt_tokens"], 5);  // "Summarise." and "Two words" are 19 bytes
  EXPECT_EQ(j["usage"]["total_tokens"],
            j["usage"]["prompt_tokens"].get<int>() + j["usage"]["completion_tokens"].get<int>());
}

TEST(FakeEndpoint, ServesWithAndWithoutTheVersionInThePath) {
  fake_endpoint endpoint(unlimited());
  EXPECT_EQ(endpoint.url(), "http://127.0.0.1:" + std::to_string(endpoint.port()) + "/v1");
  plain_client client(endpoint.port());
  EXPECT_EQ(client.post("/chat/completions?x=1", ask("a")).status, 200);
  for (const char* path : {"/v1/models", "/models"}) {
    const auto r = client.get(path);
    EXPECT_EQ(r.status, 200);
    EXPECT_EQ(json::parse(r.body)["object"], "list");
  }
}

TEST(FakeEndpoint, AnswersDependOnTheDocumentAndNotOnSeedOrOrder) {
  const auto answers = [](std::uint64_t seed, std::vector<std::string> documents) {
    fake_options options = unlimited();
    options.seed = seed;
    fake_endpoint endpoint(options);
    plain_client client(endpoint.port());
    std::map<std::string, std::string> all;
    for (const auto& d : documents) all[d] = client.post(chat, ask(d)).body;
    return all;
  };
  const auto first = answers(1, {"one", "two", "日本語のとても長い文書です。", ""});
  const auto second = answers(9, {"", "日本語のとても長い文書です。", "two", "one"});
  EXPECT_EQ(first, second);
  EXPECT_NE(first.at("one"), first.at("two"));
}

TEST(FakeEndpoint, RequestIdsFollowFromTheSeed) {
  const auto ids = [](std::uint64_t seed) {
    fake_options options = unlimited();
    options.seed = seed;
    fake_endpoint endpoint(options);
    plain_client client(endpoint.port());
    std::vector<std::string> all;
    for (int i = 0; i < 3; ++i) {
      all.push_back(client.post(chat, ask("a")).header("x-request-id"));
    }
    return all;
  };
  const auto first = ids(4);
  EXPECT_EQ(first, ids(4));
  EXPECT_NE(first, ids(5));
  EXPECT_NE(first[0], first[1]);
}

TEST(FakeEndpoint, LongAnswersNeverCutACharacter) {
  fake_endpoint endpoint(unlimited());
  plain_client client(endpoint.port());
  std::string document;
  for (int i = 0; i < 200; ++i) document += "語";
  for (int i = 0; i < 3; ++i, document = "x" + document) {
    const auto r = client.post(chat, ask(document));
    ASSERT_EQ(r.status, 200);
    EXPECT_FALSE(json::parse(r.body, nullptr, false).is_discarded());
  }
}

TEST(FakeEndpoint, RefusesTheCallOverTheLimitAndSaysWhenToComeBack) {
  fake_endpoint endpoint(limited(2));
  plain_client client(endpoint.port());
  const auto first = client.post(chat, ask("a"));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.header("x-ratelimit-limit-requests"), "2");
  EXPECT_EQ(first.header("x-ratelimit-remaining-requests"), "1");
  EXPECT_EQ(client.post(chat, ask("b")).status, 200);
  const auto refused = client.post(chat, ask("c"));
  ASSERT_EQ(refused.status, 429);
  EXPECT_TRUE(refused.keep_alive);
  const int seconds = std::stoi(refused.header("retry-after"));
  EXPECT_GT(seconds, 300);
  EXPECT_LE(seconds, 600);
  EXPECT_EQ(refused.header("retry-after"), std::to_string(seconds));
  EXPECT_EQ(refused.header("x-ratelimit-limit-requests"), "2");
  EXPECT_EQ(refused.header("x-ratelimit-remaining-requests"), "0");
  EXPECT_EQ(refused.header("x-ratelimit-reset-requests"), std::to_string(seconds) + "s");
  EXPECT_THAT(refused.header("x-request-id"), StartsWith("req_"));
  const json error = error_of(refused);
  EXPECT_EQ(error["code"], "rate_limit_exceeded");
  EXPECT_EQ(error["type"], "requests");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("Rate limit"));
}

TEST(FakeEndpoint, FirstCallsAreRefusedAsAsked) {
  fake_options options = limited(2);
  options.first_429 = 3;
  fake_endpoint endpoint(options);
  plain_client client(endpoint.port());
  for (int i = 0; i < 3; ++i) {
    const auto r = client.post(chat, ask("a"));
    EXPECT_EQ(r.status, 429);
    EXPECT_EQ(r.header("retry-after"), "1");
  }
  // They did not use the limit up.
  EXPECT_EQ(client.post(chat, ask("a")).status, 200);
  EXPECT_EQ(client.post(chat, ask("b")).status, 200);
  EXPECT_EQ(client.post(chat, ask("c")).status, 429);
}

TEST(FakeEndpoint, WhereRefusedCallsCountThoseRefusedOnPurposeDoToo) {
  fake_options options = limited(2);
  options.limit->count_refused = true;
  options.first_429 = 2;
  fake_endpoint endpoint(options);
  plain_client client(endpoint.port());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.post(chat, ask("a")).status, 429);
}

TEST(FakeEndpoint, OneCallIsRefusedOnPurpose) {
  fake_options options = unlimited();
  options.refuse_call = 2;
  fake_endpoint endpoint(options);
  plain_client client(endpoint.port());
  EXPECT_EQ(client.post(chat, ask("a")).status, 200);
  const auto refused = client.post(chat, ask("b"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(client.post(chat, ask("c")).status, 200);
}

TEST(FakeEndpoint, TellsStatsAndGrade) {
  fake_endpoint endpoint(limited(1));
  plain_client client(endpoint.port());
  client.post(chat, ask("a"), {{"X-Sluice-Job", "night"}});
  client.post(chat, ask("b"), {{"X-Sluice-Job", "night"}});
  client.post(chat, ask("b"), {{"X-Sluice-Job", "night"}});
  const auto r = client.get("/_fake/stats");
  EXPECT_EQ(r.status, 200);
  const json stats = json::parse(r.body);
  EXPECT_EQ(stats["calls"], 3);
  EXPECT_EQ(stats["ok"], 1);
  EXPECT_EQ(stats["rate_limited"], 2);
  EXPECT_EQ(stats["max_in_flight"], 1);
  ASSERT_EQ(stats["arrivals"].size(), 3U);
  EXPECT_EQ(stats["arrivals"][0]["status"], 200);
  EXPECT_EQ(stats["arrivals"][2]["status"], 429);
  EXPECT_EQ(stats["arrivals"][2]["job"], "night");
  EXPECT_GE(stats["arrivals"][2]["t_ms"], stats["arrivals"][0]["t_ms"]);
  const json grade = json::parse(client.get("/_fake/grade").body);
  EXPECT_EQ(grade, json({{"windows_over_limit", 2},
                         {"max_in_flight", 1},
                         {"early_retries", 1},
                         {"duplicate_successes", 0},
                         {"ok", false}}));
  endpoint.stop();
  EXPECT_EQ(json::parse(endpoint.stats_json()), stats);
  EXPECT_EQ(json::parse(endpoint.grade_json()), grade);
}

TEST(FakeEndpoint, ADocumentAnsweredTwiceIsADuplicate) {
  fake_endpoint endpoint(unlimited());
  plain_client client(endpoint.port());
  client.post(chat, ask("a"));
  EXPECT_EQ(json::parse(endpoint.grade_json())["ok"], true);
  client.post(chat, ask("a"));
  EXPECT_EQ(json::parse(endpoint.grade_json())["duplicate_successes"], 1);
}

TEST(FakeEndpoint, RefusesWhatItCannotRead) {
  fake_endpoint endpoint(unlimited());
  plain_client client(endpoint.port());
  for (const char* body :
       {"{", "", "[]", "{}", R"({"model": "m"})", R"({"model": "m", "messages": []})",
        R"({"model": "m", "messages": [3]})", R"({"model": "m", "messages": [{"content": "a"}]})",
        R"({"model": "m", "messages": [{"role": "system", "content": "a"}]})",
        R"({"model": 3, "messages": [{"role": "user", "content": "a"}]})",
        R"({"messages": [{"role": "user", "content": "a"}]})", "\xff",
        R"({"model": "m", "stream": true, "messages": [{"role": "user", "content": "a"}]})"}) {
    const auto r = client.post(chat, body);
    EXPECT_EQ(r.status, 400) << body;
    EXPECT_EQ(error_of(r)["type"], "invalid_request_error") << body;
    EXPECT_FALSE(error_of(r)["message"].get<std::string>().empty()) << body;
  }
}

TEST(FakeEndpoint, ReadsContentInParts) {
  fake_endpoint endpoint(unlimited());
  plain_client client(endpoint.port());
  const auto r = client.post(chat, R"({"model": "m", "messages": [{"role": "user", "content":
      [{"type": "text", "text": "alpha "}, {"type": "image_url"}, {"type": "text", "text": "beta"}]}]})");
  EXPECT_EQ(r.status, 200);
  EXPECT_THAT(r.body, HasSubstr("alpha beta"));
}

TEST(FakeEndpoint, KnowsItsPathsAndMethods) {
  fake_endpoint endpoint(unlimited());
  plain_client client(endpoint.port());
  const auto unknown = client.get("/v1/embeddings");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(error_of(unknown)["code"], "unknown_url");
  const auto wrong = client.get(chat);
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("allow"), "POST");
  EXPECT_EQ(client.post("/v1/models", "{}").status, 405);
  EXPECT_EQ(json::parse(endpoint.stats_json())["calls"], 0);
}

TEST(FakeEndpoint, AsksForTheKeyAndNeverRepeatsOne) {
  fake_options options = unlimited();
  options.required_key = "sesame-4711";
  fake_endpoint endpoint(options);
  plain_client client(endpoint.port());
  for (const char* sent : {"", "Bearer", "Bearer ", "Bearer wrong-key", "sesame-4711",
                           "Bearer sesame-47111", "Basic sesame-4711"}) {
    const auto r = client.post(chat, ask("a"), {{"Authorization", sent}});
    EXPECT_EQ(r.status, 401) << sent;
    EXPECT_EQ(error_of(r)["code"], "invalid_api_key");
    EXPECT_THAT(r.body, AllOf(Not(HasSubstr("sesame")), Not(HasSubstr("wrong-key"))));
  }
  EXPECT_EQ(client.get("/v1/models").status, 401);
  EXPECT_EQ(client.post(chat, ask("a"), {{"Authorization", "Bearer sesame-4711"}}).status, 200);
  EXPECT_EQ(client.get("/_fake/stats").status, 200);
}

TEST(FakeEndpoint, AScriptSeesNumberAndDocument) {
  fake_options options = unlimited();
  std::vector<std::pair<unsigned, std::string>> seen;
  options.script = [&](unsigned nth, const std::string& m) -> std::optional<scripted_answer> {
    seen.emplace_back(nth, m);
    if (nth != 2) return std::nullopt;
    scripted_answer answer;
    answer.status = 503;
    answer.headers = {{"Retry-After", "7"}, {"Content-Type", "text/plain"}};
    answer.body = "busy";
    return answer;
  };
  fake_endpoint endpoint(options);
  plain_client client(endpoint.port());
  EXPECT_EQ(client.post(chat, ask("a")).status, 200);
  const auto r = client.post(chat, ask("b"));
  EXPECT_EQ(r.status, 503);
  EXPECT_EQ(r.header("retry-after"), "7");
  EXPECT_EQ(r.header("content-type"), "text/plain");
  EXPECT_EQ(r.body, "busy");
  EXPECT_EQ(client.post(chat, ask("b")).status, 200);
  EXPECT_EQ(json::parse(endpoint.grade_json())["early_retries"], 1);
  endpoint.stop();
  EXPECT_THAT(seen,
              ::testing::ElementsAre(std::pair(1U, "a"), std::pair(2U, "b"), std::pair(3U, "b")));
}

TEST(FakeEndpoint, AScriptMayLeaveTheBodyToTheEndpoint) {
  scripted_answer answer;
  answer.usual_body = true;
  answer.headers = {{"X-Extra", "1"}};
  fake_endpoint endpoint(scripted(answer));
  plain_client client(endpoint.port());
  const auto r = client.post(chat, ask("alpha"));
  EXPECT_EQ(r.header("x-extra"), "1");
  EXPECT_EQ(json::parse(r.body)["object"], "chat.completion");
}

TEST(FakeEndpoint, ABrokenScriptIsReportedToTheClient) {
  fake_options options = unlimited();
  options.script = [](unsigned, const std::string&) -> std::optional<scripted_answer> {
    throw std::logic_error("no such page");
  };
  fake_endpoint endpoint(options);
  plain_client client(endpoint.port());
  const auto r = client.post(chat, ask("a"));
  EXPECT_EQ(r.status, 500);
  EXPECT_THAT(error_of(r)["message"].get<std::string>(), HasSubstr("no such page"));
}

TEST(FakeEndpoint, ALimitOfNothingIsRefused) {
  EXPECT_THROW(fake_endpoint{limited(0)}, std::invalid_argument);
}

// The provider's own transport is the client: what it makes of each fault is what counts.
retry::reason met_over_tls(tls_fault fault, bool trusting, std::string* text = nullptr) {
  const testing::scratch_file ca("");
  fake_options options;
  options.limit.reset();
  options.tls = fake_tls{fault, ca.path()};
  fake_endpoint endpoint(options);
  EXPECT_EQ(endpoint.url().substr(0, 8), "https://");
  testing::endpoint_world w(endpoint.url());
  if (trusting) w.options.ca_file = ca.path();
  const auto report = w.call(R"({"model":"m","messages":[{"role":"user","content":"hello"}]})");
  if (text != nullptr) *text = report.text;
  return report.signal.why;
}

TEST(FakeEndpoint, SpeaksTlsToThoseWhoTrustItsCa) {
  std::string text;
  EXPECT_EQ(met_over_tls(tls_fault::none, true, &text), retry::reason::ok);
  EXPECT_NE(text.find("hello"), std::string::npos);
  EXPECT_EQ(met_over_tls(tls_fault::none, false), retry::reason::certificate_refused);
}

TEST(FakeEndpoint, EveryFaultOfTlsIsRefusedThoughItsCaIsTrusted) {
  for (const char* name : {"expired", "not_yet_valid", "self_signed", "wrong_host"}) {
    const auto fault = tls_fault_named(name);
    ASSERT_TRUE(fault) << name;
    EXPECT_EQ(met_over_tls(*fault, true), retry::reason::certificate_refused) << name;
  }
  EXPECT_NE(met_over_tls(tls_fault::old_protocol, true), retry::reason::ok);
  EXPECT_FALSE(tls_fault_named("rusty"));
}

}  // namespace
}  // namespace sluice::fixtures
