// Base URLs: what becomes of them, and what is said of those that are refused.
#include "provider/base_url.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace sluice::provider {
namespace {

struct good_case {
  const char* given;
  bool tls;
  const char* host;
  std::uint16_t port;
  const char* target;
  const char* origin;
  const char* host_field;
};

const std::vector<good_case> good_cases = {
    {"https://api.openai.com/v1", true, "api.openai.com", 443, "/v1/chat/completions",
     "https://api.openai.com:443", "api.openai.com"},
    {"http://localhost:8000/v1", false, "localhost", 8000, "/v1/chat/completions",
     "http://localhost:8000", "localhost:8000"},
    {"  https://api.openai.com/v1/// \r\n", true, "api.openai.com", 443, "/v1/chat/completions",
     "https://api.openai.com:443", "api.openai.com"},
    {"https://api.openai.com/v1/chat/completions", true, "api.openai.com", 443,
     "/v1/chat/completions", "https://api.openai.com:443", "api.openai.com"},
    {"https://api.openai.com/v1/chat/completions/", true, "api.openai.com", 443,
     "/v1/chat/completions", "https://api.openai.com:443", "api.openai.com"},
    {"http://10.1.2.3", false, "10.1.2.3", 80, "/chat/completions", "http://10.1.2.3:80",
     "10.1.2.3"},
    {"HTTPS://API.Example.ORG:443/V1", true, "api.example.org", 443, "/V1/chat/completions",
     "https://api.example.org:443", "api.example.org"},
    {"http://example.org:/v1", false, "example.org", 80, "/v1/chat/completions",
     "http://example.org:80", "example.org"},
    {"http://[::1]:8000/v1", false, "::1", 8000, "/v1/chat/completions", "http://[::1]:8000",
     "[::1]:8000"},
    {"https://[2001:DB8:0::1]/v1", true, "2001:db8::1", 443, "/v1/chat/completions",
     "https://[2001:db8::1]:443", "[2001:db8::1]"},
    {"https://x.openai.azure.com/openai/deployments/gpt?api-version=2024-02-01", true,
     "x.openai.azure.com", 443, "/openai/deployments/gpt/chat/completions?api-version=2024-02-01",
     "https://x.openai.azure.com:443", "x.openai.azure.com"},
    {"https://x.azure.com/d/chat/completions?api-version=1", true, "x.azure.com", 443,
     "/d/chat/completions?api-version=1", "https://x.azure.com:443", "x.azure.com"},
    {"http://10.0.0.1.nip.io:80/v1", false, "10.0.0.1.nip.io", 80, "/v1/chat/completions",
     "http://10.0.0.1.nip.io:80", "10.0.0.1.nip.io"},
    {"http://model_server:8000", false, "model_server", 8000, "/chat/completions",
     "http://model_server:8000", "model_server:8000"},
    {"http://example.org/a%20b", false, "example.org", 80, "/a%20b/chat/completions",
     "http://example.org:80", "example.org"},
};

TEST(BaseUrl, IsTakenApartAndGetsItsPathOnce) {
  for (const good_case& c : good_cases) {
    SCOPED_TRACE(c.given);
    const base_url u = parse_base_url(c.given);
    EXPECT_EQ(u.tls, c.tls);
    EXPECT_EQ(u.host, c.host);
    EXPECT_EQ(u.port, c.port);
    EXPECT_EQ(u.target, c.target);
    EXPECT_EQ(u.origin, c.origin);
    EXPECT_EQ(u.host_field(), c.host_field);
  }
}

struct bad_case {
  const char* given;
  const char* said;
};

const std::vector<bad_case> bad_cases = {
    {"", "no endpoint is given"},
    {" \n ", "no endpoint is given"},
    {"localhost:8000", "say http://localhost:8000/v1"},
    {"127.0.0.1:8000/v1", "say http://127.0.0.1:8000/v1"},
    {"[::1]:8000", "say http://[::1]:8000/v1"},
    {"api.openai.com/v1", "say https://api.openai.com/v1"},
    {"//api.openai.com/v1", "say https://api.openai.com/v1"},
    {"api.openai.com", "say https://api.openai.com/v1"},
    {"ftp://example.org/v1", "say http:// or https://"},
    {"file:///etc/passwd", "say http:// or https://"},
    {"http://", "host"},
    {"http:///v1", "names no host"},
    {"http://:80/v1", "names no host"},
    {"https://example.org/v1#top", "fragment"},
    {"https://example.org:65536/v1", "1 to 65535"},
    {"https://example.org:0/v1", "1 to 65535"},
    {"https://example.org:80a/v1", "1 to 65535"},
    {"https://exa mple.org/v1", "%20"},
    {"https://example.org/v1\nHost: evil", "control character"},
    {"https://b\xc3\xbc"
     "cher.example/v1",
     "xn--"},
    {"http://::1:8000/v1", "[ADDRESS]"},
    {"http://[::1]x/v1", "IPv6"},
    {"http://example.org/%zz", "%"},
    {"http://ex%2fample.org/v1", "cannot exist"},
    {"http://example.org/{model}", "{"},
    {"http://[::1/v1", "IPv6"},
    {"http://example.org/v1?a=1&key=...", "give --endpoint with all of it"},
    {"http://example.org/v1?...", "give --endpoint with all of it"},
};

TEST(BaseUrl, IsRefusedWithCauseAndRemedy) {
  for (const bad_case& c : bad_cases) {
    SCOPED_TRACE(c.given);
    try {
      parse_base_url(c.given);
      ADD_FAILURE() << "was taken";
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string(e.what()).find(c.said), std::string::npos) << e.what();
    }
  }
}

TEST(BaseUrl, SecretsAreNeverRepeated) {
  for (const char* given :
       {"https://user:hunter2@example.org/v1", "https://hunter2@example.org/v1",
        "https://user:hunter2/x@example.org/v1", "https://user:hun ter2@example.org/",
        "user:hunter2@example.org", "ftp://user:hunter2@example.org/v1",
        "https://u:hunter2@example.org/v1#hunter2", "http://example.org/v1?key=hunter2#x",
        "http://example.org:99999/v1?hunter2"}) {
    SCOPED_TRACE(given);
    try {
      parse_base_url(given);
      ADD_FAILURE() << "was taken";
    } catch (const std::invalid_argument& e) {
      EXPECT_EQ(std::string(e.what()).find("hunter2"), std::string::npos) << e.what();
      EXPECT_EQ(std::string(e.what()).find("ter2"), std::string::npos) << e.what();
    }
  }
}

TEST(BaseUrl, DisplayLeavesOutTheValuesOfTheQuery) {
  const base_url u = parse_base_url("https://example.org:8443/v1?key=hunter2&api-version=1&flag");
  EXPECT_EQ(u.display, "https://example.org:8443/v1/chat/completions?key=...&api-version=...&...");
  EXPECT_NE(u.target.find("hunter2"), std::string::npos);
  EXPECT_EQ(parse_base_url("https://example.org/v1").display,
            "https://example.org/v1/chat/completions");
}

TEST(BaseUrl, WhatIsKeptHoldsNoValueThatMayBeAKey) {
  for (const char* plain :
       {"https://example.org/v1", "https://example.org/v1?api-version=2024-10-21", ""})
    EXPECT_EQ(kept_url(plain), plain);
  for (const char* given : {"https://example.org/v1?key=hunter2", "http://example.org/?hunter2",
                            "http://example.org/v1?api-version=1&code=hunter2"}) {
    const std::string kept = kept_url(given);
    EXPECT_EQ(kept.find("hunter2"), std::string::npos) << kept;
    EXPECT_THROW(parse_base_url(kept), std::invalid_argument) << kept;
  }
}

TEST(BaseUrl, KnowsLoopback) {
  for (const char* local : {"http://localhost:1", "http://LOCALHOST:1", "http://127.0.0.1:1",
                            "http://127.8.9.10:1", "http://[::1]:1", "http://[0:0:0:0:0:0:0:1]:1"})
    EXPECT_TRUE(parse_base_url(local).loopback()) << local;
  for (const char* remote :
       {"http://128.0.0.1", "http://localhost.example.org", "http://127.0.0.1.example.org",
        "http://[::2]", "http://10.0.0.1", "http://0.0.0.0"})
    EXPECT_FALSE(parse_base_url(remote).loopback()) << remote;
}

TEST(BaseUrl, KnowsAddressesFromNames) {
  EXPECT_TRUE(parse_base_url("http://[::1]:1").address());
  EXPECT_TRUE(parse_base_url("http://10.0.0.1").address());
  EXPECT_FALSE(parse_base_url("http://example.org").address());
}

TEST(BaseUrl, FollowsToTheSameOriginOnly) {
  const base_url u = parse_base_url("http://example.org:8000/v1?a=b");
  using target = std::optional<std::string>;
  EXPECT_EQ(u.follow("/v2/chat/completions"), target("/v2/chat/completions"));
  EXPECT_EQ(u.follow("http://EXAMPLE.org:8000/x?y=z#f"), target("/x?y=z"));
  EXPECT_EQ(u.follow("completions/"), target("/v1/chat/completions/"));
  EXPECT_EQ(u.follow("//example.org:8000"), target("/"));
  EXPECT_EQ(u.follow("http://example.org/x"), target());
  EXPECT_EQ(u.follow("https://example.org:8000/x"), target());
  EXPECT_EQ(u.follow("http://other.org:8000/x"), target());
  EXPECT_EQ(u.follow("http://user@example.org:8000/x"), target());
  EXPECT_EQ(u.follow("http://example.org:8000/a b"), target());
  EXPECT_EQ(u.follow("http://example.org:8000/a\r\nX: y"), target());
  EXPECT_EQ(u.follow("http://example.org:8000?y=z"), target("/?y=z"));
  EXPECT_EQ(u.follow("/a//b"), target("/a//b"));
  EXPECT_EQ(u.follow("http://example.org:8000@other.org/x"), target());
  EXPECT_EQ(u.follow("http://example.org:8000.other.org/x"), target());
  EXPECT_EQ(u.follow("javascript:alert(1)"), target());
  const base_url tls = parse_base_url("https://example.org/v1");
  EXPECT_EQ(tls.follow("http://example.org:443/v1"), target());
  EXPECT_EQ(tls.follow("https://example.org:443/v1"), target("/v1"));
}

}  // namespace
}  // namespace sluice::provider
