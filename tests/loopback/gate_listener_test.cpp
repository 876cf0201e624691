// Hostile and clumsy callers at the gate's listener: each gets its refusal, and harms nobody.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/open_gate.hpp"
#include "tests/support/plain_client.hpp"

namespace sluice::app {
namespace {

using namespace std::chrono_literals;
using testing::plain_client;
using testing::plain_headers;

constexpr const char* secret = "0123456789abcdef0123456789abcdef";

using GateListener = testing::open_gate;

constexpr const char* question = R"({"job":"a","attempt":1})";

TEST_F(GateListener, GrantsATurnAndTakesTheReport) {
  open();
  plain_client c(port);
  const auto slot = c.post("/v1/slots", question);
  ASSERT_EQ(slot.status, 200) << slot.body;
  const std::string id = nlohmann::json::parse(slot.body)["slot"];
  EXPECT_EQ(c.post("/v1/slots/" + id + "/done", R"({"status":200})").body, R"({"known":true})");
  EXPECT_EQ(c.post("/v1/slots/" + id + "/done", "").body, R"({"known":false})");
  EXPECT_EQ(c.post("/v1/slots/nonsense/done", "").status, 404);
  EXPECT_EQ(c.get("/healthz").body, "ok\n");
  EXPECT_NE(c.get("/metrics").body.find("sluice_gate_granted_total 1\n"), std::string::npos);
  EXPECT_EQ(c.get("/v1/slots").status, 405);
  EXPECT_EQ(c.get("/nothing").status, 404);
  EXPECT_EQ(c.connections(), 1U);
}

TEST_F(GateListener, RefusesWhoHasNoToken) {
  listener_options o;
  o.rules.token = secret;
  open(o);
  EXPECT_EQ(plain_client(port).post("/v1/slots", question).status, 401);
  EXPECT_EQ(plain_client(port).post("/v1/slots", question, {{"X-Sluice-Token", "wrong"}}).status,
            401);
  EXPECT_EQ(plain_client(port).get("/metrics").status, 401);
  EXPECT_EQ(plain_client(port).get("/healthz").status, 200);
  EXPECT_EQ(plain_client(port).post("/v1/slots", question, {{"X-Sluice-Token", secret}}).status,
            200);
  EXPECT_EQ(plain_client(port)
                .post("/v1/slots", R"({"job":"a","attempt":2})",
                      {{"Authorization", std::string("Bearer ") + secret}})
                .status,
            200);
}

TEST_F(GateListener, ShowsAPageAndHonoursHead) {
  open();
  plain_client c(port);
  ASSERT_EQ(c.post("/v1/slots", question).status, 200);
  const auto page = c.get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.header("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(page.header("x-content-type-options"), "nosniff");
  EXPECT_EQ(page.header("referrer-policy"), "no-referrer");
  EXPECT_EQ(page.header("content-security-policy").find("default-src 'none';"), 0U);
  EXPECT_NE(page.body.find("<b id=\"calls\">1</b>"), std::string::npos) << page.body;
  EXPECT_EQ(c.post("/", "").status, 405);
  c.send_raw("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::string head = c.read_to_end();
  EXPECT_EQ(head.find("HTTP/1.1 200 "), 0U) << head;
  EXPECT_NE(head.find("Content-Length: " + std::to_string(page.body.size())), std::string::npos);
  EXPECT_EQ(head.find("<html"), std::string::npos);
}

TEST_F(GateListener, ThePageAsksABrowserForTheToken) {
  listener_options o;
  o.rules.token = secret;
  open(o);
  const auto asked = plain_client(port).get("/");
  EXPECT_EQ(asked.status, 401);
  EXPECT_EQ(asked.header("www-authenticate"), R"(Basic realm="sluice gate", charset="UTF-8")");
  EXPECT_EQ(plain_client(port).get("/metrics").header("www-authenticate"), "Bearer");
  const plain_headers password{
      {"Authorization", "Basic eDowMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZg=="}};
  EXPECT_EQ(plain_client(port).get("/", password).status, 200);
  EXPECT_EQ(plain_client(port).get("/metrics", password).status, 401);
}

TEST_F(GateListener, RefusesAnotherHostAndEveryOrigin) {
  open();
  const auto with_host = [this](const std::string& host) {
    plain_client c(port);
    c.send_raw("GET /healthz HTTP/1.1\r\n" + host + "\r\n");
    return c.read_response().status;
  };
  EXPECT_EQ(with_host("Host: evil.example\r\n"), 421);
  EXPECT_EQ(with_host("Host: 127.0.0.1.evil.example:8788\r\n"), 421);
  EXPECT_EQ(with_host(""), 421);
  EXPECT_EQ(with_host("Host: localhost\r\nHost: evil.example\r\n"), 421);
  EXPECT_EQ(with_host("Host: LOCALHOST:1\r\n"), 200);
  EXPECT_EQ(with_host("Host: localhost\r\nOrigin: http://localhost\r\n"), 403);
  EXPECT_EQ(with_host("Host: localhost\r\nOrigin: null\r\n"), 403);
}

TEST_F(GateListener, RefusesWhatIsTooLargeOrNotHttp) {
  open();
  EXPECT_EQ(plain_client(port).post("/v1/slots", std::string(4097, ' ')).status, 413);
  EXPECT_EQ(plain_client(port).post("/v1/slots", std::string(4096, ' ')).status, 400);
  plain_client chunked(port);
  chunked.send_raw(
      "POST /v1/slots HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2000\r\n" +
      std::string(0x2000, ' ') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.read_response().status, 413);
  plain_client header(port);
  header.send_raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(9000, 'x') +
                  "\r\n\r\n");
  EXPECT_EQ(header.read_response().status, 431);
  plain_client noise(port);
  noise.send_raw("\x16\x03\x01 this is no HTTP\r\n\r\n");
  EXPECT_EQ(noise.read_response().status, 400);
  EXPECT_EQ(plain_client(port).get("/healthz").status, 200);
}

TEST_F(GateListener, SlowAndSilentConnectionsEndByThemselves) {
  listener_options o;
  o.header_time = 100ms;
  o.body_time = 100ms;
  open(o);
  plain_client silent(port);
  silent.send_raw("");
  plain_client slow(port);
  slow.send_raw("POST /v1/slots HTTP/1.1\r\nHost: loc");
  plain_client starved(port);
  starved.send_raw("POST /v1/slots HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{");
  EXPECT_EQ(slow.read_to_end(), "");
  starved.read_to_end();
  EXPECT_EQ(plain_client(port).get("/healthz").status, 200);
}

TEST_F(GateListener, MoreThanItsShareOfConnectionsAreClosed) {
  listener_options o;
  o.most_connections = 2;
  open(o);
  plain_client first(port);
  plain_client second(port);
  EXPECT_EQ(first.get("/healthz").status, 200);
  EXPECT_EQ(second.get("/healthz").status, 200);
  plain_client third(port);
  EXPECT_THROW(third.get("/healthz"), std::runtime_error);
  EXPECT_EQ(first.get("/healthz").status, 200);
}

TEST_F(GateListener, WhoHangsUpLeavesTheLine) {
  open({}, {pipeline::limit{1, 1h}});
  plain_client first(port);
  ASSERT_EQ(first.post("/v1/slots", question).status, 200);
  plain_client waits(port);
  const std::string body = R"({"job":"b","attempt":1,"max_wait_ms":86400000})";
  waits.send_raw("POST /v1/slots HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                 std::to_string(body.size()) + "\r\n\r\n" + body);
  const auto line = [&] { return first.get("/metrics").body; };
  constexpr const char* there = "sluice_gate_waiting{job=\"b\"} 1\n";
  int looks = 0;
  while (line().find(there) == std::string::npos) ASSERT_LT(++looks, 10000);
  waits.hang_up();
  looks = 0;
  while (line().find(there) != std::string::npos) ASSERT_LT(++looks, 10000);
}

TEST_F(GateListener, APollEndsWithAnEstimate) {
  open({}, {pipeline::limit{1, 60s}});
  plain_client c(port);
  ASSERT_EQ(c.post("/v1/slots", question).status, 200);
  const auto waiting = c.post("/v1/slots", R"({"job":"b","attempt":1,"poll_ms":10})");
  EXPECT_EQ(waiting.status, 202);
  const auto said = nlohmann::json::parse(waiting.body);
  EXPECT_GT(said["turn_in_ms"], 55000);
  EXPECT_LE(said["turn_in_ms"], 62000);
  const auto no = c.post("/v1/slots", R"({"job":"c","attempt":1,"max_wait_ms":1000})");
  EXPECT_EQ(no.status, 409);
  EXPECT_GT(nlohmann::json::parse(no.body)["retry_in_ms"], 55000);
  EXPECT_EQ(c.post("/v1/slots", R"({"job":"c","attempt":1,"limit":["2/60s"]})").status, 409);
}

}  // namespace
}  // namespace sluice::app
