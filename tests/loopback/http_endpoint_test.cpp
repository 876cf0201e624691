// The real transport against servers that keep to their script: what becomes of answers, good and
// bad, of connections and of redirects.
#include "provider/http_endpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "retry/table.hpp"
#include "tests/support/compress.hpp"
#include "tests/support/endpoint_world.hpp"

namespace sluice::provider {
namespace {

using namespace std::chrono_literals;
using namespace sluice::testing;
using retry::reason;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

#define EXPECT_WHY(report, expected) \
  EXPECT_EQ(retry::name((report).signal.why), retry::name(expected)) << (report).detail

// As many requests, each with its good answer.
script answers(int count) {
  script out;
  for (int i = 0; i < count; ++i)
    for (const action& step : good_answer()) out.push_back(step);
  return out;
}

// ---- answers

TEST(HttpEndpoint, SendsOneCallAndBringsBackItsAnswer) {
  raw_server server({good_answer()});
  endpoint_world w(server.url());
  w.options.job = "nightly";
  const attempt_report r = w.call(R"({"model":"m","messages":[]})");
  EXPECT_WHY(r, reason::ok);
  EXPECT_EQ(r.signal.status, 200);
  EXPECT_EQ(r.text, "hello");
  EXPECT_FALSE(r.signal.may_have_been_billed);
  EXPECT_TRUE(r.took.connect);
  EXPECT_FALSE(r.took.tls);
  EXPECT_TRUE(r.took.first_byte);
  EXPECT_LE(*r.took.first_byte, r.took.total);
  EXPECT_EQ(server.requests().at(0),
            "POST /v1/chat/completions HTTP/1.1\r\n"
            "Host: 127.0.0.1:" +
                std::to_string(server.port()) +
                "\r\n"
                "Authorization: Bearer sk-test-4711-secret\r\n"
                "X-Sluice-Job: nightly\r\n"
                "User-Agent: sluice\r\n"
                "Accept: application/json\r\n"
                "Accept-Encoding: identity\r\n"
                "Content-Type: application/json\r\n"
                "Content-Length: 27\r\n\r\n"
                R"({"model":"m","messages":[]})");
}

TEST(HttpEndpoint, WithoutAKeyNoAuthorizationIsSent) {
  raw_server server({good_answer()});
  endpoint_world w(server.url());
  w.options.api_key.clear();
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_THAT(server.requests().at(0), Not(HasSubstr("Authorization")));
}

TEST(HttpEndpoint, TheJobIsToldToLoopbackOnly) {
  raw_server server({good_answer()});
  endpoint_world w("http://elsewhere.example:" + std::to_string(server.port()));
  w.options.job = "nightly";
  w.options.lookup = [](const std::string&) { return std::vector<std::string>{"127.0.0.1"}; };
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_THAT(server.requests().at(0), Not(HasSubstr("Sluice-Job")));
}

TEST(HttpEndpoint, ReadsAllWaysToFrameAnAnswer) {
  const std::string to_the_end = "HTTP/1.1 200 OK\r\n\r\n" + answer_body;
  const std::string trailers =
      in_chunks(answer_body, 20).substr(0, in_chunks(answer_body, 20).size() - 2) +
      "Retry-After: 3\r\n\r\n";
  for (const std::string& bytes :
       {with_length(answer_body), in_chunks(answer_body, 7), in_chunks(answer_body, 200), trailers,
        to_the_end, "HTTP/1.1 100 Continue\r\n\r\n" + with_length(answer_body),
        "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" +
            in_chunks(answer_body, 9)}) {
    SCOPED_TRACE(bytes);
    raw_server server({{read_request(), send_bytes(bytes), close_it()}});
    endpoint_world w(server.url());
    const attempt_report r = w.call();
    EXPECT_WHY(r, reason::ok);
    EXPECT_EQ(r.text, "hello");
  }
}

TEST(HttpEndpoint, ReadsAnAnswerThatComesInSingleBytes) {
  script drip{read_request()};
  for (const char c : in_chunks(answer_body, 11)) drip.push_back(send_bytes(std::string(1, c)));
  raw_server server({drip});
  endpoint_world w(server.url());
  EXPECT_WHY(w.call(), reason::ok);
}

TEST(HttpEndpoint, LargeBodiesGoBothWays) {
  const std::string long_text(1500000, 'x');
  const std::string body =
      R"({"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":")" +
      long_text + R"("}}]})";
  const identity self = make_identity({});
  const scratch_file ca(self.certificate);
  for (const identity* tls : {static_cast<const identity*>(nullptr), &self}) {
    raw_server_options options;
    options.tls = tls;
    raw_server server({{read_request(), send_bytes(with_length(body))}}, options);
    endpoint_world w(server.url());
    w.options.ca_file = ca.path();
    const std::string sent(3000000, 'y');
    const attempt_report r = w.call(sent);
    EXPECT_WHY(r, reason::ok);
    EXPECT_EQ(r.text, long_text);
    EXPECT_THAT(server.requests().at(0).size(), ::testing::Gt(sent.size()));
    EXPECT_TRUE(server.requests().at(0).ends_with(std::string(1000, 'y')));
  }
}

TEST(HttpEndpoint, TellsRefusalsByTheirStatus) {
  raw_server server(
      {{read_request(), send_bytes(with_length(R"({"error":{"message":"slow down"}})",
                                               "429 Too Many Requests", "Retry-After: 52\r\n"))}});
  endpoint_world w(server.url());
  const attempt_report r = w.call();
  EXPECT_WHY(r, reason::rate_limited);
  EXPECT_EQ(r.signal.status, 429);
}

TEST(HttpEndpoint, AnEarlyAnswerCountsThoughTheRequestWasNotTaken) {
  // Larger than any socket buffer, so that the write ends on the closed connection.
  const std::string refusal = with_length(R"({"error":{"message":"who are you"}})",
                                          "401 Unauthorized", "Connection: close\r\n");
  raw_server server({{send_bytes(refusal), cut_it()}});
  endpoint_world w(server.url());
  const attempt_report r = w.call(std::string(1000, 'x'));
  EXPECT_WHY(r, reason::key_refused);
}

// ---- answers that are none

struct cut_case {
  const char* name;
  bool tls;
  std::string bytes;
  action end;
};

class CutAnswer : public ::testing::TestWithParam<cut_case> {};

TEST_P(CutAnswer, IsNeverASuccess) {
  const cut_case& c = GetParam();
  const identity self = make_identity({});
  const scratch_file ca(self.certificate);
  raw_server_options options;
  if (c.tls) options.tls = &self;
  std::vector<script> scripts;
  for (std::size_t n = 0; n < c.bytes.size(); ++n)
    scripts.push_back({read_request(), send_bytes(c.bytes.substr(0, n)), c.end});
  scripts.push_back({read_request(), send_bytes(c.bytes), c.end});
  raw_server server(scripts, options);
  endpoint_world w(server.url());
  w.options.ca_file = ca.path();
  for (std::size_t n = 0; n < c.bytes.size(); ++n) {
    const attempt_report r = w.call();
    ASSERT_EQ(retry::name(r.signal.why), "connection_lost") << n << ": " << r.detail;
    ASSERT_TRUE(r.signal.may_have_been_billed) << n;
    ASSERT_FALSE(r.stale_connection) << n;
    ASSERT_TRUE(r.text.empty()) << n;
  }
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_EQ(server.connections(), c.bytes.size() + 1);
}

INSTANTIATE_TEST_SUITE_P(
    AtEveryByte, CutAnswer,
    ::testing::Values(cut_case{"Plain", false, with_length(answer_body), close_it()},
                      cut_case{"PlainByReset", false, with_length(answer_body), reset_it()},
                      cut_case{"Chunked", false, in_chunks(answer_body, 40), close_it()},
                      cut_case{"AfterInterim", false,
                               "HTTP/1.1 100 Continue\r\n\r\n" + with_length(answer_body),
                               close_it()},
                      cut_case{"Tls", true, with_length(answer_body), close_it()},
                      cut_case{"TlsWithoutGoodbye", true, with_length(answer_body), cut_it()},
                      cut_case{"TlsChunked", true, in_chunks(answer_body, 40), cut_it()}),
    [](const auto& c) { return c.param.name; });

TEST(HttpEndpoint, ARefusalThatIsCutInItsBodyIsARefusal) {
  const std::string body = R"({"error":{"message":"slow down","code":"rate_limit_exceeded"}})";
  const std::string fields = "Retry-After: 42\r\nx-should-retry: true\r\n";
  for (const std::string& whole :
       {with_length(body, "429 Too Many Requests", fields),
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 42\r\nx-should-retry: true\r\n"
        "Transfer-Encoding: chunked\r\n\r\n3e\r\n" +
            body + "\r\n0\r\n\r\n"}) {
    const std::size_t header = whole.find("\r\n\r\n") + 4;
    std::vector<script> scripts;
    for (std::size_t n = header; n < whole.size(); ++n)
      scripts.push_back(
          {read_request(), send_bytes(whole.substr(0, n)), n % 2 == 0 ? close_it() : reset_it()});
    scripts.push_back({read_request(), send_bytes(whole.substr(0, header - 1)), close_it()});
    raw_server server(scripts);
    endpoint_world w(server.url());
    for (std::size_t n = header; n < whole.size(); ++n) {
      const attempt_report r = w.call();
      ASSERT_EQ(retry::name(r.signal.why), "rate_limited") << n << ": " << r.detail;
      ASSERT_EQ(r.signal.hint, 42s) << n;
      ASSERT_EQ(r.signal.should_retry, true) << n;
    }
    // Without the whole header it may be anything.
    EXPECT_WHY(w.call(), reason::connection_lost);
  }
}

TEST(HttpEndpoint, ACutErrorCountsOnlyWhereItsStatusTellsEnough) {
  const std::pair<const char*, reason> rows[] = {
      {"503 Service Unavailable", reason::server_error}, {"401 Unauthorized", reason::key_refused},
      {"402 Payment Required", reason::billing},         {"413 Too Large", reason::too_large},
      {"400 Bad Request", reason::connection_lost},      {"403 Forbidden", reason::connection_lost},
      {"404 Not Found", reason::connection_lost},        {"200 OK", reason::connection_lost}};
  for (const auto& [status, why] : rows) {
    SCOPED_TRACE(status);
    raw_server server({{read_request(),
                        send_bytes(std::string("HTTP/1.1 ") + status +
                                   "\r\nContent-Length: 400\r\n\r\n{\"error\":{\"mess"),
                        close_it()}});
    endpoint_world w(server.url());
    EXPECT_WHY(w.call(), why);
  }
}

TEST(HttpEndpoint, ARefusalWhoseBodyNeverComesOrNeverEndsIsARefusal) {
  const std::string start = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 42\r\n";
  raw_server server({{read_request(), send_bytes(start + "Content-Length: 900\r\n\r\n")},
                     {read_request(), send_bytes(start + "\r\n" + std::string(5000, ' '))},
                     {read_request(), send_bytes(start + "Content-Length: 1073741824\r\n\r\n")}});
  endpoint_world w(server.url());
  w.options.idle_timeout = 50ms;
  w.options.max_response = 1000;
  for (int i = 0; i < 3; ++i) {
    const attempt_report r = w.call();
    EXPECT_WHY(r, reason::rate_limited);
    EXPECT_EQ(r.signal.hint, 42s);
  }
}

TEST(HttpEndpoint, CompressedAnswersAreUndoneThoughNobodyAskedForThem) {
  for (const auto& [how, coding] :
       {std::pair{wrapper::gzip, "gzip"}, {wrapper::zlib, "deflate"}, {wrapper::none, "deflate"}}) {
    const std::string field = std::string("Content-Encoding: ") + coding + "\r\n";
    raw_server server(
        {{read_request(), send_bytes(with_length(compress(answer_body, how), "200 OK", field)),
          read_request(),
          send_bytes(with_length(compress(R"({"error":{"code":"insufficient_quota"}})", how),
                                 "429 Too Many Requests", field))}});
    endpoint_world w(server.url());
    const attempt_report r = w.call();
    EXPECT_WHY(r, reason::ok);
    EXPECT_EQ(r.text, "hello");
    EXPECT_WHY(w.call(), reason::billing);
  }
}

TEST(HttpEndpoint, CompressedAnswersThatCannotBeUndoneAreNamed) {
  const std::string bomb = compress(std::string(4 << 20, ' '), wrapper::gzip);
  const std::string cut = compress(answer_body, wrapper::gzip).substr(0, 30);
  const std::tuple<std::string, const char*, const char*, reason> rows[] = {
      {bomb, "gzip", "200 OK", reason::response_too_large},
      {bomb, "gzip", "429 Too Many Requests", reason::rate_limited},
      {cut, "gzip", "200 OK", reason::malformed_response},
      {cut, "br", "200 OK", reason::unsupported_encoding},
      {cut, "br", "503 Unavailable", reason::server_error}};
  for (const auto& [body, coding, status, why] : rows) {
    raw_server server({{read_request(),
                        send_bytes(with_length(
                            body, status, std::string("Content-Encoding: ") + coding + "\r\n"))}});
    endpoint_world w(server.url());
    w.options.keep_bodies = true;
    const attempt_report r = w.call();
    EXPECT_WHY(r, why);
    EXPECT_LT(r.raw_body.size(), 100U);
  }
}

TEST(HttpEndpoint, AStreamThatBreaksOffIsTriedAgainWhereverItDoes) {
  const std::string chunk = R"(data: {"choices":[{"delta":{"content":"hel"}}]})"
                            "\n\n";
  const std::string whole =
      ": hi\n\n" + chunk + R"(data: {"choices":[{"delta":{},"finish_reason":"stop"}]})" + "\n\n";
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
  std::vector<script> scripts;
  // Up to the bracket that ends its last event.
  const std::size_t cuts = whole.size() - 2;
  for (std::size_t n = 1; n < cuts; ++n)
    scripts.push_back({read_request(), send_bytes(head + whole.substr(0, n)), close_it()});
  scripts.push_back({read_request(), send_bytes(head + whole), close_it()});
  raw_server server(scripts);
  endpoint_world w(server.url());
  for (std::size_t n = 1; n < cuts; ++n) {
    const attempt_report r = w.call();
    const retry::row& row = retry::row_of(r.signal.why);
    ASSERT_EQ(row.again, retry::once) << n << ' ' << row.name << ' ' << r.detail;
    ASSERT_EQ(row.kind, retry::outcome_class::transient) << n;
  }
  EXPECT_WHY(w.call(), reason::ok);
}

TEST(HttpEndpoint, AnAnswerToTheEndNeedsTheTlsGoodbye) {
  const identity self = make_identity({});
  const scratch_file ca(self.certificate);
  raw_server_options options;
  options.tls = &self;
  const std::string bytes = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + answer_body;
  raw_server server({{read_request(), send_bytes(bytes), close_it()},
                     {read_request(), send_bytes(bytes), cut_it()}},
                    options);
  endpoint_world w(server.url());
  w.options.ca_file = ca.path();
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_WHY(w.call(), reason::connection_lost);
}

struct bad_answer {
  const char* name;
  std::string bytes;
  reason expected;
  const char* said;
};

class BadAnswer : public ::testing::TestWithParam<bad_answer> {};

TEST_P(BadAnswer, IsCalledByItsName) {
  const bad_answer& c = GetParam();
  raw_server server({{read_request(), send_bytes(c.bytes), wait_closed()}});
  endpoint_world w(server.url());
  w.options.max_response = 1000;
  const attempt_report r = w.call();
  EXPECT_WHY(r, c.expected);
  EXPECT_THAT(r.detail, HasSubstr(c.said));
  EXPECT_FALSE(r.stale_connection);
  // Nor is the connection used again.
  EXPECT_WHY(w.call(), c.expected);
  EXPECT_EQ(server.connections(), 2U);
}

std::string many_interims() {
  std::string out;
  for (int i = 0; i < 100; ++i) out += "HTTP/1.1 100 Continue\r\n\r\n";
  return out;
}

INSTANTIATE_TEST_SUITE_P(
    HttpEndpoint, BadAnswer,
    ::testing::Values(
        bad_answer{"TooLong", with_length(std::string(1001, ' ')), reason::response_too_large,
                   "over 1000 bytes"},
        bad_answer{"TooLongInChunks", in_chunks(std::string(1001, ' '), 200),
                   reason::response_too_large, "over 1000 bytes"},
        bad_answer{"TooLongToTheEnd", "HTTP/1.1 200 OK\r\n\r\n" + std::string(1001, ' '),
                   reason::response_too_large, "over 1000 bytes"},
        bad_answer{"HeaderTooLong", "HTTP/1.1 200 OK\r\nX: " + std::string(70000, 'x'),
                   reason::malformed_response, "64 KiB"},
        bad_answer{"HeaderTooLongInLines",
                   "HTTP/1.1 200 OK\r\n" +
                       [] {
                         std::string out;
                         for (int i = 0; i < 2000; ++i)
                           out += "X-Field-Of-Many: abcdefghijklmnopq\r\n";
                         return out;
                       }(),
                   reason::malformed_response, "64 KiB"},
        bad_answer{"NotHttp", "SSH-2.0-OpenSSH_9.2p1\r\n", reason::malformed_response, "not HTTP"},
        bad_answer{"TlsAlert", std::string("\x15\x03\x01\x00\x02\x02\x46", 7),
                   reason::method_refused, "say https://"},
        bad_answer{"BadLength", "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
                   reason::malformed_response, "not HTTP"},
        bad_answer{"BadChunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                   reason::malformed_response, "not HTTP"},
        bad_answer{"OnlyInterims", many_interims(), reason::malformed_response, "interim"},
        bad_answer{"Upgrade", "HTTP/1.1 101 Switching Protocols\r\n\r\n",
                   reason::malformed_response, "interim"}),
    [](const auto& c) { return c.param.name; });

TEST(HttpEndpoint, TheLargestAllowedAnswerIsTaken) {
  raw_server server({good_answer()});
  endpoint_world w(server.url());
  w.options.max_response = answer_body.size();
  EXPECT_WHY(w.call(), reason::ok);
}

TEST(HttpEndpoint, TheKeyGoesAsTheHostWantsIt) {
  raw_server server({good_answer()});
  endpoint_world w(server.url());
  w.options.key_goes = key_header::api_key;
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_THAT(server.requests().at(0), AllOf(HasSubstr("\r\napi-key: sk-test-4711-secret\r\n"),
                                             Not(HasSubstr("Authorization"))));
}

// ---- time

TEST(HttpEndpoint, SilenceEndsByTheIdleTimeout) {
  for (const std::string& start :
       {std::string(), std::string("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{")}) {
    raw_server server({{read_request(), send_bytes(start), wait_closed()}});
    endpoint_world w(server.url());
    w.options.idle_timeout = 50ms;
    const attempt_report r = w.call();
    EXPECT_WHY(r, reason::timed_out);
    EXPECT_TRUE(r.signal.may_have_been_billed);
    EXPECT_THAT(r.detail, HasSubstr("0.05 s"));
    // The socket is really closed.
    server.await_ended(1);
  }
}

TEST(HttpEndpoint, ADripIsEndedByTheTotalTimeout) {
  raw_server server(
      {{read_request(), send_bytes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        drip("1\r\nx\r\n")}});
  endpoint_world w(server.url());
  w.options.timeout = 200ms;
  w.options.idle_timeout = 150ms;
  const attempt_report r = w.call();
  EXPECT_WHY(r, reason::timed_out);
  EXPECT_TRUE(r.signal.may_have_been_billed);
  EXPECT_THAT(r.detail, HasSubstr("within 0.2 s"));
  server.await_ended(1);
}

TEST(HttpEndpoint, AServerThatTakesNothingIsATimeoutToo) {
  raw_server server({{wait_told()}});
  endpoint_world w(server.url());
  w.options.idle_timeout = 50ms;
  const attempt_report r = w.call(std::string(20000000, 'x'));
  EXPECT_WHY(r, reason::timed_out);
}

TEST(HttpEndpoint, ATimeoutOfOneCallLeavesTheOthersAlone) {
  raw_server server({{read_request(), wait_closed()}, answers(2)});
  endpoint_world w(server.url());
  w.options.idle_timeout = 50ms;
  EXPECT_WHY(w.call(), reason::timed_out);
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_WHY(w.call(), reason::ok);
}

TEST(HttpEndpoint, AnAnswerThatCameDuringAStallIsKept) {
  raw_server server({{read_request(), wait_told(), send_bytes(with_length(answer_body))}});
  endpoint_world w(server.url());
  w.options.timeout = w.options.idle_timeout = 50ms;
  w.to();
  std::thread hand([&] {
    server.await_requests(1);
    boost::asio::post(w.context, [&] {
      const auto until = std::chrono::steady_clock::now() + 60ms;
      server.go_on();
      server.await_sent(1);
      while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
    });
  });
  const attempt_report r = w.call();
  hand.join();
  EXPECT_WHY(r, reason::ok);
}

TEST(HttpEndpoint, EndlessTimeoutsDoNotOverflow) {
  raw_server server({good_answer()});
  endpoint_world w(server.url());
  w.options.idle_timeout = w.options.timeout = w.options.connect_timeout = duration::max();
  EXPECT_WHY(w.call(), reason::ok);
}

// ---- connections

TEST(HttpEndpoint, CallsOneAfterAnotherShareOneConnection) {
  raw_server server({answers(5)});
  endpoint_world w(server.url());
  const attempt_report first = w.call();
  EXPECT_TRUE(first.took.connect);
  for (int i = 0; i < 4; ++i) {
    const attempt_report r = w.call();
    EXPECT_WHY(r, reason::ok);
    EXPECT_FALSE(r.took.connect);
  }
  EXPECT_EQ(server.connections(), 1U);
}

TEST(HttpEndpoint, CallsAtOnceHaveAConnectionEach) {
  raw_server server({good_answer()});
  endpoint_world w(server.url());
  const auto reports = w.calls(20);
  ASSERT_EQ(reports.size(), 20U);
  for (const attempt_report& r : reports) EXPECT_WHY(r, reason::ok);
  EXPECT_EQ(server.requests().size(), 20U);
}

TEST(HttpEndpoint, AConnectionGivenBackUnusedIsTakenAgain) {
  raw_server server({good_answer()});
  endpoint_world w(server.url());
  w.connect().reset();
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_EQ(server.connections(), 1U);
}

TEST(HttpEndpoint, NoMoreConnectionsAreKeptThanAllowed) {
  raw_server server({answers(2)});
  endpoint_world w(server.url());
  w.options.max_idle = 2;
  {
    std::vector<std::unique_ptr<connection>> held;
    for (int i = 0; i < 5; ++i) held.push_back(w.connect());
  }
  server.await_connections(5);
  server.await_ended(3);
  EXPECT_EQ(server.connections(), 5U);
}

TEST(HttpEndpoint, AConnectionIdleForLongIsNotTrusted) {
  raw_server server({answers(2)});
  endpoint_world w(server.url());
  EXPECT_WHY(w.call(), reason::ok);
  w.now += 19999ms;
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_EQ(server.connections(), 1U);
  w.now += 20s;
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_EQ(server.connections(), 2U);
}

TEST(HttpEndpoint, AConnectionThatWasClosedMeanwhileIsSeenToBeDead) {
  for (const action& end : {close_it(), reset_it(), send_bytes("unasked")}) {
    raw_server server({{wait_told(), end}, good_answer()});
    endpoint_world w(server.url());
    auto on = w.connect();
    EXPECT_TRUE(w.to().alive(*on));
    server.go_on();
    while (w.to().alive(*on)) std::this_thread::yield();
    on.reset();
    EXPECT_WHY(w.call(), reason::ok);
    EXPECT_EQ(server.connections(), 2U);
  }
}

TEST(HttpEndpoint, ConnectionCloseIsObeyed) {
  raw_server server(
      {{read_request(), send_bytes(with_length(answer_body, "200 OK", "Connection: close\r\n")),
        wait_closed()}});
  endpoint_world w(server.url());
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_EQ(server.connections(), 2U);
}

TEST(HttpEndpoint, BytesLeftOverEndTheConnection) {
  raw_server server(
      {{read_request(), send_bytes(with_length(answer_body) + "HTTP/1.1 200"), wait_closed()}});
  endpoint_world w(server.url());
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_EQ(server.connections(), 2U);
}

TEST(HttpEndpoint, AReusedConnectionClosedUnansweredIsStale) {
  for (const action& end : {close_it(), reset_it()}) {
    raw_server server({{read_request(), send_bytes(with_length(answer_body)), read_request(), end},
                       good_answer()});
    endpoint_world w(server.url());
    EXPECT_WHY(w.call(), reason::ok);
    const attempt_report r = w.call();
    EXPECT_WHY(r, reason::connection_lost);
    EXPECT_TRUE(r.stale_connection);
    EXPECT_FALSE(r.signal.may_have_been_billed);
    EXPECT_WHY(w.call(), reason::ok);
    EXPECT_EQ(server.connections(), 2U);
  }
}

TEST(HttpEndpoint, AFreshConnectionClosedUnansweredIsNotStale) {
  raw_server server({{read_request(), close_it()}});
  endpoint_world w(server.url());
  const attempt_report r = w.call();
  EXPECT_WHY(r, reason::connection_lost);
  EXPECT_FALSE(r.stale_connection);
  EXPECT_TRUE(r.signal.may_have_been_billed);
}

TEST(HttpEndpoint, AnAnswerBegunIsNotStale) {
  raw_server server({{read_request(), send_bytes(with_length(answer_body)), read_request(),
                      send_bytes("H"), close_it()}});
  endpoint_world w(server.url());
  EXPECT_WHY(w.call(), reason::ok);
  const attempt_report r = w.call();
  EXPECT_WHY(r, reason::connection_lost);
  EXPECT_FALSE(r.stale_connection);
  EXPECT_TRUE(r.signal.may_have_been_billed);
}

TEST(HttpEndpoint, ABurntSlotSendsNothingAndKeepsTheConnection) {
  raw_server server({good_answer()});
  endpoint_world w(server.url());
  auto on = w.connect();
  const call what("{}", "doc", 1);
  slot turn = w.slots.make(w.now, w.now + 1s);
  w.now += 1s + 1ns;
  const attempt_report r = run_to_end(w.context, w.to().send(std::move(turn), std::move(on), what));
  EXPECT_TRUE(r.slot_burnt);
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_EQ(server.requests().size(), 1U);
  EXPECT_EQ(server.connections(), 1U);
}

TEST(HttpEndpoint, ASlotAtItsLastInstantIsGood) {
  raw_server server({good_answer()});
  endpoint_world w(server.url());
  auto on = w.connect();
  const call what("{}", "doc", 1);
  slot turn = w.slots.make(w.now, w.now);
  const attempt_report r = run_to_end(w.context, w.to().send(std::move(turn), std::move(on), what));
  EXPECT_FALSE(r.slot_burnt);
  EXPECT_WHY(r, reason::ok);
}

TEST(HttpEndpoint, AbortEndsWhatIsUnderWay) {
  raw_server server({{read_request(), wait_closed()}});
  endpoint_world w(server.url());
  w.to();
  std::thread hand([&] {
    server.await_requests(3);
    boost::asio::post(w.context, [&] { w.to().abort(); });
  });
  const auto reports = w.calls(3);
  hand.join();
  ASSERT_EQ(reports.size(), 3U);
  for (const attempt_report& r : reports) {
    EXPECT_WHY(r, reason::interrupted);
    EXPECT_TRUE(r.signal.may_have_been_billed);
    EXPECT_FALSE(r.stale_connection);
  }
  server.await_ended(3);
}

// ---- finding the server

TEST(HttpEndpoint, AClosedPortIsAConnectFailure) {
  std::uint16_t port = 0;
  {
    const raw_server gone({script()});
    port = gone.port();
  }
  const std::string place = "127.0.0.1:" + std::to_string(port);
  endpoint_world w("http://" + place);
  const attempt_report r = w.call();
  EXPECT_WHY(r, reason::connect_failure);
  EXPECT_EQ(r.detail, "connect to " + place + ": Connection refused");
  EXPECT_FALSE(r.signal.may_have_been_billed);
}

TEST(HttpEndpoint, AllAddressesOfANameAreTried) {
  raw_server server({good_answer()});
  endpoint_world w("http://many.example:" + std::to_string(server.port()));
  w.options.lookup = [](const std::string& host) {
    EXPECT_EQ(host, "many.example");
    return std::vector<std::string>{"::1", "127.0.0.2", "127.0.0.1"};
  };
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_THAT(server.requests().at(0), HasSubstr("Host: many.example:"));
}

TEST(HttpEndpoint, LocalhostIsFoundByTheSystem) {
  raw_server server({good_answer()});
  endpoint_world w(server.url("localhost"));
  EXPECT_WHY(w.call(), reason::ok);
}

TEST(HttpEndpoint, AnUnknownNameIsADnsFailure) {
  endpoint_world w("http://nowhere.example:8000");
  w.options.lookup = [](const std::string&) -> std::vector<std::string> {
    throw std::runtime_error("Name or service not known");
  };
  const attempt_report r = w.call();
  EXPECT_WHY(r, reason::dns_failure);
  EXPECT_EQ(r.detail, "look up nowhere.example:8000: Name or service not known");
}

TEST(HttpEndpoint, ANameWithoutAddressIsADnsFailure) {
  endpoint_world w("http://nowhere.example:8000");
  w.options.lookup = [](const std::string&) { return std::vector<std::string>(); };
  EXPECT_WHY(w.call(), reason::dns_failure);
}

// A lookup that blocks until it is let go, whoever waits for it.
struct stuck_lookup {
  std::shared_ptr<std::promise<void>> let_go = std::make_shared<std::promise<void>>();
  std::shared_future<void> gone = let_go->get_future().share();
  std::shared_ptr<std::atomic<int>> asked = std::make_shared<std::atomic<int>>(0);
  int stuck_from = 1;  ///< the first one to be stuck

  ~stuck_lookup() { release(); }
  void release() {
    if (!std::exchange(released, true)) let_go->set_value();
  }
  bool released = false;
  std::function<std::vector<std::string>(const std::string&)> function() const {
    return [gone = gone, asked = asked, from = stuck_from](const std::string&) {
      if (++*asked >= from) gone.wait();
      return std::vector<std::string>{"127.0.0.1"};
    };
  }
};

TEST(HttpEndpoint, AStuckLookupIsBounded) {
  stuck_lookup stuck;
  endpoint_world w("http://slow.example:8000");
  w.options.lookup = stuck.function();
  w.options.connect_timeout = 50ms;
  const auto reports = w.calls(3);
  ASSERT_EQ(reports.size(), 3U);
  for (const attempt_report& r : reports) {
    EXPECT_WHY(r, reason::dns_failure);
    EXPECT_THAT(r.detail, HasSubstr("0.05 s"));
  }
  // Those who ask share one lookup, the later ones too.
  EXPECT_WHY(w.call(), reason::dns_failure);
  EXPECT_EQ(stuck.asked->load(), 1);
}

TEST(HttpEndpoint, AbortEndsAStuckLookup) {
  stuck_lookup stuck;
  endpoint_world w("http://slow.example:8000");
  w.options.lookup = stuck.function();
  w.to();
  boost::asio::post(w.context, [&] { boost::asio::post(w.context, [&] { w.to().abort(); }); });
  const auto reports = w.calls(2);
  ASSERT_EQ(reports.size(), 2U);
  for (const attempt_report& r : reports) EXPECT_WHY(r, reason::interrupted);
}

// Takes every descriptor below a limit set just above the highest in use.
class all_descriptors_taken {
 public:
  all_descriptors_taken() {
    getrlimit(RLIMIT_NOFILE, &before_);
    int highest = 2;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      highest = std::max(highest, std::stoi(entry.path().filename()));
    rlimit tight = before_;
    tight.rlim_cur = static_cast<rlim_t>(highest + 1);
    setrlimit(RLIMIT_NOFILE, &tight);
    for (int fd = dup(1); fd >= 0; fd = dup(1)) taken_.push_back(fd);
  }
  ~all_descriptors_taken() {
    for (const int fd : taken_) close(fd);
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  all_descriptors_taken(const all_descriptors_taken&) = delete;
  all_descriptors_taken& operator=(const all_descriptors_taken&) = delete;

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

TEST(HttpEndpoint, RunningOutOfDescriptorsIsSaidSo) {
  raw_server server({good_answer()});
  endpoint_world w(server.url());
  w.to();
  std::optional<all_descriptors_taken> shortage(std::in_place);
  const attempt_report r = w.call();
  shortage.reset();
  EXPECT_WHY(r, reason::connect_failure);
  EXPECT_THAT(r.detail, HasSubstr("too many open files"));
  EXPECT_WHY(w.call(), reason::ok);
}

TEST(HttpEndpoint, AnIdleConnectionMakesRoomWhenDescriptorsRunOut) {
  raw_server server({good_answer()});
  stuck_lookup stuck;
  stuck.stuck_from = 2;
  endpoint_world w("http://slow.example:" + std::to_string(server.port()));
  w.options.lookup = stuck.function();
  auto first = w.connect();
  std::optional<readiness> second;
  boost::asio::co_spawn(w.context, w.to().make_ready(),
                        [&](std::exception_ptr, readiness r) { second.emplace(std::move(r)); });
  w.context.restart();
  while (stuck.asked->load() < 2) w.context.poll();
  std::optional<all_descriptors_taken> shortage(std::in_place);
  first.reset();
  stuck.release();
  w.context.run();
  shortage.reset();
  ASSERT_TRUE(second);
  EXPECT_TRUE(std::holds_alternative<std::unique_ptr<connection>>(*second));
  server.await_ended(1);
}

TEST(HttpEndpoint, AConnectionMayOutliveItsEndpoint) {
  raw_server server({good_answer()});
  endpoint_world w(server.url());
  auto on = w.connect();
  w.end();
  on.reset();
  server.await_ended(1);
}

TEST(HttpEndpoint, AConnectionFromElsewhereIsAMistake) {
  class foreign final : public connection {};
  endpoint_world w("http://127.0.0.1:9");
  const call what("{}", "doc", 1);
  slot turn = w.slots.make();
  EXPECT_THROW(
      run_to_end(w.context, w.to().send(std::move(turn), std::make_unique<foreign>(), what)),
      std::logic_error);
}

// ---- redirects

script redirect(const std::string& status, const std::string& location) {
  return {read_request(), send_bytes(with_length("", status, "Location: " + location + "\r\n"))};
}

script joined(std::vector<script> parts) {
  script out;
  for (const script& part : parts)
    for (const action& step : part) out.push_back(step);
  return out;
}

TEST(HttpEndpoint, ARedirectToTheSameOriginIsNotedOnce) {
  raw_server server(
      {joined({redirect("308 Permanent Redirect", "/v2/chat/completions?x=y"), answers(2)})});
  endpoint_world w(server.url());
  const attempt_report r = w.call();
  EXPECT_TRUE(r.redirected);
  EXPECT_WHY(r, reason::redirected);
  EXPECT_EQ(r.signal.status, 308);
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_THAT(server.requests().at(1), HasSubstr("POST /v2/chat/completions?x=y HTTP/1.1\r\n"));
  EXPECT_THAT(server.requests().at(1), HasSubstr(R"({"model":"m"})"));
  EXPECT_THAT(server.requests().at(2), HasSubstr("POST /v2/"));
}

TEST(HttpEndpoint, ASecondRedirectInARowIsNotFollowed) {
  raw_server server({joined(
      {redirect("307 Temporary Redirect", "/v2"), redirect("307 Temporary Redirect", "/v3")})});
  endpoint_world w(server.url());
  EXPECT_TRUE(w.call().redirected);
  const attempt_report r = w.call();
  EXPECT_FALSE(r.redirected);
  EXPECT_WHY(r, reason::redirected);
  EXPECT_THAT(r.detail, HasSubstr("/v3"));
}

TEST(HttpEndpoint, CallsThatWereUnderWayAreSentOnToo) {
  raw_server server({redirect("307 Temporary Redirect", "/v2")});
  endpoint_world w(server.url());
  for (const attempt_report& r : w.calls(4)) EXPECT_TRUE(r.redirected) << r.detail;
}

TEST(HttpEndpoint, OtherRedirectsAreNamedAndNotFollowed) {
  struct row {
    const char* status;
    const char* location;
    const char* said;
  };
  for (const row& c : std::initializer_list<row>{
           {"301 Moved Permanently", "/v2", "(301) to /v2"},
           {"302 Found", "/login?token=hidden", "(302) to /login?token=..."},
           {"303 See Other", "/v2", "(303)"},
           {"307 Temporary Redirect", "http://other.example/v1", "to http://other.example/v1"},
           {"308 Permanent Redirect", "https://127.0.0.1/v1", "to https://127.0.0.1/v1"},
           {"307 Temporary Redirect", "http://a:b@other.example/", "to http://other.example/"},
           {"304 Not Modified", "", "(304)"}}) {
    SCOPED_TRACE(c.status);
    raw_server server({redirect(c.status, c.location)});
    endpoint_world w(server.url());
    const attempt_report r = w.call();
    EXPECT_WHY(r, reason::redirected);
    EXPECT_FALSE(r.redirected);
    EXPECT_THAT(r.detail, HasSubstr(c.said));
  }
}

TEST(HttpEndpoint, ARedirectWithoutALocationLeadsNowhere) {
  raw_server server({{read_request(), send_bytes(with_length("", "307 Temporary Redirect"))}});
  endpoint_world w(server.url());
  const attempt_report r = w.call();
  EXPECT_WHY(r, reason::redirected);
  EXPECT_FALSE(r.redirected);
}

// ---- the key

TEST(HttpEndpoint, TheKeyIsInAuthorizationAndNowhereElse) {
  const std::string echo = std::string(R"({"error":{"message":"bad key )") + test_key + R"("}})";
  const std::string location = std::string("http://other.example/") + test_key;
  raw_server server(
      {{read_request(), send_bytes(with_length(echo, "500 Internal Server Error")), read_request(),
        send_bytes(with_length(echo, "301 Moved", "Location: " + location + "\r\n")),
        read_request(), send_bytes(std::string(test_key) + " is not HTTP\r\n\r\n")}});
  endpoint_world w(server.url());
  w.options.keep_bodies = true;
  for (int i = 0; i < 3; ++i) {
    const attempt_report r = w.call();
    for (const std::string& told :
         {r.detail, r.raw_body, r.text, r.hints, r.request_id, r.finish_reason})
      EXPECT_THAT(told, Not(HasSubstr(test_key)));
    if (i == 0) {
      EXPECT_THAT(r.raw_body, HasSubstr("bad key [key]"));
    }
  }
  for (std::string request : server.requests()) {
    const std::string field = std::string("Authorization: Bearer ") + test_key + "\r\n";
    const auto at = request.find(field);
    ASSERT_NE(at, std::string::npos);
    request.erase(at, field.size());
    EXPECT_THAT(request, Not(HasSubstr(test_key)));
  }
}

TEST(HttpEndpoint, BodiesAreKeptOnRequestOnly) {
  raw_server server({answers(1)});
  endpoint_world w(server.url());
  EXPECT_EQ(w.call().raw_body, "");
  endpoint_world keeping(server.url());
  keeping.options.keep_bodies = true;
  EXPECT_EQ(keeping.call().raw_body, answer_body);
}

TEST(HttpEndpoint, AKeyThatCannotStandInAHeaderIsRefusedUnseen) {
  endpoint_world w("http://127.0.0.1:9");
  w.options.api_key = "sk-abc\r\nX: y";
  try {
    w.to();
    ADD_FAILURE() << "was taken";
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("API key"), Not(HasSubstr("sk-abc"))));
  }
}

}  // namespace
}  // namespace sluice::provider
