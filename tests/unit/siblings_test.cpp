// The kinds behind the field cases: what one dialect was seen to do, as others do it, with other
// forms of the same number and other words for the same wait.
#include <gtest/gtest.h>

#include "provider/hints.hpp"
#include "tests/support/answers.hpp"

namespace sluice::provider {
namespace {

using namespace std::chrono_literals;
using retry::reason;

std::optional<duration> hint_of(headers with, std::string body = "") {
  return read(429, std::move(body), std::move(with)).signal.hint;
}

TEST(Siblings, AHintThatAProxyHasDoubledCountsOnce) {
  EXPECT_EQ(hint_of({{"retry-after", "52"}, {"retry-after", "52"}}), 52s);
  EXPECT_EQ(hint_of({{"retry-after", "52"}, {"retry-after", "54"}}), 54s);
  EXPECT_EQ(hint_of({{"retry-after", "52, 52"}}), 52s);
  EXPECT_EQ(hint_of({{"retry-after", "7, 52"}}), 52s);
}

TEST(Siblings, DurationsOfIso8601AreRead) {
  EXPECT_EQ(hint_of({{"retry-after", "PT30S"}}), 30s);
  EXPECT_EQ(hint_of({{"retry-after", "PT1M30.5S"}}), 90500ms);
  EXPECT_EQ(hint_of({{"x-ratelimit-reset-requests", "PT1H"}}), 1h);
  EXPECT_EQ(hint_of({{"retry-after", "PT"}}), std::nullopt);
  EXPECT_EQ(hint_of({{"retry-after", "P"}}), std::nullopt);
  EXPECT_EQ(hint_of({{"retry-after", "PTT"}}), std::nullopt);
}

TEST(Siblings, TheFieldsOfTheRateLimitDraftsAreRead) {
  EXPECT_EQ(hint_of({{"ratelimit", "limit=10, remaining=0, reset=7"}}), 7s);
  EXPECT_EQ(hint_of({{"ratelimit", "\"default\";r=0;t=7"}}), 7s);
  EXPECT_EQ(hint_of({{"ratelimit", "\"a\";r=5;t=3, \"b\";r=0;t=50"}}), 50s);
  EXPECT_EQ(hint_of({{"ratelimit", "nothing of the kind"}}), std::nullopt);
  EXPECT_EQ(hint_of({{"ratelimit", "\"a\";t=99999999999999999999"}}), retry::longest_hint);
}

TEST(Siblings, OtherWordsForTheSameWait) {
  const std::pair<const char*, duration> rows[] = {
      {"Please retry in 36.484s.", 36484ms},
      {"Please try again in 2 minutes.", 2min},
      {"Try again in 1 hour and 5 minutes", 1h + 5min},
      {"Too many requests. Wait 30 seconds and try again.", 30s},
      {"Rate limited; retry after: 30s", 30s},
      {"Your limit resets in 1 min 30 sec", 90s},
  };
  for (const auto& [words, wait] : rows) EXPECT_EQ(wait_in_words(words), wait) << words;
}

TEST(Siblings, GeminisRetryInfoIsAHint) {
  EXPECT_EQ(
      hint_of(
          {},
          R"([{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"quota","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"36s"}]}}])"),
      36s);
}

TEST(Siblings, ErrorsInsideASuccessInEveryDress) {
  const std::pair<const char*, reason> rows[] = {
      {R"([{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}])",
       reason::server_error},
      {R"({"error":{"code":"429","message":"slow down"}})", reason::rate_limited},
      {R"({"error":{"code":"rate_limit_exceeded","message":"slow down"}})", reason::rate_limited},
      {R"({"error":{"code":"invalid_api_key","message":"no"}})", reason::key_refused},
      {R"({"error":{"type":"insufficient_quota","message":"no"}})", reason::billing},
      {R"({"object":"error","message":"engine died","code":500})", reason::server_error},
      {R"({"code":402,"message":"pay"})", reason::billing},
      {R"({"choices":[{"error":{"code":502,"message":"upstream"},"finish_reason":"error","message":{"content":"par"}}]})",
       reason::server_error},
      {R"({"error":{}})", reason::malformed_response},
      {R"({"error":false,"choices":[{"finish_reason":"stop","message":{"content":"ok"}}]})",
       reason::ok},
      {R"({"error":"","choices":[{"finish_reason":"stop","message":{"content":"ok"}}]})",
       reason::ok},
  };
  for (const auto& [body, expected] : rows) EXPECT_EQ(why(200, body), expected) << body;
}

TEST(Siblings, NumbersOfStatusesThatNobodyAssignedKeepToTheirClass) {
  for (const int status : {505, 521, 523, 527, 530, 561, 598, 599})
    EXPECT_EQ(why(status, ""), reason::server_error) << status;
  for (const int status : {406, 410, 411, 418, 421, 424, 426, 431, 451})
    EXPECT_EQ(why(status, ""), reason::bad_request) << status;
  for (const int status : {0, 99, 600, 999})
    EXPECT_EQ(why(status, ""), reason::malformed_response) << status;
}

TEST(Siblings, PlainHttpOnATlsPortIsASetUpProblemWhoeverSaysSo) {
  EXPECT_EQ(
      why(400, "<html><head><title>400 The plain HTTP request was sent to HTTPS port</title>"),
      reason::method_refused);
  EXPECT_EQ(why(400, "Client sent an HTTP request to an HTTPS server.\n"), reason::method_refused);
  EXPECT_EQ(why(400, "<p>Reason: You're speaking plain HTTP to an SSL-enabled server port.<br>"),
            reason::method_refused);
  // The same words in an answer that is none of those tell nothing.
  EXPECT_EQ(why(200, saying("\"The plain HTTP request was sent to HTTPS port\"")), reason::ok);
}

TEST(Siblings, StreamsThatBreakOffAnywhereArePassingTrouble) {
  const std::string first = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
  const headers stream{{"content-type", "text/event-stream"}};
  EXPECT_EQ(why(200, first, stream), reason::connection_lost);
  EXPECT_EQ(why(200, "", stream), reason::malformed_response);
  EXPECT_EQ(why(200, "data: {\"choices\":[]}\n\n", stream), reason::connection_lost);
  EXPECT_EQ(why(200, first + "data: {\"cho", stream), reason::malformed_response);
  EXPECT_EQ(why(200, "event: ping\ndata: {\"type\":\"ping\"}\n\n", stream),
            reason::unexpected_stream);
  // Ends by its mark, though no finish reason came.
  EXPECT_EQ(why(200, first + "data: [DONE]\n\n", stream), reason::ok);
  EXPECT_EQ(why(200, "\r\n" + first + "data: [DONE]", stream), reason::ok);
}

}  // namespace
}  // namespace sluice::provider
