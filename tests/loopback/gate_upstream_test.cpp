// Calls passed on by the gate: what arrives at the endpoint, what comes back, and what the budget
// makes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fixtures/fake_endpoint.hpp"
#include "tests/support/open_gate.hpp"
#include "tests/support/plain_client.hpp"
#include "tests/support/raw_server.hpp"

namespace sluice::app {
namespace {

using namespace std::chrono_literals;
using namespace sluice::testing;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* path = "/v1/chat/completions";
constexpr const char* body = R"({ "model":"m",  "messages":[{"role":"user","content":"hé"}] })";
constexpr const char* key = "sk-very-secret-0123456789";
constexpr const char* token = "0123456789abcdef0123456789abcdef";

std::string ok(const std::string& text) {
  return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(text.size()) + "\r\n\r\n" + text;
}

class GateUpstream : public open_gate {
 protected:
  void open_to(const std::string& url, std::vector<pipeline::limit> limits = {},
               std::uint32_t max_in_flight = 0, listener_options how = {}) {
    upstream_options to;
    to.url = provider::parse_base_url(url);
    to.grace = 100ms;
    open(std::move(how), std::move(limits), to, max_in_flight);
  }
  plain_client client() const { return plain_client(port); }
  std::string metrics() const { return client().get("/metrics").body; }
  // Looks until the metrics say so.
  void await_metrics(const std::string& text) const {
    for (int looks = 0; looks < 10000; ++looks)
      if (metrics().find(text) != std::string::npos) return;
    FAIL() << "never said " << text << ": " << metrics();
  }
  static std::string request(const std::string& more = {}) {
    return std::string("POST ") + path + " HTTP/1.1\r\nHost: localhost\r\n" + more +
           "Content-Length: " + std::to_string(std::string(body).size()) + "\r\n\r\n" + body;
  }
};

TEST_F(GateUpstream, PassesACallAndItsAnswerOnUnchanged) {
  const std::string answer("\x1f\x8b\0\xff\r\n\r\n{\"odd\"", 14);
  raw_server endpoint(
      {{read_request(), send_bytes("HTTP/1.1 100 Continue\r\n\r\n"
                                   "HTTP/1.1 429 Slow down, please\r\nX-Odd:  a b \r\n"
                                   "Set-Cookie: one=1\r\nset-cookie: two=2\r\n"
                                   "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\n"
                                   "Keep-Alive: timeout=5\r\nContent-Encoding: gzip\r\n"
                                   "Content-Length: 14\r\n\r\n" +
                                   answer)}});
  open_to(endpoint.url());
  plain_client c = client();
  c.send_raw(std::string("POST ") + path +
             "?api-version=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + key +
             "\r\nX-Stainless-Lang: js\r\nAccept-Encoding: gzip\r\nX-Sluice-Token: " + token +
             "\r\nX-Sluice-Max-Wait-Ms: 5000\r\nX-Sluice-Job: nightly\r\n"
             "Connection: keep-alive, X-Mine\r\nX-Mine: 1\r\nTE: trailers\r\n"
             "Content-Length: " +
             std::to_string(std::string(body).size()) + "\r\n\r\n" + body);
  const std::string all = c.read_until("{\"odd\"");
  EXPECT_EQ(all,
            "HTTP/1.1 429 Slow down, please\r\nX-Odd: a b\r\nSet-Cookie: one=1\r\n"
            "set-cookie: two=2\r\nContent-Encoding: gzip\r\nContent-Length: 14\r\n\r\n" +
                answer);
  const std::string seen = endpoint.requests().at(0);
  EXPECT_EQ(seen, "POST /v1/chat/completions?api-version=1 HTTP/1.1\r\nHost: 127.0.0.1:" +
                      std::to_string(endpoint.port()) + "\r\nAuthorization: Bearer " + key +
                      "\r\nX-Stainless-Lang: js\r\nAccept-Encoding: gzip\r\n"
                      "X-Sluice-Job: nightly\r\nContent-Length: " +
                      std::to_string(std::string(body).size()) + "\r\n\r\n" + body);
  EXPECT_EQ(client().get(path).status, 405);
}

TEST_F(GateUpstream, PassesAStreamOnPieceByPiece) {
  raw_server endpoint(
      {{read_request(),
        send_bytes("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n7\r\ndata: 1\r\n"),
        wait_told(), send_bytes("7\r\ndata: 2\r\n"), wait_told(), send_bytes("0\r\n\r\n")}});
  open_to(endpoint.url());
  plain_client c = client();
  c.send_raw(request());
  EXPECT_EQ(c.read_until("data: 1\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            "Transfer-Encoding: chunked\r\n\r\n7\r\ndata: 1\r\n");
  endpoint.go_on();
  EXPECT_EQ(c.read_until("data: 2\r\n"), "7\r\ndata: 2\r\n");
  EXPECT_THAT(metrics(), HasSubstr("sluice_gate_in_flight 1\n"));
  endpoint.go_on();
  EXPECT_EQ(c.read_until("\r\n\r\n"), "0\r\n\r\n");
  await_metrics("sluice_gate_in_flight 0\n");
}

TEST_F(GateUpstream, AnOldClientGetsAStreamUntilTheEndOfTheConnection) {
  raw_server endpoint(
      {{read_request(), send_bytes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                   "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")}});
  open_to(endpoint.url());
  plain_client c = client();
  c.send_raw(std::string("POST ") + path +
             " HTTP/1.0\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(c.read_to_end(), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nonetwo");
}

TEST_F(GateUpstream, TheKeyIsPassedOnAndKeptNowhere) {
  raw_server endpoint({{read_request(), send_bytes(ok("{}"))}});
  open_to(endpoint.url(), {pipeline::limit{1, 1h}});
  EXPECT_EQ(client().post(path, body, {{"Authorization", std::string("Bearer ") + key}}).status,
            200);
  EXPECT_THAT(endpoint.received(), HasSubstr(std::string("Authorization: Bearer ") + key));
  const auto late = client().post(
      path, body, {{"Authorization", std::string("Bearer ") + key}, {"X-Sluice-Max-Wait-Ms", "1"}});
  EXPECT_EQ(late.status, 503);
  EXPECT_THAT(late.body, Not(HasSubstr("secret")));
  EXPECT_THAT(metrics(), Not(HasSubstr("secret")));
  EXPECT_THAT(client().get("/").body, Not(HasSubstr("secret")));
  stop();
  ASSERT_TRUE(kept->bytes);
  EXPECT_THAT(*kept->bytes, Not(HasSubstr("secret")));
}

TEST_F(GateUpstream, WithoutATurnInTimeTheCallerIsToldNotToTryAgain) {
  raw_server endpoint({{read_request(), send_bytes(ok("{}")), wait_closed()}});
  open_to(endpoint.url(), {pipeline::limit{1, 1h}});
  EXPECT_EQ(client().post(path, body).status, 200);
  const auto late = client().post(path, body, {{"X-Sluice-Max-Wait-Ms", "50"}});
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(late.header("x-should-retry"), "false");
  const auto error = nlohmann::json::parse(late.body)["error"];
  EXPECT_EQ(error["code"], "admission_timeout");
  EXPECT_EQ(error["type"], "sluice_gate");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("no turn "));
  EXPECT_EQ(endpoint.requests().size(), 1U);
  EXPECT_EQ(client().post(path, body, {{"X-Sluice-Max-Wait-Ms", "soon"}}).status, 400);
}

TEST_F(GateUpstream, AnEndpointThatIsNotThereSpendsNothing) {
  std::string url;
  {
    const raw_server gone({{close_it()}});
    url = gone.url();
  }
  open_to(url, {pipeline::limit{1, 1h}});
  const auto no = client().post(path, body);
  EXPECT_EQ(no.status, 502);
  EXPECT_EQ(nlohmann::json::parse(no.body)["error"]["code"], "upstream_unreachable");
  EXPECT_EQ(no.header("x-should-retry"), "");
  EXPECT_THAT(metrics(), HasSubstr("sluice_gate_granted_total 0\n"));
  await_metrics("sluice_gate_waiting gauge\n# HELP");
}

TEST_F(GateUpstream, ARefusalHoldsEverybodyBack) {
  raw_server endpoint({{read_request(), send_bytes("HTTP/1.1 429 Too Many Requests\r\nRetry-After: "
                                                   "40\r\nContent-Length: 2\r\n\r\n{}")}});
  open_to(endpoint.url(), {pipeline::limit{100, 60s}});
  const auto no = client().post(path, body);
  EXPECT_EQ(no.status, 429);
  EXPECT_EQ(no.header("retry-after"), "40");
  EXPECT_THAT(metrics(), HasSubstr("sluice_gate_rate_limited_total 1\n"));
  const auto call = client().post(path, body, {{"X-Sluice-Max-Wait-Ms", "20000"}});
  EXPECT_EQ(call.status, 503);
  EXPECT_THAT(call.body, HasSubstr("admission_timeout"));
  const auto other = client().post("/v1/slots", R"({"job":"b","attempt":1,"poll_ms":0})");
  EXPECT_EQ(other.status, 202);
  const auto wait = nlohmann::json::parse(other.body)["cool_down_ms"].get<int>();
  EXPECT_GT(wait, 30000);
  EXPECT_LT(wait, 60000);
}

TEST_F(GateUpstream, KeepsTheLimit) {
  fixtures::fake_options o;
  o.limit = fixtures::server_limit{2, 300ms};
  fixtures::fake_endpoint endpoint(o);
  open_to(endpoint.url(), {pipeline::limit{2, 300ms}});
  std::vector<int> statuses(6);
  std::vector<std::thread> callers;
  for (std::size_t i = 0; i < statuses.size(); ++i)
    callers.emplace_back([this, i, &statuses] {
      statuses[i] = client()
                        .post(path,
                              R"({"model":"m","messages":[{"role":"user","content":")" +
                                  std::to_string(i) + R"("}]})",
                              {{"X-Sluice-Job", i % 2 == 0 ? "even" : "odd"}})
                        .status;
    });
  for (auto& t : callers) t.join();
  EXPECT_THAT(statuses, ::testing::Each(200));
  const auto stats = nlohmann::json::parse(endpoint.stats_json());
  EXPECT_EQ(stats["ok"], 6);
  EXPECT_EQ(stats["rate_limited"], 0);
  EXPECT_EQ(nlohmann::json::parse(endpoint.grade_json())["windows_over_limit"], 0);
  // Its name reaches an endpoint on this machine alone, whose record tells jobs apart by it.
  EXPECT_EQ(stats["arrivals"][0]["job"].get<std::string>().substr(0, 1) == "e" ||
                stats["arrivals"][0]["job"] == "odd",
            true);
}

TEST_F(GateUpstream, APlaceInFlightIsHeldUntilTheAnswerHasEnded) {
  raw_server endpoint(
      {{read_request(), send_bytes("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc"), wait_told(),
        send_bytes("def"), read_request(), send_bytes(ok("second"))}});
  open_to(endpoint.url(), {}, 1);
  plain_client first = client();
  first.send_raw(request());
  first.read_until("abc");
  plain_client second = client();
  second.send_raw(request("X-Sluice-Job: <b>second</b>\r\n"));
  await_metrics("sluice_gate_waiting{job=\"<b>second</b>\"} 1\n");
  EXPECT_THAT(client().get("/").body, HasSubstr("<bdi>&lt;b&gt;second&lt;/b&gt;</bdi>"));
  EXPECT_EQ(endpoint.requests().size(), 1U);
  endpoint.go_on();
  EXPECT_EQ(first.read_until("def"), "def");
  EXPECT_EQ(second.read_response().body, "second");
  EXPECT_EQ(endpoint.connections(), 1U);
}

TEST_F(GateUpstream, WhoHangsUpWhileWaitingLeavesTheLine) {
  raw_server endpoint({{read_request(), send_bytes(ok("{}"))}});
  open_to(endpoint.url(), {pipeline::limit{1, 1h}});
  EXPECT_EQ(client().post(path, body).status, 200);
  plain_client waits = client();
  waits.send_raw(request("X-Sluice-Job: b\r\nX-Sluice-Max-Wait-Ms: 86400000\r\n"));
  await_metrics("sluice_gate_waiting{job=\"b\"} 1\n");
  waits.hang_up();
  await_metrics("sluice_gate_waiting gauge\n# HELP");
  EXPECT_EQ(endpoint.requests().size(), 1U);
}

TEST_F(GateUpstream, WhoHangsUpInTheMiddleEndsTheCall) {
  raw_server endpoint(
      {{read_request(),
        send_bytes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"),
        wait_closed()}});
  open_to(endpoint.url(), {}, 1);
  plain_client c = client();
  c.send_raw(request());
  c.read_until("x\r\n");
  c.hang_up();
  endpoint.await_ended(1);
  await_metrics("sluice_gate_in_flight 0\n");
}

TEST_F(GateUpstream, AnAnswerThatBreaksOffDoesNotLookWhole) {
  raw_server endpoint(
      {{read_request(),
        send_bytes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"), close_it()},
       {read_request(), send_bytes("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nxy"), close_it()},
       {read_request(), send_bytes("SSH-2.0-OpenSSH\r\n\r\n"), close_it()},
       {read_request(), close_it()}});
  open_to(endpoint.url());
  plain_client c = client();
  c.send_raw(request());
  EXPECT_EQ(c.read_to_end(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
  plain_client d = client();
  d.send_raw(request());
  EXPECT_EQ(d.read_to_end(), "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nxy");
  const auto strange = client().post(path, body);
  EXPECT_EQ(strange.status, 502);
  EXPECT_THAT(strange.body, HasSubstr("upstream_failed"));
  EXPECT_EQ(client().post(path, body).status, 502);
  await_metrics("sluice_gate_in_flight 0\n");
}

TEST_F(GateUpstream, AKeptConnectionThatWasClosedIsMadeAnewWithATurnOfItsOwn) {
  raw_server endpoint({{read_request(), send_bytes(ok("one")), read_request(), close_it()},
                       {read_request(), send_bytes(ok("two"))}});
  open_to(endpoint.url());
  plain_client c = client();
  EXPECT_EQ(c.post(path, body).body, "one");
  EXPECT_EQ(c.post(path, body).body, "two");
  EXPECT_EQ(c.connections(), 1U);
  EXPECT_THAT(metrics(), HasSubstr("sluice_gate_granted_total 3\n"));
}

TEST_F(GateUpstream, AsksForTheGatesTokenAndKeepsItToItself) {
  raw_server endpoint({{read_request(), send_bytes(ok("{}"))}});
  listener_options o;
  o.rules.token = token;
  open_to(endpoint.url(), {}, 0, o);
  const auto no = client().post(path, body, {{"Authorization", std::string("Bearer ") + token}});
  EXPECT_EQ(no.status, 401);
  EXPECT_EQ(nlohmann::json::parse(no.body)["error"]["code"], "token_refused");
  EXPECT_EQ(client()
                .post(path, body,
                      {{"Authorization", std::string("Bearer ") + key}, {"X-Sluice-Token", token}})
                .status,
            200);
  EXPECT_THAT(endpoint.received(), HasSubstr(key));
  EXPECT_THAT(endpoint.received(), Not(HasSubstr(token)));
}

TEST_F(GateUpstream, LargeCallsAndAnswersPassUpToTheLimit) {
  const std::string answer(5U << 20U, 'a');
  raw_server endpoint({{read_request(), send_bytes(ok(answer))}});
  open_to(endpoint.url());
  const std::string large(6U << 20U, 'q');
  EXPECT_EQ(client().post(path, large).body, answer);
  EXPECT_THAT(endpoint.requests().at(0), ::testing::EndsWith("\r\n\r\n" + large));
  plain_client c = client();
  c.send_raw(std::string("POST ") + path +
             " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16777217\r\n\r\n");
  EXPECT_EQ(c.read_response().status, 413);
}

TEST_F(GateUpstream, VerifiesAnEndpointThatSpeaksTlsBeforeTheKeyIsSent) {
  certificate_wish wish;
  wish.name = "a test authority";
  wish.ca = true;
  const identity root = make_identity(wish);
  const identity good = make_identity({}, &root);
  const scratch_file trusted(root.certificate);
  raw_server_options encrypted;
  encrypted.tls = &good;
  raw_server endpoint(
      {{read_request(),
        send_bytes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"),
        wait_told(), send_bytes("3\r\ntwo\r\n0\r\n\r\n"), read_request(), send_bytes(ok("{}"))}},
      encrypted);
  upstream_options to;
  to.url = provider::parse_base_url(endpoint.url("localhost"));
  to.files.ca = trusted.path();
  open({}, {}, to);
  plain_client c = client();
  c.send_raw(request());
  EXPECT_THAT(c.read_until("one\r\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
  endpoint.go_on();
  EXPECT_EQ(c.read_until("0\r\n\r\n"), "3\r\ntwo\r\n0\r\n\r\n");
  c.send_raw(request());
  EXPECT_EQ(c.read_response().body, "{}");
  EXPECT_EQ(endpoint.connections(), 1U);
}

TEST_F(GateUpstream, AnEndpointThatCannotBeTrustedNeverSeesTheKey) {
  const identity stranger = make_identity({});
  raw_server_options encrypted;
  encrypted.tls = &stranger;
  raw_server endpoint({{read_request(), send_bytes(ok("{}"))}}, encrypted);
  open_to(endpoint.url("localhost"));
  const auto no = client().post(path, body, {{"Authorization", std::string("Bearer ") + key}});
  EXPECT_EQ(no.status, 502);
  EXPECT_THAT(no.body, HasSubstr("TLS handshake with"));
  EXPECT_THAT(endpoint.received(), Not(HasSubstr("secret")));
}

TEST_F(GateUpstream, StopsThoughAnAnswerNeverEnds) {
  raw_server endpoint(
      {{read_request(),
        send_bytes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"),
        wait_closed()}});
  open_to(endpoint.url());
  plain_client c = client();
  c.send_raw(request());
  c.read_until("x\r\n");
  stop();
}

}  // namespace
}  // namespace sluice::app
