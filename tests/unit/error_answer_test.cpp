// What error answers mean: one row per status, per code and per dialect.
#include "tests/support/answers.hpp"

#include <gtest/gtest.h>

namespace sluice::provider {
namespace {
using namespace std::chrono_literals;
using retry::reason;

TEST(Answer, EveryStatusHasItsReasonWhateverTheBody) {
  const std::pair<int, reason> rows[] = {
      {300, reason::redirected},
      {301, reason::redirected},
      {302, reason::redirected},
      {303, reason::redirected},
      {307, reason::redirected},
      {308, reason::redirected},
      {400, reason::bad_request},
      {401, reason::key_refused},
      {402, reason::billing},
      {403, reason::forbidden},
      {404, reason::not_found},
      {405, reason::method_refused},
      {406, reason::bad_request},
      {407, reason::proxy_refused},
      {408, reason::server_error},
      {409, reason::server_error},
      {410, reason::bad_request},
      {413, reason::too_large},
      {414, reason::bad_request},
      {415, reason::method_refused},
      {418, reason::bad_request},
      {422, reason::bad_request},
      {425, reason::server_error},
      {429, reason::rate_limited},
      {431, reason::bad_request},
      {451, reason::bad_request},
      {498, reason::server_error},
      {499, reason::server_error},
      {500, reason::server_error},
      {501, reason::server_error},
      {502, reason::server_error},
      {503, reason::server_error},
      {504, reason::server_error},
      {520, reason::server_error},
      {521, reason::server_error},
      {522, reason::server_error},
      {523, reason::server_error},
      {524, reason::server_error},
      {529, reason::server_error},
      {599, reason::server_error},
      {0, reason::malformed_response},
      {100, reason::malformed_response},
      {600, reason::malformed_response},
      {999, reason::malformed_response},
      {-1, reason::malformed_response},
  };
  const std::string bodies[] = {"",
                                "{}",
                                "null",
                                "[]",
                                "plain words",
                                "<html><body>Error</body></html>",
                                R"({"error":{"message":"m","type":null,"code":null}})",
                                R"({"error":"m"})",
                                R"({"error":{"message":"cut off)",
                                "\xFF\xFE",
                                saying("\"ok\"")};
  for (const auto& [status, expected] : rows)
    for (const std::string& body : bodies) {
      const attempt_report got = read(status, body);
      EXPECT_EQ(got.signal.why, expected) << status << " " << body;
      EXPECT_EQ(got.signal.status, status);
      EXPECT_EQ(got.text, "");
      EXPECT_FALSE(got.signal.may_have_been_billed);
    }
}

struct row {
  int status;
  std::string_view body;
  reason expected;
};

void check(const row& r) {
  EXPECT_EQ(why(r.status, std::string(r.body)), r.expected) << r.status << " " << r.body;
}

TEST(Answer, CodesAndTypesDecideWhereTheStatusLeavesItOpen) {
  const struct {
    int status;
    std::string_view code;
    reason expected;
  } rows[] = {
      {429, "insufficient_quota", reason::billing},
      {429, "billing_hard_limit_reached", reason::billing},
      {429, "insufficient_balance", reason::billing},
      {400, "billing_hard_limit", reason::billing},
      {401, "insufficient_quota", reason::billing},
      {403, "insufficient_quota", reason::billing},
      {500, "insufficient_quota", reason::billing},
      {429, "rate_limit_exceeded", reason::rate_limited},
      {429, "some_new_code", reason::rate_limited},
      {429, "overloaded_error", reason::rate_limited},
      {429, "daily_limit_exceeded", reason::daily_limit},
      {429, "requests_per_day", reason::daily_limit},
      {429, "context_length_exceeded", reason::too_large},
      {400, "rate_limit_exceeded", reason::rate_limited},
      {400, "context_length_exceeded", reason::too_large},
      {422, "context_length_exceeded", reason::too_large},
      {400, "exceed_context_size_error", reason::too_large},
      {413, "rate_limit_exceeded", reason::too_large},
      {400, "content_filter", reason::content_filter},
      {400, "ResponsibleAIPolicyViolation", reason::content_filter},
      {400, "content_policy_violation", reason::content_filter},
      {403, "content_policy_violation", reason::content_filter},
      {400, "invalid_api_key", reason::key_refused},
      {403, "invalid_api_key", reason::key_refused},
      {400, "API_KEY_INVALID", reason::key_refused},
      {400, "model_not_found", reason::not_found},
      {404, "model_not_found", reason::not_found},
      {403, "unsupported_country_region_territory", reason::forbidden},
      {400, "overloaded_error", reason::server_error},
      {400, "server_error", reason::server_error},
      {422, "server_error", reason::server_error},
      {404, "invalid_request_error", reason::not_found},
      {503, "rate_limit_exceeded", reason::server_error},
      {502, "context_length_exceeded", reason::server_error},
      {405, "invalid_api_key", reason::method_refused},
  };
  for (const auto& r : rows) {
    EXPECT_EQ(why(r.status, error_with(r.code)), r.expected) << r.status << " code " << r.code;
    const std::string type =
        R"({"error":{"message":"m","code":null,"type":")" + std::string(r.code) + "\"}}";
    EXPECT_EQ(why(r.status, type), r.expected) << r.status << " type " << r.code;
    const std::string bare = R"({"message":"m","code":")" + std::string(r.code) + "\"}";
    EXPECT_EQ(why(r.status, bare), r.expected) << r.status << " bare " << r.code;
  }
}

TEST(Answer, EveryDialectIsKnownByItsWords) {
  const row rows[] = {
      // Sizes.
      {400,
       R"({"error":{"message":"This model's maximum context length is 4097 tokens. However, your messages resulted in 5000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}})",
       reason::too_large},
      {400,
       R"({"object":"error","message":"This model's maximum context length is 2048 tokens.","type":"BadRequestError","param":null,"code":400})",
       reason::too_large},
      {400,
       R"({"error":{"message":"The decoder prompt (length 9000) is longer than the maximum model length of 8192.","type":"BadRequestError","code":400}})",
       reason::too_large},
      {400,
       R"({"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}})",
       reason::too_large},
      {400, R"({"error":{"message":"input length exceeds the context length","type":"api_error"}})",
       reason::too_large},
      {400, R"({"error":"input length exceeds maximum context length"})", reason::too_large},
      {400,
       R"({"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}})",
       reason::too_large},
      {400,
       R"({"error":{"message":"input length and `max_tokens` exceed context limit: 150000 + 60000 > 200000"}})",
       reason::too_large},
      {400, R"({"error":{"message":"150000 + 60000 > 200000"}})", reason::too_large},
      {400, R"({"error":{"message":"150000 + 40000 > 200000"}})", reason::bad_request},
      {400,
       R"([{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}])",
       reason::too_large},
      {422,
       R"({"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096","error_type":"validation"})",
       reason::too_large},
      {429,
       R"({"error":{"message":"Request too large for gpt-x in organization o on tokens per min (TPM): Limit 10000, Requested 12000.","type":"tokens","code":"rate_limit_exceeded"}})",
       reason::too_large},
      {413,
       R"({"error":{"message":"Request too large for model `m`: TPM Limit 6000, Requested 7000","type":"tokens","code":"rate_limit_exceeded"}})",
       reason::too_large},
      // Limits of a minute.
      {429,
       R"({"error":{"message":"Rate limit reached for m on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s.","type":"requests","code":"rate_limit_exceeded"}})",
       reason::rate_limited},
      {429,
       R"([{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota, please check your plan and billing details.","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},{"retryDelay":"34s"}]}}])",
       reason::rate_limited},
      {429, R"({"error":{"message":"rate quota, retry in 5s"}})", reason::rate_limited},
      {429, R"({"error":{"message":"20 requests per minute and 200 requests per day are free"}})",
       reason::rate_limited},
      // Limits of a day.
      {429,
       R"({"error":{"message":"Rate limit reached for model `m` on requests per day (RPD): Limit 1000, Used 1000, Requested 1. Please try again in 1m26.4s.","type":"requests","code":"rate_limit_exceeded"}})",
       reason::daily_limit},
      {429,
       R"({"error":{"message":"Rate limit reached on tokens per day (TPD): Limit 100000, Used 99000, Requested 1200.","type":"tokens","code":"rate_limit_exceeded"}})",
       reason::daily_limit},
      {429, R"({"error":{"message":"RPD budget hit"}})", reason::daily_limit},
      {429, R"({"error":{"message":"Rate limit exceeded: free-models-per-day","code":429}})",
       reason::daily_limit},
      {429,
       R"([{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"quota","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}])",
       reason::daily_limit},
      {429, R"({"error":{"message":"Rate limit of 50 per 86400s exceeded for UserByModelByDay."}})",
       reason::daily_limit},
      // Money.
      {400,
       R"({"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}})",
       reason::billing},
      {403,
       R"({"code":"x","error":"Your team has either used all available credits or reached its limit."})",
       reason::billing},
      {400, R"({"error":{"message":"the quota of the field is 5"}})", reason::bad_request},
      // Keys and permissions.
      {400,
       R"([{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}])",
       reason::key_refused},
      {400,
       R"([{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}])",
       reason::forbidden},
      {403, R"([{"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}])",
       reason::forbidden},
      // Moderation.
      {403,
       R"({"error":{"code":403,"message":"Your input was flagged","metadata":{"reasons":["violence"],"flagged_input":"x"}}})",
       reason::content_filter},
      {400,
       R"({"error":{"message":"Content Exists Risk","type":"invalid_request_error","code":"invalid_request_error"}})",
       reason::content_filter},
      // Models.
      {400, R"({"error":{"message":"Model Not Exist","type":"invalid_request_error"}})",
       reason::not_found},
      {400, R"({"error":{"message":"foo/bar is not a valid model ID","code":400}})",
       reason::not_found},
      {404,
       R"({"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error"}})",
       reason::not_found},
      // Loading.
      {503, R"({"error":{"code":503,"message":"Loading model","type":"unavailable_error"}})",
       reason::server_loading},
      {503, R"({"error":"Model x is currently loading","estimated_time":20.5})",
       reason::server_loading},
      // Requests.
      {422,
       R"({"detail":[{"loc":["body","max_tokens"],"msg":"must be positive","type":"value_error"}]})",
       reason::bad_request},
  };
  for (const row& r : rows) check(r);
}

}  // namespace
}  // namespace sluice::provider
