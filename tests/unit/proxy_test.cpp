// Which proxy is taken, from the variables and from the user's own word.
#include "provider/proxy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace sluice::provider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using variables = std::map<std::string, std::string>;

std::optional<proxy> chosen(const std::string& url, variables set, const std::string& wanted = "") {
  return proxy_for(parse_base_url(url), wanted,
                   [&set](const char* name) -> std::optional<std::string> {
                     const auto it = set.find(name);
                     if (it == set.end()) return std::nullopt;
                     return it->second;
                   });
}

std::string where(const std::optional<proxy>& p) {
  return p ? p->host_and_port() : "direct";
}

TEST(Proxy, TheVariableOfTheSchemeDecides) {
  const variables all{{"HTTPS_PROXY", "http://a:1"}, {"HTTP_PROXY", "b:2"}, {"ALL_PROXY", "c:3"}};
  EXPECT_EQ(where(chosen("https://llm.example/v1", all)), "a:1");
  EXPECT_EQ(where(chosen("http://llm.example/v1", all)), "b:2");
  EXPECT_EQ(where(chosen("http://llm.example/v1", {{"HTTPS_PROXY", "a:1"}})), "direct");
  EXPECT_EQ(where(chosen("http://llm.example/v1", {{"all_proxy", "c:3"}})), "c:3");
  EXPECT_EQ(chosen("https://llm.example/v1", all)->source, "HTTPS_PROXY");
}

TEST(Proxy, LowerCaseComesFirstAndEmptyMeansNone) {
  EXPECT_EQ(where(chosen("https://l.example", {{"https_proxy", "a:1"}, {"HTTPS_PROXY", "b:2"}})),
            "a:1");
  EXPECT_EQ(where(chosen("https://l.example", {{"https_proxy", ""}, {"HTTPS_PROXY", "b:2"}})),
            "direct");
  EXPECT_EQ(where(chosen("https://l.example", {{"https_proxy", " "}, {"ALL_PROXY", "b:2"}})),
            "direct");
}

TEST(Proxy, LoopbackIsReachedDirectlyUnlessToldOtherwise) {
  const variables all{{"https_proxy", "a:1"}, {"http_proxy", "a:1"}, {"all_proxy", "a:1"}};
  for (const char* url : {"http://localhost:8000/v1", "http://127.0.0.1:8000/v1",
                          "https://127.8.9.1/v1", "http://[::1]:8000/v1"}) {
    EXPECT_EQ(where(chosen(url, all)), "direct") << url;
    EXPECT_EQ(where(chosen(url, all, "http://p:9")), "p:9") << url;
  }
}

TEST(Proxy, TheUsersWordOutranksTheVariables) {
  const variables all{{"https_proxy", "a:1"}, {"no_proxy", "*"}};
  EXPECT_EQ(where(chosen("https://l.example", all, "http://p:9")), "p:9");
  EXPECT_EQ(where(chosen("https://l.example", {{"https_proxy", "a:1"}}, "none")), "direct");
}

TEST(Proxy, IsReadInAllItsForms) {
  const std::pair<const char*, const char*> rows[] = {
      {"http://Proxy.Corp:3128", "proxy.corp:3128"},
      {"proxy.corp:3128/", "proxy.corp:3128"},
      {"proxy.corp", "proxy.corp:1080"},
      {"http://[::1]:3128", "[::1]:3128"},
      {"HTTP://10.0.0.1:8/", "10.0.0.1:8"},
      {" http://a:1 ", "a:1"},
  };
  for (const auto& [text, expected] : rows)
    EXPECT_EQ(where(chosen("https://l.example", {{"https_proxy", text}})), expected) << text;
}

TEST(Proxy, CredentialsAreDecodedAndSentAsBasic) {
  const auto p = chosen("https://l.example", {{"https_proxy", "http://us%65r:p%40ss@a:1"}});
  EXPECT_EQ(p->authorization, "Basic dXNlcjpwQHNz");  // user:p@ss
  EXPECT_EQ(p->password, "p@ss");
  EXPECT_EQ(p->host_and_port(), "a:1");
  // Not encoded as it should be, but clear.
  EXPECT_EQ(chosen("https://l.example", {{"https_proxy", "http://user:p@ss@a:1"}})->password,
            "p@ss");
  EXPECT_EQ(chosen("https://l.example", {{"https_proxy", "http://user@a:1"}})->authorization,
            "Basic dXNlcjo=");
}

TEST(Proxy, WhatCannotBeUsedIsNamedWithoutItsPassword) {
  for (const char* bad :
       {"socks5://user:geheim@a:1", "https://user:geheim@a:1", "http://user:geheim@a:0",
        "http://user:geheim@a:65536", "http://user:geheim@", "http://user:geheim@a b:1",
        "http://user:geheim%0d%0a@a:1", "http://user:geheim%zz@a:1", "http://user:geheim@[::1"}) {
    try {
      chosen("https://l.example", {{"HTTPS_PROXY", bad}});
      FAIL() << bad;
    } catch (const std::invalid_argument& e) {
      EXPECT_THAT(e.what(), HasSubstr("HTTPS_PROXY"));
      EXPECT_THAT(e.what(), HasSubstr("NO_PROXY"));
      EXPECT_THAT(e.what(), Not(HasSubstr("geheim")));
    }
  }
}

TEST(Proxy, NoProxyNamesHostsInEveryUsualWay) {
  struct row {
    const char* list;
    const char* host;
    bool named;
  };
  const row rows[] = {
      {"*", "llm.example", true},
      {"llm.example", "llm.example", true},
      {".example", "llm.example", true},
      {"*.example", "llm.example", true},
      {"example", "llm.example", true},
      {"EXAMPLE", "llm.example", true},
      {"ample", "llm.example", false},
      {"llm.example.", "llm.example", true},
      {"a.b, llm.example ,c", "llm.example", true},
      {"a.b llm.example", "llm.example", true},
      {"llm.example:443", "llm.example", true},
      {"llm.example:8443", "llm.example", false},
      {"", "llm.example", false},
      {",,", "llm.example", false},
      {"10.0.0.5", "10.0.0.5", true},
      {"10.0.0.5:443", "10.0.0.5", true},
      {"0.0.5", "10.0.0.5", false},
      {"10.0.0.0/8", "10.1.2.3", true},
      {"10.0.0.0/8", "11.1.2.3", false},
      {"10.0.0.0/33", "10.1.2.3", false},
      {"10.0.0.0/8", "llm.example", false},
      {"fd00::/8", "fd12::1", true},
      {"fd00::/8", "fe80::1", false},
      {"[fd12::1]", "fd12::1", true},
      {"fd12:0:0::1", "fd12::1", true},
      {"[fd12::1]:443", "fd12::1", true},
      {"[fd12::1]:80", "fd12::1", false},
  };
  for (const row& r : rows)
    EXPECT_EQ(named_by_no_proxy(r.list, r.host, 443), r.named) << r.list << " " << r.host;
}

}  // namespace
}  // namespace sluice::provider
