// The gate's status page: what came from callers is text, and the chart says what happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/gate/caller_checks.hpp"
#include "app/gate/page.hpp"

namespace sluice::app {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

std::size_t count(const std::string& in, const std::string& what) {
  std::size_t n = 0;
  for (auto at = in.find(what); at != std::string::npos; at = in.find(what, at + 1)) ++n;
  return n;
}

TEST(GatePage, ShowsHostileJobNamesAsText) {
  page_figures f;
  f.line = {{R"(<script>alert("x")</script>)", 2}, {"a&b 'c' \"d\"", 1}, {"</bdi><img src=x>", 3}};
  const std::string page = status_page(f);
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;</bdi>"));
  EXPECT_THAT(page,
              HasSubstr("a&amp;b &#39;c&#39; &quot;d&quot;</bdi></td><td class=\"n\">1</td>"));
  EXPECT_THAT(page, HasSubstr("&lt;/bdi&gt;&lt;img src=x&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
}

TEST(GatePage, SaysSoWhenThereIsNothing) {
  const std::string page = status_page({});
  EXPECT_THAT(page, HasSubstr("Nobody is waiting."));
  EXPECT_THAT(page, HasSubstr("There is no limit."));
  EXPECT_THAT(page, HasSubstr("No cool-down."));
  EXPECT_THAT(page, HasSubstr("<b id=\"in-flight\">0</b></p>"));
  EXPECT_THAT(page, HasSubstr("<b id=\"calls\">0</b>"));
  EXPECT_EQ(count(page, "<rect"), 0U);
}

TEST(GatePage, ShowsBudgetPlacesAndCoolDown) {
  page_figures f;
  f.limits = {{"10/60s", 7, 10}, {"9tok/1s", 12, 9}};
  f.in_flight = 3;
  f.max_in_flight = 8;
  f.cool_down = 12500ms;
  const std::string page = status_page(f);
  EXPECT_THAT(page, HasSubstr("7 of 10</td><td><meter min=\"0\" max=\"10\" value=\"7\">"));
  EXPECT_THAT(page, HasSubstr("12 of 9</td><td><meter min=\"0\" max=\"9\" value=\"9\">"));
  EXPECT_THAT(page, HasSubstr("<b id=\"in-flight\">3</b> of 8"));
  EXPECT_THAT(page, HasSubstr("nobody is admitted for 12.5 s"));
}

TEST(GatePage, TheChartHasABarForEachMinuteInWhichSomethingHappened) {
  page_figures f;
  f.hour[0] = {10, 0};
  f.hour[58] = {40, 1};
  f.hour[59] = {20, 40};
  const std::string page = status_page(f);
  EXPECT_THAT(page, HasSubstr("<b id=\"calls\">70</b>"));
  EXPECT_THAT(page, HasSubstr("<b id=\"refused\">41</b>"));
  EXPECT_EQ(count(page, "<rect"), 5U);
  EXPECT_THAT(page, HasSubstr("<rect class=\"calls\" x=\"1\" y=\"90\" width=\"8\" height=\"30\">"
                              "<title>59 min ago: 10 calls"));
  EXPECT_THAT(page, HasSubstr("<rect class=\"calls\" x=\"581\" y=\"0\" width=\"8\" height=\"120\">"
                              "<title>1 min ago: 40 calls"));
  EXPECT_THAT(page, HasSubstr("<rect class=\"refused\" x=\"583\" y=\"117\" width=\"4\""));
  EXPECT_THAT(page, HasSubstr("<rect class=\"refused\" x=\"593\" y=\"0\" width=\"4\""));
}

TEST(GatePage, ALongLineIsCutAndSaysSo) {
  page_figures f;
  for (int i = 0; i < 103; ++i) f.line.emplace_back("job" + std::to_string(i), 1);
  const std::string page = status_page(f);
  EXPECT_EQ(count(page, "<bdi>"), 100U);
  EXPECT_THAT(page, HasSubstr("and 3 jobs more"));
}

TEST(GatePage, FetchesNothingAndRunsNothing) {
  const std::string page = status_page({});
  for (const char* bad : {"http://", "https://", "src=", "href=", "url(", "<script", "style=\""})
    EXPECT_THAT(page, Not(HasSubstr(bad)));
  EXPECT_THAT(page_policy(), HasSubstr("default-src 'none'; style-src 'sha256-"));
  EXPECT_THAT(page_policy(), Not(HasSubstr("unsafe")));
}

TEST(GateHour, CountsByTheMinuteAndForgetsAfterAnHour) {
  pipeline::gate_hour hour;
  const instant start{90min};
  hour.call(start);
  hour.call(start + 59s);
  hour.call(start + 60s);
  hour.rate_limited(start + 61s);
  const auto now = hour.up_to(start + 60s);
  EXPECT_EQ(now[58], (pipeline::gate_hour::minute{2, 0}));
  EXPECT_EQ(now[59], (pipeline::gate_hour::minute{1, 1}));
  EXPECT_EQ(hour.up_to(start + 59min)[0].calls, 2U);
  EXPECT_EQ(hour.up_to(start + 60min)[0].calls, 1U);
  EXPECT_EQ(hour.up_to(start + 62min)[0].calls, 0U);
  hour.call(start + 60min);
  EXPECT_EQ(hour.up_to(start + 60min)[59].calls, 1U);
}

TEST(GateCallers, ThePageTakesTheTokenAsAPassword) {
  caller_rules rules;
  rules.token = "0123456789abcdef";
  rules.hosts = {"localhost"};
  caller who;
  who.host = "localhost";
  who.target = "/";
  const auto with = [&](std::string_view authorization) {
    who.authorization = authorization;
    const auto refused = check_caller(who, rules);
    return refused ? refused->status : 200;
  };
  EXPECT_EQ(with("Basic YW55Ym9keTowMTIzNDU2Nzg5YWJjZGVm"), 200);  // anybody:0123456789abcdef
  EXPECT_EQ(with("basic OjAxMjM0NTY3ODlhYmNkZWY="), 200);          // :0123456789abcdef
  EXPECT_EQ(with("Basic OjAxMjM0NTY3ODlhYmNkZWZn"), 401);          // one byte more
  EXPECT_EQ(with("Basic MDEyMzQ1Njc4OWFiY2RlZg=="), 401);          // no colon
  for (const char* bad : {"", "Basic", "Basic ", "Basic ====", "Basic !!!!", "Basic OjAx="})
    EXPECT_EQ(with(bad), 401) << bad;
  who.target = "/v1/slots";
  EXPECT_EQ(with("Basic YW55Ym9keTowMTIzNDU2Nzg5YWJjZGVm"), 401);
}

}  // namespace
}  // namespace sluice::app
