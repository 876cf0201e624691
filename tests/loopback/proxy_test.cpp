// Through a proxy: what it is asked, what it never sees, and what becomes of its refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/endpoint_world.hpp"

namespace sluice::provider {
namespace {

using namespace std::chrono_literals;
using namespace sluice::testing;
using retry::reason;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

#define EXPECT_WHY(report, expected) \
  EXPECT_EQ(retry::name((report).signal.why), retry::name(expected)) << (report).detail

constexpr const char* password = "geheim-4711";
constexpr const char* token = "dXNlcjpnZWhlaW0tNDcxMQ==";  // user:geheim-4711

proxy at(const raw_server& server, bool credentials = true) {
  proxy out;
  out.host = "127.0.0.1";
  out.port = server.port();
  out.source = "HTTPS_PROXY";
  if (credentials) {
    out.authorization = std::string("Basic ") + token;
    out.password = password;
  }
  return out;
}

// An endpoint that only the proxy can find.
struct proxied : endpoint_world {
  proxied(const std::string& url, const proxy& via) : endpoint_world(url) {
    options.via = via;
    options.lookup = [](const std::string& host) -> std::vector<std::string> {
      throw std::runtime_error("nobody should look up " + host);
    };
  }
};

const std::string opened = "HTTP/1.1 200 Connection established\r\n\r\n";

struct tunnelled {
  tunnelled() : self(make_identity(wish())), ca(self.certificate) { options.tls_later = &self; }
  static certificate_wish wish() {
    certificate_wish w;
    w.alternative = "DNS:llm.example";
    return w;
  }
  identity self;
  scratch_file ca;
  raw_server_options options;
};

TEST(Proxy, ATunnelIsOpenedAndNeverSeesTheKey) {
  tunnelled t;
  raw_server server({{read_request(), send_bytes(opened), start_tls(), read_request(),
                      send_bytes(with_length(answer_body)), read_request(),
                      send_bytes(with_length(answer_body))}},
                    t.options);
  proxied w("https://llm.example/v1", at(server));
  w.options.ca_file = t.ca.path();
  for (int i = 0; i < 2; ++i) EXPECT_WHY(w.call(), reason::ok);
  EXPECT_EQ(server.connections(), 1U);
  EXPECT_EQ(server.requests().at(0),
            std::string("CONNECT llm.example:443 HTTP/1.1\r\n") + "Host: llm.example:443\r\n" +
                "Proxy-Authorization: Basic " + token + "\r\nUser-Agent: sluice\r\n\r\n");
  // Inside the tunnel the request is as it would be without.
  EXPECT_THAT(server.requests().at(1),
              AllOf(StartsWith("POST /v1/chat/completions HTTP/1.1\r\nHost: llm.example\r\n"),
                    HasSubstr(test_key), Not(HasSubstr("Proxy-"))));
}

TEST(Proxy, TheCertificateIsCheckedThroughATunnelToo) {
  tunnelled t;
  raw_server server({{read_request(), send_bytes(opened), start_tls(), read_request()}}, t.options);
  proxied w("https://other.example/v1", at(server));
  w.options.ca_file = t.ca.path();
  const attempt_report r = w.call();
  EXPECT_WHY(r, reason::certificate_refused);
  EXPECT_THAT(r.detail,
              AllOf(HasSubstr("other.example"), HasSubstr("through the proxy 127.0.0.1")));
  EXPECT_THAT(server.received(), Not(HasSubstr(test_key)));
}

TEST(Proxy, InterimAnswersAndFieldsBeforeTheTunnelAreSkipped) {
  tunnelled t;
  raw_server server({{read_request(),
                      send_bytes("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n"
                                 "Content-Length: 900\r\nVia: x\r\n\r\n"),
                      start_tls(), read_request(), send_bytes(with_length(answer_body))}},
                    t.options);
  proxied w("https://llm.example/v1", at(server, false));
  w.options.ca_file = t.ca.path();
  EXPECT_WHY(w.call(), reason::ok);
  EXPECT_THAT(server.requests().at(0), Not(HasSubstr("Proxy-Authorization")));
}

struct refusal {
  const char* name;
  std::string bytes;
  reason why;
  const char* said;
};

class ProxyRefusal : public ::testing::TestWithParam<refusal> {};

TEST_P(ProxyRefusal, OfATunnelIsNamedAndSeesNoKey) {
  const refusal& p = GetParam();
  raw_server server({{read_request(), send_bytes(p.bytes), close_it()}});
  proxied w("https://llm.example/v1", at(server));
  w.options.connect_timeout = 200ms;
  const attempt_report r = w.call();
  EXPECT_WHY(r, p.why);
  EXPECT_THAT(r.detail,
              AllOf(HasSubstr("proxy 127.0.0.1:" + std::to_string(server.port())),
                    HasSubstr("HTTPS_PROXY"), HasSubstr(p.said), Not(HasSubstr(password))));
  EXPECT_FALSE(r.signal.may_have_been_billed);
  EXPECT_THAT(server.received(), Not(HasSubstr(test_key)));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ProxyRefusal,
    ::testing::Values(
        refusal{"credentials",
                "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n"
                "Content-Length: 3\r\n\r\nno!",
                reason::proxy_refused, "(407)"},
        refusal{"forbidden", "HTTP/1.1 403 Forbidden\r\n\r\n<html>no</html>", reason::proxy_refused,
                "NO_PROXY"},
        refusal{"no_proxy_at_all", "HTTP/1.1 405 Method Not Allowed\r\n\r\n", reason::proxy_refused,
                "(405)"},
        refusal{"unreachable", "HTTP/1.1 502 Bad Gateway\r\n\r\n", reason::connect_failure,
                "(502)"},
        refusal{"not_http", "SSH-2.0-OpenSSH_9.2\r\n", reason::proxy_refused, "not HTTP"},
        refusal{"cut", "HTTP/1.1 200 Conn", reason::connect_failure, "closed the connection"},
        refusal{"nothing", "", reason::connect_failure, "closed the connection"},
        refusal{"talks_on", opened + "SSH-2.0-OpenSSH_9.2\r\n", reason::proxy_refused, "talking"},
        refusal{"endless_header", "HTTP/1.1 200 OK\r\n" + std::string(40000, 'x'),
                reason::proxy_refused, "long"},
        refusal{"many_fields",
                [] {
                  std::string text = "HTTP/1.1 200 OK\r\n";
                  for (int i = 0; i < 4000; ++i) text += "X-Field: value\r\n";
                  return text;
                }(),
                reason::proxy_refused, "long"}),
    [](const auto& p) { return p.param.name; });

TEST(Proxy, ATunnelWhoseOpeningIsCutAnywhereIsNoTunnel) {
  const std::string whole = "HTTP/1.1 200 Connection established\r\nVia: 1.1 x\r\n\r\n";
  std::vector<script> scripts;
  for (std::size_t n = 0; n < whole.size(); ++n)
    scripts.push_back(
        {read_request(), send_bytes(whole.substr(0, n)), n % 2 == 0 ? close_it() : reset_it()});
  raw_server server(scripts);
  proxied w("https://llm.example/v1", at(server));
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const attempt_report r = w.call();
    ASSERT_EQ(retry::name(r.signal.why), "connect_failure") << n << ": " << r.detail;
  }
  EXPECT_THAT(server.received(), Not(HasSubstr(test_key)));
}

TEST(Proxy, ASilentProxyIsBounded) {
  raw_server server({{read_request(), wait_closed()}});
  proxied w("https://llm.example/v1", at(server));
  w.options.connect_timeout = 50ms;
  const attempt_report r = w.call();
  EXPECT_WHY(r, reason::connect_failure);
  EXPECT_THAT(r.detail, HasSubstr("no answer within 0.05 s"));
}

TEST(Proxy, AbortEndsTheWaitForATunnel) {
  raw_server server({{read_request(), wait_closed()}});
  proxied w("https://llm.example/v1", at(server));
  attempt_report r;
  boost::asio::co_spawn(w.context, endpoint_world::one_call(w, "{}"),
                        [&](std::exception_ptr, attempt_report got) { r = std::move(got); });
  while (server.requests().empty()) w.context.poll();
  w.to().abort();
  w.context.run();
  EXPECT_WHY(r, reason::interrupted);
}

TEST(Proxy, AProxyThatIsDownIsWaitedOut) {
  proxy gone;
  {
    raw_server server(std::vector<script>{script()});
    gone = at(server);
  }
  proxied w("https://llm.example/v1", gone);
  const attempt_report r = w.call();
  EXPECT_WHY(r, reason::connect_failure);
  EXPECT_THAT(r.detail, HasSubstr("connect to the proxy 127.0.0.1:"));
}

TEST(Proxy, APlainEndpointIsAskedForInFull) {
  script twice = good_answer();
  for (const action& step : good_answer()) twice.push_back(step);
  raw_server server({twice});
  proxied w("http://llm.example:8080/v1", at(server));
  for (int i = 0; i < 2; ++i) EXPECT_WHY(w.call(), reason::ok);
  EXPECT_EQ(server.connections(), 1U);
  EXPECT_THAT(server.requests().at(0),
              AllOf(StartsWith("POST http://llm.example:8080/v1/chat/completions HTTP/1.1\r\n"
                               "Host: llm.example:8080\r\nProxy-Authorization: Basic "),
                    HasSubstr(token)));
}

TEST(Proxy, ItsOwnAnswersOnAPlainEndpointNameIt) {
  const std::string page = std::string("you said ") + token + " or " + password;
  for (const auto& [status, why] :
       {std::pair{"407 Proxy Authentication Required", reason::proxy_refused},
        {"502 Bad Gateway", reason::server_error}}) {
    raw_server server({{read_request(), send_bytes(with_length(page, status))}});
    proxied w("http://llm.example/v1", at(server));
    w.options.keep_bodies = true;
    const attempt_report r = w.call();
    EXPECT_WHY(r, why);
    EXPECT_THAT(r.detail, HasSubstr("proxy 127.0.0.1:" + std::to_string(server.port())));
    for (const std::string& text : {r.detail, r.raw_body})
      EXPECT_THAT(text, AllOf(Not(HasSubstr(token)), Not(HasSubstr(password))));
  }
}

}  // namespace
}  // namespace sluice::provider
