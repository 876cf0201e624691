// The program behind a proxy, as the variables name it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/endpoint_world.hpp"
#include "tests/support/sluice_process.hpp"

namespace sluice {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* password = "geheim-4711";

struct proxied_desk : desk {
  explicit proxied_desk(const raw_server& proxy, const std::string& endpoint) {
    const std::string url =
        std::string("http://user:") + password + "@127.0.0.1:" + std::to_string(proxy.port());
    environment = {{"SLUICE_ENDPOINT", endpoint}, {"SLUICE_MODEL", "m"}, {"SLUICE_LIMIT", "none"},
                   {"OPENAI_API_KEY", test_key},  {"HTTP_PROXY", url},   {"https_proxy", url}};
    folder.write("one.txt", "A document.");
  }
  void expect_no_password(const process_end& end) const {
    std::string all = end.out + end.err;
    for (const char* file : {"sluice.db", "sluice.db-wal"}) {
      std::ostringstream text;
      text << std::ifstream(folder.at(file), std::ios::binary).rdbuf();
      all += text.str();
    }
    EXPECT_THAT(all, AllOf(Not(HasSubstr(password)), Not(HasSubstr("dXNlcjpnZWhlaW0tNDcxMQ"))));
  }
};

TEST(BehindAProxy, APlainEndpointIsReachedAndTheProxyIsNamedOnce) {
  raw_server proxy({good_answer()});
  const proxied_desk at(proxy, "http://llm.example/v1");
  const process_end end = at.sluice({"run", "one.txt"});
  EXPECT_EQ(end.exit, 0) << end.err;
  EXPECT_EQ(lines_with(end.err, "proxy=127.0.0.1:" + std::to_string(proxy.port())), 1U);
  EXPECT_THAT(proxy.requests().at(0), StartsWith("POST http://llm.example/v1/chat/completions "));
  at.expect_no_password(end);
}

TEST(BehindAProxy, CredentialsThatAreRefusedEndTheRunWithTheVariablesName) {
  for (const auto& [endpoint, variable] : {std::pair{"http://llm.example/v1", "HTTP_PROXY"},
                                           {"https://llm.example/v1", "https_proxy"}}) {
    raw_server proxy(
        {{read_request(), send_bytes(with_length("who are you, user:geheim-4711?",
                                                 "407 Proxy Authentication Required"))}});
    const proxied_desk at(proxy, endpoint);
    const process_end end = at.sluice({"run", "one.txt", "--keep-bodies"});
    EXPECT_EQ(end.exit, 78) << end.err;
    EXPECT_THAT(end.err, AllOf(HasSubstr(variable), HasSubstr("reason=proxy_refused")));
    EXPECT_EQ(at.status()["deferred"], 1);
    at.expect_no_password(end);
    if (std::string_view(endpoint).starts_with("https")) {
      EXPECT_THAT(proxy.received(), Not(HasSubstr(test_key)));
    }
  }
}

TEST(BehindAProxy, ALocalEndpointIsReachedDirectly) {
  raw_server proxy(
      {{read_request(), send_bytes(with_length("no", "502 Bad Gateway")), close_it()}});
  const fixtures::fake_endpoint endpoint(unlimited());
  proxied_desk at(proxy, endpoint.url());
  EXPECT_EQ(at.sluice({"run", "one.txt"}).exit, 0);
  EXPECT_EQ(proxy.connections(), 0U);
  // Unless the user says otherwise.
  const std::string url = "http://127.0.0.1:" + std::to_string(proxy.port());
  EXPECT_EQ(at.sluice({"run", "one.txt", "--again", "--proxy", url}).exit, 3);
  EXPECT_GE(proxy.connections(), 1U);
}

TEST(BehindAProxy, AProxyThatCannotBeUsedIsAConfigurationError) {
  raw_server proxy(std::vector<script>{script()});
  proxied_desk at(proxy, "https://llm.example/v1");
  at.environment["https_proxy"] = std::string("socks5://user:") + password + "@127.0.0.1:1";
  const process_end end = at.sluice({"run", "one.txt"});
  EXPECT_EQ(end.exit, 78);
  EXPECT_THAT(end.err, HasSubstr("https_proxy"));
  at.expect_no_password(end);
}

}  // namespace
}  // namespace sluice
