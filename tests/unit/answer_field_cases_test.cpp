// Bug reports from the field that concern the meaning of an answer, by their titles.
#include "tests/support/answers.hpp"

#include <gtest/gtest.h>

namespace sluice::provider {
namespace {
using namespace std::chrono_literals;
using retry::reason;

std::string chat_error(std::string_view message) {
  return R"({"error":{"message":")" + std::string(message) + "\"}}";
}

TEST(FieldCase, N1RetryAfterAsHttpDateCrashesTheRun) {
  const auto got = read(429, error_with("rate_limit_exceeded", "slow down"),
                        {{"date", "Tue, 03 Mar 2026 02:00:00 GMT"},
                         {"retry-after", "Tue, 03 Mar 2026 02:00:42 GMT"}});
  EXPECT_EQ(got.signal.why, reason::rate_limited);
  EXPECT_EQ(got.signal.hint, 42s);
}

TEST(FieldCase, N2RetryAfterWithAFractionSilentlyDropped) {
  EXPECT_EQ(read(429, chat_error("rate limited"), {{"retry-after", "1.5"}}).signal.hint, 1500ms);
}

TEST(FieldCase, N3NegativeRetryAfterReachesSleep) {
  EXPECT_EQ(read(429, chat_error("busy"), {{"retry-after", "-1"}}).signal.hint, duration::zero());
}

TEST(FieldCase, N4RetryAfterZeroOrPastDateCancelsAllBackoff) {
  EXPECT_EQ(read(503, chat_error("overloaded"), {{"retry-after", "0"}}).signal.hint,
            duration::zero());
  EXPECT_EQ(read(503, "", {{"retry-after", "Tue, 03 Mar 2026 01:59:57 GMT"}}).signal.hint,
            duration::zero());
  EXPECT_FALSE(read(503, chat_error("overloaded")).signal.hint);
}

TEST(FieldCase, N5RetryAfterOfDays) {
  const auto got = read(429, R"({"error":{"message":"usage limit reached","type":"usage_limit"}})",
                        {{"retry-after", "259200"}});
  EXPECT_EQ(got.signal.why, reason::rate_limited);
  EXPECT_EQ(got.signal.hint, 72h);
}

TEST(FieldCase, N7AbsurdRetryAfterOverflowsTheTimer) {
  for (const char* absurd : {"9999999999", "Fri, 31 Dec 99999 23:59:59 GMT", "1e308", "nan", "inf"})
    EXPECT_EQ(read(429, "{}", {{"retry-after", absurd}}).signal.hint, retry::longest_hint)
        << absurd;
}

TEST(FieldCase, N9Azure429WithOnlyATokenBucketResetHeader) {
  const auto got = read(429, R"({"error":{"code":"429","message":"exceeded token rate limit"}})",
                        {{"x-rate-limit-reset-tokens", "55"},
                         {"x-ratelimit-remaining-requests", "118"},
                         {"policy-id", "DeploymentRatelimit-Token"}});
  EXPECT_EQ(got.signal.why, reason::rate_limited);
  EXPECT_EQ(got.signal.hint, 55s);
}

TEST(FieldCase, N10ResetHeadersAsGoStyleDurationsIsoTimeOrEpoch) {
  const std::pair<const char*, duration> rows[] = {{"1m30s", 90s},
                                                   {"6m0s", 360s},
                                                   {"2m59.56s", 179560ms},
                                                   {"500ms", 500ms},
                                                   {"2026-03-03T02:01:00Z", 60s},
                                                   {"1772503260", 60s},
                                                   {"1772503260000", 60s},
                                                   {"60", 60s}};
  for (const auto& [value, wait] : rows)
    EXPECT_EQ(read(429, "",
                   {{"x-ratelimit-remaining-requests", "0"},
                    {"x-ratelimit-reset-requests", value},
                    {"x-ratelimit-remaining-tokens", "5000"},
                    {"x-ratelimit-reset-tokens", "20ms"}})
                  .signal.hint,
              wait)
        << value;
}

TEST(FieldCase, N11SameHeaderNameDifferentWindow) {
  const auto got = read(
      200, saying("\"ok\""),
      {{"x-ratelimit-remaining-requests", "14370"}, {"x-ratelimit-reset-requests", "2m59.56s"}});
  EXPECT_EQ(got.signal.why, reason::ok);
  EXPECT_FALSE(got.signal.hint);
}

TEST(FieldCase, N12WaitTimeOnlyInTheMessageText) {
  const std::pair<const char*, duration> rows[] = {{"try again in 4.25s", 4250ms},
                                                   {"try again in 850ms", 850ms},
                                                   {"try again in 1m12.5s", 72500ms},
                                                   {"try again in 1h12m3s", 4323s},
                                                   {"retry after 45 seconds", 45s}};
  for (const auto& [words, wait] : rows) {
    const auto got = read(
        429,
        R"({"error":{"message":"TPM budget hit: Limit 12000, Used 9800, Requested 3300. Please )" +
            std::string(words) + R"(.","type":"tokens","code":"rate_limit_exceeded"}})");
    EXPECT_EQ(got.signal.why, reason::rate_limited) << words;
    EXPECT_EQ(got.signal.hint, wait) << words;
  }
}

TEST(FieldCase, N14XShouldRetryOverridesTheStatusCode) {
  EXPECT_EQ(read(503, chat_error("upstream retries exhausted"), {{"x-should-retry", "false"}})
                .signal.should_retry,
            false);
  EXPECT_EQ(read(400, "", {{"x-should-retry", "true"}}).signal.should_retry, true);
}

TEST(FieldCase, N16InsufficientQuotaIsA429ThatNeverRecovers) {
  EXPECT_EQ(
      why(429,
          R"({"error":{"message":"account quota used up","type":"insufficient_quota","param":null,"code":"insufficient_quota"}})"),
      reason::billing);
}

TEST(FieldCase, N17QuotaErrorDressedAsHttp400ByAGateway) {
  EXPECT_EQ(
      why(400,
          R"({"error":{"message":"insufficientquota: balance used up","type":"invalid_request_error"}})"),
      reason::billing);
  EXPECT_EQ(why(429, chat_error("rate quota, retry in 5s")), reason::rate_limited);
}

TEST(FieldCase, N18DailyLimitResetInHours) {
  const auto got = read(
      429,
      R"({"error":{"message":"free-models-per-day limit hit","code":429,"metadata":{"limit_source":"free_tier_daily","headers":{"X-RateLimit-Limit":"50","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1772582400000"}}}})");
  EXPECT_EQ(got.signal.why, reason::daily_limit);
  EXPECT_EQ(got.signal.hint, 22h);
  EXPECT_EQ(read(429, chat_error("limit hit, resets after 11h20m5s")).signal.hint,
            11h + 20min + 5s);
}

TEST(FieldCase, N20OneRequestLargerThanTheWholeMinutesTokenBudget) {
  const auto got = read(
      429,
      R"({"error":{"message":"request too big for TPM: Limit 20000, Requested 250000","type":"tokens","code":"rate_limit_exceeded"}})");
  EXPECT_EQ(got.signal.why, reason::too_large);
  EXPECT_NE(got.detail.find("Limit 20000, Requested 250000"), std::string::npos);
  EXPECT_EQ(
      why(429, chat_error("TPM: Limit 6000, Used 0, Requested ~11000. Please try again in 48.3s")),
      reason::too_large);
}

TEST(FieldCase, N22OverloadedErrorOutsideTheUsualStatusList) {
  for (const int status : {529, 200, 500})
    EXPECT_EQ(why(status,
                  R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})"),
              reason::server_error)
        << status;
  EXPECT_EQ(why(498, chat_error("at capacity, try again later")), reason::server_error);
}

TEST(FieldCase, N23KeyRefused) {
  EXPECT_EQ(
      why(401,
          R"({"error":{"message":"Incorrect API key provided: sk-ab***yz","type":"invalid_request_error","code":"invalid_api_key"}})"),
      reason::key_refused);
}

TEST(FieldCase, N24BalanceUsedUpInMidBatch) {
  EXPECT_EQ(
      why(402,
          R"({"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}})"),
      reason::billing);
}

TEST(FieldCase, N25NotFoundBecauseOfTheBaseUrl) {
  for (const char* body : {R"({"error":{"message":"no such URL","type":"invalid_request_error"}})",
                           "<html>404 nginx</html>", ""})
    EXPECT_EQ(why(404, body), reason::not_found) << body;
}

TEST(FieldCase, N27ContentPolicy400IsPerDocument) {
  EXPECT_EQ(
      why(400,
          R"({"error":{"message":"filtered by content policy","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}})"),
      reason::content_filter);
  EXPECT_EQ(
      why(400,
          R"({"error":{"message":"m","type":null,"code":null,"innererror":{"code":"ResponsibleAIPolicyViolation"}}})"),
      reason::content_filter);
}

TEST(FieldCase, N28DocumentOverTheContextWindow) {
  const auto got = read(
      400,
      R"({"error":{"message":"context limit 100000 tokens, request has 100700","code":"context_length_exceeded"}})");
  EXPECT_EQ(got.signal.why, reason::too_large);
  EXPECT_NE(got.detail.find("100700"), std::string::npos);
  EXPECT_EQ(why(413, ""), reason::too_large);
}

TEST(FieldCase, N29MethodTypeAndBlockPages) {
  EXPECT_EQ(why(405, ""), reason::method_refused);
  EXPECT_EQ(why(415, ""), reason::method_refused);
  EXPECT_EQ(why(403, "<!DOCTYPE html><title>Blocked</title>", {{"content-type", "text/html"}}),
            reason::forbidden);
  EXPECT_EQ(why(403, R"({"error":{"code":"unsupported_country_region_territory"}})"),
            reason::forbidden);
}

TEST(FieldCase, N30ErrorObjectInsideA200) {
  const auto got = read(
      200,
      R"({"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"{\"error\":{\"message\":\"Internal server error\"}}","provider_name":"x"}},"user_id":"u_1"})");
  EXPECT_EQ(got.signal.why, reason::server_error);
  EXPECT_NE(got.detail.find("Internal server error"), std::string::npos);
}

TEST(FieldCase, N31ChoicesNullOrEmptyWith200) {
  EXPECT_EQ(why(200, R"({"id":null,"object":null,"choices":null,"usage":null})"),
            reason::malformed_response);
  EXPECT_EQ(why(200, R"({"choices":[]})"), reason::malformed_response);
}

TEST(FieldCase, N32FinishReasonStopWithNothingInIt) {
  const auto got = read(
      200,
      R"({"id":"r1","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":0,"completion_tokens":0}})");
  EXPECT_EQ(got.signal.why, reason::empty_response);
  EXPECT_EQ(got.tokens.prompt_tokens, 0);
}

TEST(FieldCase, N33TruncatedAnswerKeepsTextAndCount) {
  const auto got = read(
      200,
      R"({"choices":[{"finish_reason":"length","message":{"content":"{\"title\":\"Inv"}}],"usage":{"completion_tokens":1024}})");
  EXPECT_EQ(got.signal.why, reason::truncated);
  EXPECT_EQ(got.text, "{\"title\":\"Inv");
  EXPECT_EQ(got.tokens.completion_tokens, 1024);
  EXPECT_FALSE(got.tokens.prompt_tokens);
  EXPECT_EQ(why(200, saying("null", "\"length\"")), reason::truncated);
  EXPECT_EQ(why(200, saying("\"\"", "\"length\"")), reason::truncated);
}

TEST(FieldCase, N34ContentFilterWithContentNullOrAbsent) {
  for (const char* message :
       {R"({"role":"assistant"})", R"({"content":null})", R"({"content":"par"})", "null"}) {
    const auto got = read(200, answer_with(message, "\"content_filter\""));
    EXPECT_EQ(got.signal.why, reason::content_filter) << message;
    EXPECT_EQ(got.tokens.completion_tokens, 14);
  }
}

TEST(FieldCase, N36WholeAnswerInReasoningContent) {
  for (const char* field : {"reasoning_content", "reasoning"}) {
    const auto got = read(200, answer_with(R"({"role":"assistant","content":"",")" +
                                           std::string(field) + R"(":"{\"answer\":42}"})"));
    EXPECT_EQ(got.signal.why, reason::empty_response);
    EXPECT_NE(got.detail.find("reasoning_present"), std::string::npos);
  }
}

TEST(FieldCase, N37ThinkBlockInContentIsKept) {
  const auto got = read(200, saying(R"("first I look at...\n</think>\n\n{\"title\":\"A\"}")"));
  EXPECT_EQ(got.signal.why, reason::ok);
  EXPECT_EQ(got.text, "first I look at...\n</think>\n\n{\"title\":\"A\"}");
  EXPECT_EQ(why(200, saying(R"("<think>hm</think>answer")")), reason::ok);
  for (const char* thoughts : {R"("<think>never closed")", R"("<Think lang=en>hm")",
                               R"("\n<think>hm</think>\n ")", R"("hm</think>\n")"})
    EXPECT_EQ(why(200, saying(thoughts)), reason::empty_response) << thoughts;
  EXPECT_EQ(why(200, saying(R"("<thinker>: a statue")")), reason::ok);
}

TEST(FieldCase, N39SseAlthoughStreamFalseWithCommentLines) {
  const auto got = read(
      200,
      ": OPENROUTER PROCESSING\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\ndata: "
      "{\"choices\":[{\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\ndata: "
      "[DONE]\n",
      {{"content-type", "text/event-stream"}});
  EXPECT_EQ(got.signal.why, reason::ok);
  EXPECT_EQ(got.text, "Hello");
  EXPECT_EQ(got.finish_reason, "stop");
}

TEST(FieldCase, N40HtmlPageWith200) {
  const auto got =
      read(200, "<!DOCTYPE html><html><title>Sign in</title>...", {{"content-type", "text/html"}});
  EXPECT_EQ(got.signal.why, reason::not_json);
  EXPECT_NE(got.detail.find("Sign in"), std::string::npos);
}

TEST(FieldCase, N41LoneSurrogateInTheRequestIsAPermanent400) {
  EXPECT_EQ(why(400, R"({"message":"bad JSON: lone surrogate","code":"wrong_api_format"})"),
            reason::bad_request);
}

TEST(FieldCase, N43UsageMissingNullOrNullSubFields) {
  for (const char* usage : {R"(,"usage":{"prompt_tokens":null,"completion_tokens":null})",
                            R"(,"usage":null)", R"(,"usage":{})", ""}) {
    const auto got =
        read(200, R"({"choices":[{"finish_reason":"stop","message":{"content":"ok"}}])" +
                      std::string(usage) + "}");
    EXPECT_EQ(got.signal.why, reason::ok) << usage;
    EXPECT_FALSE(got.tokens.prompt_tokens) << usage;
    EXPECT_FALSE(got.tokens.completion_tokens) << usage;
  }
}

TEST(FieldCase, N45ToolCallsOrRefusalInsteadOfContent) {
  EXPECT_EQ(
      why(200,
          R"({"choices":[{"finish_reason":"tool_calls","message":{"content":null,"tool_calls":[{"id":"c1","function":{"name":"extract","arguments":"{\"name\": \"Jo"}}]}}]})"),
      reason::unexpected_tool_call);
  EXPECT_EQ(why(200, answer_with(R"({"content":null,"tool_calls":[{"id":"c1"}]})")),
            reason::unexpected_tool_call);
  EXPECT_EQ(why(200, answer_with(R"({"content":"ok","tool_calls":[]})")), reason::ok);
  const auto got = read(
      200,
      R"({"choices":[{"finish_reason":"stop","message":{"content":null,"refusal":"I can't help with that"}}]})");
  EXPECT_EQ(got.signal.why, reason::refused);
  EXPECT_EQ(got.text, "I can't help with that");
}

TEST(FieldCase, N51RedirectsOfAPostNameTheirTarget) {
  const auto got = read(301, "", {{"location", "https://llm.example/v1/chat/completions"}});
  EXPECT_EQ(got.signal.why, reason::redirected);
  EXPECT_NE(got.detail.find("https://llm.example/v1/chat/completions"), std::string::npos);
}

TEST(FieldCase, N57CompressedResponseThatWasNotAskedFor) {
  EXPECT_EQ(why(200, "\x1f\x8b\x08",
                {{"content-type", "application/json"}, {"content-encoding", "gzip"}}),
            reason::unsupported_encoding);
}

TEST(FieldCase, N60TransientCodesAmongThePermanent4xx) {
  for (const int status : {408, 409, 425, 499})
    EXPECT_EQ(why(status, ""), reason::server_error) << status;
}

TEST(FieldCase, N80KeyAndDocumentTextInTheLog) {
  const auto got =
      read(400, chat_error("you sent Bearer " + std::string(secret) + std::string(5000, '.')));
  EXPECT_EQ(got.detail.find(secret), std::string::npos);
  EXPECT_LE(got.detail.size(), 200U);
}

}  // namespace
}  // namespace sluice::provider
