// The fake endpoint and its connections: kept, cut, crowded, and ended with it.
#include "fixtures/fake_endpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/fake_requests.hpp"
#include "tests/support/plain_client.hpp"

namespace sluice::fixtures {
namespace {
using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::AllOf;
using testing::ask;
using testing::chat;
using ::testing::HasSubstr;
using testing::limited;
using testing::plain_client;
using testing::scripted;
using ::testing::StartsWith;
using testing::unlimited;

/// Asks for stats until so many calls have arrived; each question is a round trip, none is a wait.
bool arrived(const fake_endpoint& endpoint, int calls) {
  plain_client other(endpoint.port());
  for (int i = 0; i < 100'000; ++i) {
    if (json::parse(other.get("/_fake/stats").body)["calls"] >= calls) return true;
  }
  return false;
}

TEST(FakeConnection, KeepsConnectionsOpenUntilAskedNotTo) {
  fake_endpoint endpoint(limited(3));
  plain_client client(endpoint.port());
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(client.post(chat, ask("a")).keep_alive);
  client.get("/nothing");
  client.post(chat, "{");
  EXPECT_EQ(client.connections(), 1U);
  EXPECT_FALSE(client.get("/v1/models", {{"Connection", "close"}}).keep_alive);
  EXPECT_EQ(client.read_to_end(), "");
}

TEST(FakeConnection, AScriptCanSendRawBytes) {
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

TEST(FakeConnection, AScriptCanHangUpWithoutAnAnswer) {
  scripted_answer answer;
  answer.close_without_answer = true;
  fake_endpoint endpoint(scripted(answer));
  plain_client client(endpoint.port());
  EXPECT_THROW(client.post(chat, ask("a")), std::runtime_error);
  EXPECT_EQ(json::parse(endpoint.stats_json())["calls"], 1);
  EXPECT_EQ(client.get("/_fake/stats").status, 200);
  EXPECT_EQ(client.connections(), 2U);
}

TEST(FakeConnection, TakesLongDocumentsButNotAnyLength) {
  fake_endpoint endpoint(unlimited());
  plain_client client(endpoint.port());
  EXPECT_EQ(client.post(chat, ask(std::string(std::size_t{9} << 20U, 'x'))).status, 200);
  const auto r = client.post(chat, ask(std::string(std::size_t{17} << 20U, 'x')));
  EXPECT_EQ(r.status, 413);
  EXPECT_FALSE(r.keep_alive);
}

TEST(FakeConnection, ToldThatABodyFollowsItSaysGoOn) {
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

TEST(FakeConnection, WhatIsNotHttpIsRefused) {
  fake_endpoint endpoint(unlimited());
  plain_client client(endpoint.port());
  client.send_raw("HELO there\r\n\r\n");
  EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 400 "));
}

TEST(FakeConnection, AnswersCallsSideBySide) {
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
  for (int i = 0; i < 20'000 && status == 0; ++i) {
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

TEST(FakeConnection, AnswersThatTakeTimeKeepTheConnection) {
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

TEST(FakeConnection, CopesWithManyConnections) {
  fake_endpoint endpoint(unlimited());
  std::vector<plain_client> clients;
  for (int i = 0; i < 200; ++i) clients.emplace_back(endpoint.port());
  for (auto& c : clients) EXPECT_EQ(c.post(chat, ask("a")).status, 200);
  endpoint.stop();
  for (auto& c : clients) EXPECT_EQ(c.read_to_end(), "");
}

TEST(FakeConnection, APortInUseIsNamedWithCauseAndRemedy) {
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

TEST(FakeConnection, AHostThatIsNoAddressIsRefused) {
  fake_options options = unlimited();
  options.host = "not an address";
  EXPECT_THROW(fake_endpoint{options}, std::runtime_error);
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

TEST(FakeConnection, SaysWhereItListensAndServesUntilASignalComes) {
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
