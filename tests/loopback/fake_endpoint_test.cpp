// The fake endpoint as a client sees it.
#include "fixtures/fake_endpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/support/plain_client.hpp"

namespace sluice::fixtures {
namespace {
using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::plain_client;
using testing::plain_response;
using ::testing::StartsWith;

constexpr const char* chat = "/v1/chat/completions";

std::string ask(const std::string& document, const std::string& model = "m") {
  json j;
  j["model"] = model;
  j["messages"] = json::array();
  j["messages"].push_back({{"role", "system"}, {"content", "Summarise."}});
  j["messages"].push_back({{"role", "user"}, {"content", document}});
  return j.dump();
}

fake_options unlimited() {
  fake_options options;
  options.limit = std::nullopt;
  return options;
}

fake_options limited(std::size_t calls) {
  fake_options options;
  options.limit = server_limit{calls, 10min, window_kind::rolling, false};
  return options;
}

fake_options scripted(scripted_answer answer) {
  fake_options options = unlimited();
  options.script = [answer](unsigned, const std::string&) { return answer; };
  return options;
}

json error_of(const plain_response& r) {
  return json::parse(r.body).at("error");
}

/// Asks for stats until so many calls have arrived; each question is a round trip, none is a wait.
bool arrived(const fake_endpoint& endpoint, int calls) {
  plain_client other(endpoint.port());
  for (int i = 0; i < 100'000; ++i) {
    if (json::parse(other.get("/_fake/stats").body)["calls"] >= calls) return true;
  }
  return false;
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

TEST(FakeEndpoint, KeepsConnectionsOpenUntilAskedNotTo) {
  fake_endpoint endpoint(limited(3));
  plain_client client(endpoint.port());
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(client.post(chat, ask("a")).keep_alive);
  client.get("/nothing");
  client.post(chat, "{");
  EXPECT_EQ(client.connections(), 1U);
  EXPECT_FALSE(client.get("/v1/models", {{"Connection", "close"}}).keep_alive);
  EXPECT_EQ(client.read_to_end(), "");
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

TEST(FakeEndpoint, AScriptCanSendRawBytes) {
  scripted_answer answer;
  answer.raw = "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"cut";
  fake_endpoint endpoint(scripted(answer));
  plain_client client(endpoint.port());
  const std::string body = ask("a");
  client.send_raw("POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nContent-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_EQ(client.read_to_end(), answer.raw);
  EXPECT_EQ(json::parse(endpoint.stats_json())["arrivals"][0]["status"], 0);
  EXPECT_EQ(json::parse(endpoint.stats_json())["ok"], 0);
}

TEST(FakeEndpoint, AScriptCanHangUpWithoutAnAnswer) {
  scripted_answer answer;
  answer.close_without_answer = true;
  fake_endpoint endpoint(scripted(answer));
  plain_client client(endpoint.port());
  EXPECT_THROW(client.post(chat, ask("a")), std::runtime_error);
  EXPECT_EQ(json::parse(endpoint.stats_json())["calls"], 1);
  EXPECT_EQ(client.get("/_fake/stats").status, 200);
  EXPECT_EQ(client.connections(), 2U);
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

TEST(FakeEndpoint, TakesLongDocumentsButNotAnyLength) {
  fake_endpoint endpoint(unlimited());
  plain_client client(endpoint.port());
  EXPECT_EQ(client.post(chat, ask(std::string(std::size_t{9} << 20U, 'x'))).status, 200);
  const auto r = client.post(chat, ask(std::string(std::size_t{17} << 20U, 'x')));
  EXPECT_EQ(r.status, 413);
  EXPECT_FALSE(r.keep_alive);
}

TEST(FakeEndpoint, ToldThatABodyFollowsItSaysGoOn) {
  fake_endpoint endpoint(unlimited());
  plain_client client(endpoint.port());
  const std::string body = ask("a");
  client.send_raw(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n"
      "Connection: close\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 100);
  client.send_raw(body);
  EXPECT_EQ(client.read_response().status, 200);
}

TEST(FakeEndpoint, WhatIsNotHttpIsRefused) {
  fake_endpoint endpoint(unlimited());
  plain_client client(endpoint.port());
  client.send_raw("HELO there\r\n\r\n");
  EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 400 "));
}

TEST(FakeEndpoint, AnswersCallsSideBySide) {
  fake_options options = unlimited();
  options.latency_min = options.latency_max = 1h;
  fake_endpoint endpoint(options);
  std::vector<plain_client> clients;
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back(endpoint.port());
    const std::string body = ask(std::to_string(i));
    clients.back().send_raw("POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nContent-Length: " +
                            std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  ASSERT_TRUE(arrived(endpoint, 50));
  EXPECT_EQ(json::parse(endpoint.stats_json())["max_in_flight"], 50);
  // Those that hang up are noticed although their answer is an hour off.
  clients.front().hang_up();
  int status = 0;
  for (int i = 0; i < 100'000 && status == 0; ++i) {
    const json stats = json::parse(endpoint.stats_json());
    for (const auto& a : stats["arrivals"]) {
      status = std::max(status, a["status"].get<int>());
    }
  }
  EXPECT_EQ(status, 499);
  // And the others do not keep it from ending.
  endpoint.stop();
  endpoint.stop();
  EXPECT_EQ(clients.back().read_to_end(), "");
}

TEST(FakeEndpoint, AnswersThatTakeTimeKeepTheConnection) {
  fake_options options = unlimited();
  options.latency_min = 1ms;
  options.latency_max = 3ms;
  fake_endpoint endpoint(options);
  plain_client client(endpoint.port());
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(client.post(chat, ask(std::to_string(i))).status, 200);
  }
  EXPECT_EQ(client.connections(), 1U);
  EXPECT_EQ(json::parse(endpoint.grade_json())["ok"], true);
}

TEST(FakeEndpoint, CopesWithManyConnections) {
  fake_endpoint endpoint(unlimited());
  std::vector<plain_client> clients;
  for (int i = 0; i < 200; ++i) clients.emplace_back(endpoint.port());
  for (auto& c : clients) EXPECT_EQ(c.post(chat, ask("a")).status, 200);
  endpoint.stop();
  for (auto& c : clients) EXPECT_EQ(c.read_to_end(), "");
}

TEST(FakeEndpoint, APortInUseIsNamedWithCauseAndRemedy) {
  fake_endpoint first(unlimited());
  fake_options options = unlimited();
  options.port = first.port();
  try {
    fake_endpoint second(options);
    FAIL() << "two endpoints on one port";
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("127.0.0.1:" + std::to_string(first.port())),
                                HasSubstr("in use"), HasSubstr("listen elsewhere")));
  }
}

TEST(FakeEndpoint, AHostThatIsNoAddressIsRefused) {
  fake_options options = unlimited();
  options.host = "not an address";
  EXPECT_THROW(fake_endpoint{options}, std::runtime_error);
}

TEST(FakeEndpoint, ALimitOfNothingIsRefused) {
  EXPECT_THROW(fake_endpoint{limited(0)}, std::invalid_argument);
}

/// Stands in for standard output and hands over what was written when it is flushed.
class flushed_line : public std::stringbuf {
 public:
  std::future<std::string> line() { return line_.get_future(); }

 protected:
  int sync() override {
    line_.set_value(str());
    return 0;
  }

 private:
  std::promise<std::string> line_;
};

TEST(FakeEndpoint, SaysWhereItListensAndServesUntilASignalComes) {
  flushed_line out;
  auto line = out.line();
  std::streambuf* before = std::cout.rdbuf(&out);
  int result = -1;
  std::thread server([&] { result = serve_until_signalled(unlimited()); });
  const std::string said = line.get();
  const std::string start = "listening on http://127.0.0.1:";
  EXPECT_THAT(said, AllOf(StartsWith(start), ::testing::EndsWith("/v1\n")));
  const auto port = static_cast<std::uint16_t>(std::stoi(said.substr(start.size())));
  EXPECT_EQ(plain_client(port).get("/v1/models").status, 200);
  std::raise(SIGTERM);
  server.join();
  std::cout.rdbuf(before);
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace sluice::fixtures
