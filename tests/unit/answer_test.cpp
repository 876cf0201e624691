// What answers mean: one row per status and code, per dialect and per way in which a 200 is no
// success.
#include "provider/answer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <ostream>

#include "retry/random.hpp"

namespace sluice::retry {
void PrintTo(reason r, std::ostream* out) {
  *out << name(r);
}
}  // namespace sluice::retry

namespace sluice::provider {
namespace {
using namespace std::chrono_literals;
using retry::reason;
using headers = std::vector<std::pair<std::string, std::string>>;

constexpr std::string_view secret = "sk-secret-0123456789";
constexpr wall_time two_o_clock =
    wall_time(std::chrono::sys_days(std::chrono::year(2026) / 3 / 3)) + std::chrono::hours(2);

attempt_report read(int status, std::string body, headers with = {}) {
  http_answer a;
  a.status = status;
  a.headers = std::move(with);
  a.body = std::move(body);
  a.received = two_o_clock;
  attempt_report out;
  interpret(a, secret, out);
  return out;
}

reason why(int status, std::string body, headers with = {}) {
  return read(status, std::move(body), std::move(with)).signal.why;
}

std::string answer_with(std::string_view message, std::string_view finish = "\"stop\"") {
  return R"({"id":"r1","choices":[{"index":0,"finish_reason":)" + std::string(finish) +
         R"(,"message":)" + std::string(message) +
         R"(}],"usage":{"prompt_tokens":12,"completion_tokens":14}})";
}

std::string saying(std::string_view content, std::string_view finish = "\"stop\"") {
  return answer_with(R"({"role":"assistant","content":)" + std::string(content) + "}", finish);
}

std::string error_with(std::string_view code, std::string_view message = "m") {
  return R"({"error":{"message":")" + std::string(message) + R"(","type":null,"code":")" +
         std::string(code) + "\"}}";
}

// --- Statuses -----------------------------------------------------------------------------------

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

// --- Hints and other headers --------------------------------------------------------------------

TEST(Answer, ARefusalCarriesItsHintAndWhatItCameFrom) {
  const auto got = read(429, error_with("rate_limit_exceeded"),
                        {{"retry-after", "52"}, {"x-ratelimit-reset-requests", "52s"}});
  EXPECT_EQ(got.signal.hint, 52s);
  EXPECT_EQ(got.hints, "retry-after=52 x-ratelimit-reset-requests=52s");
}

TEST(Answer, ARetryAfterOnASuccessIsIgnored) {
  const auto got = read(200, saying("\"ok\""), {{"retry-after", "52"}});
  EXPECT_EQ(got.signal.why, reason::ok);
  EXPECT_FALSE(got.signal.hint);
}

TEST(Answer, HintsInTheBodyAreFoundWhereTheDialectsPutThem) {
  const std::pair<std::string_view, duration> rows[] = {
      {R"({"error":{"details":[{"retryDelay":"34s"}]}})", 34s},
      {R"([{"error":{"details":[{"violations":[]},{"retryDelay":"34.5s"}]}}])", 34500ms},
      {R"({"error":{"retry_after":7}})", 7s},
      {R"({"error":{"retry_after":1.5}})", 1500ms},
      {R"({"error":{"retry_after":1e400}})", retry::longest_hint},
      {R"({"error":{"retry_after":-1e400}})", 0s},
      {R"({"error":{"retry_after":18446744073709551615}})", retry::longest_hint},
      {R"({"error":{"retry_after_ms":1500}})", 1500ms},
      {R"({"error":{"metadata":{"retry_after_seconds":9}}})", 9s},
      {R"({"error":{"metadata":{"headers":{"Retry-After":"11"}}}})", 11s},
      {R"({"error":{"metadata":{"headers":{"X-RateLimit-Reset":1772503260000}}}})", 60s},
      {R"({"error":{"metadata":{"raw":"busy, please retry in 3s"}}})", 3s},
      {R"({"error":{"resets_in_seconds":90}})", 90s},
      {R"({"retry_after":4})", 4s},
      {R"({"error":{"message":"Please try again in 20s"}})", 20s},
  };
  for (const auto& [body, wait] : rows)
    EXPECT_EQ(read(429, std::string(body)).signal.hint, wait) << body;
  EXPECT_EQ(read(429, "slow down, retry after 5 seconds").signal.hint, 5s);
  EXPECT_EQ(read(503, R"({"error":"currently loading","estimated_time":20.5})").signal.hint,
            20500ms);
}

TEST(Answer, ResetHeadersOfAServerErrorAreNoHint) {
  EXPECT_FALSE(read(500, "", {{"x-ratelimit-reset-tokens", "6m0s"}}).signal.hint);
  EXPECT_EQ(read(500, "", {{"retry-after", "3"}}).signal.hint, 3s);
}

TEST(Answer, ShouldRetryIsTrueOrFalseOrAbsent) {
  const std::pair<std::string, std::optional<bool>> rows[] = {
      {"true", true},      {"false", false},   {"True", std::nullopt},
      {"1", std::nullopt}, {"", std::nullopt}, {"false, true", std::nullopt}};
  for (const auto& [value, expected] : rows)
    for (const int status : {200, 400, 429, 503})
      EXPECT_EQ(read(status, "", {{"x-should-retry", value}}).signal.should_retry, expected)
          << value;
}

TEST(Answer, TheRequestIdIsTakenFromWhicheverHeaderHasIt) {
  for (const char* name : {"x-request-id", "request-id", "apim-request-id", "x-ms-request-id",
                           "x-amzn-requestid", "cf-ray"})
    EXPECT_EQ(read(200, saying("\"ok\""), {{name, "id-1"}}).request_id, "id-1") << name;
  EXPECT_EQ(read(200, saying("\"ok\""), {{"cf-ray", "b"}, {"x-request-id", "a"}}).request_id, "a");
  EXPECT_EQ(read(500, R"({"error":{"message":"m"},"request_id":"req_9"})").request_id, "req_9");
  EXPECT_EQ(read(200, saying("\"ok\"")).request_id, "");
}

// --- Successes ----------------------------------------------------------------------------------

TEST(Answer, ASuccessHasItsTextUsageAndFinishReason) {
  const auto got = read(200, saying(R"("Hello\n\u00e4\ud83d\ude00")"));
  EXPECT_EQ(got.signal.why, reason::ok);
  EXPECT_EQ(got.signal.status, 200);
  EXPECT_FALSE(got.signal.may_have_been_billed);
  EXPECT_EQ(got.text, "Hello\n\xC3\xA4\xF0\x9F\x98\x80");
  EXPECT_EQ(got.finish_reason, "stop");
  EXPECT_EQ(got.tokens.prompt_tokens, 12);
  EXPECT_EQ(got.tokens.completion_tokens, 14);
  EXPECT_EQ(got.detail, "");
  EXPECT_EQ(got.hints, "");
}

TEST(Answer, EveryFinishReasonHasItsMeaning) {
  const std::pair<std::string_view, reason> rows[] = {
      {"\"stop\"", reason::ok},
      {"\"STOP\"", reason::ok},
      {"\"eos\"", reason::ok},
      {"\"eos_token\"", reason::ok},
      {"\"end_turn\"", reason::ok},
      {"\"stop_sequence\"", reason::ok},
      {"null", reason::ok},
      {"\"\"", reason::ok},
      {"\"length\"", reason::truncated},
      {"\"max_tokens\"", reason::truncated},
      {"\"MAX_TOKENS\"", reason::truncated},
      {"\"content_filter\"", reason::content_filter},
      {"\"SAFETY\"", reason::content_filter},
      {"\"refusal\"", reason::refused},
      {"\"tool_calls\"", reason::unexpected_tool_call},
      {"\"function_call\"", reason::unexpected_tool_call},
      {"\"error\"", reason::server_error},
      {"\"insufficient_system_resource\"", reason::server_error},
      {"\"something_new\"", reason::malformed_response},
  };
  for (const auto& [finish, expected] : rows) {
    const auto got = read(200, saying("\"text\"", finish));
    EXPECT_EQ(got.signal.why, expected) << finish;
    EXPECT_EQ(got.text, "text") << finish;
    EXPECT_EQ(got.signal.may_have_been_billed, expected != reason::ok) << finish;
    EXPECT_EQ(got.detail.empty(), expected == reason::ok) << finish;
  }
  EXPECT_EQ(why(200, R"({"choices":[{"message":{"content":"no reason given"}}]})"), reason::ok);
}

TEST(Answer, ContentInPartsIsJoined) {
  const auto got = read(
      200,
      saying(
          R"([{"type":"text","text":"Hel"},{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"reasoning","text":"hm"},{"text":"l","type":"output_text"},"o"])"));
  EXPECT_EQ(got.signal.why, reason::ok);
  EXPECT_EQ(got.text, "Hello");
  EXPECT_EQ(why(200, saying(R"([{"type":"thinking","thinking":"hm"}])")), reason::empty_response);
  EXPECT_EQ(why(200, saying(R"([{"type":"refusal","refusal":"no"}])")), reason::refused);
  EXPECT_EQ(why(200, saying("[]")), reason::empty_response);
}

TEST(Answer, OnlyTheFirstChoiceCounts) {
  const auto got = read(
      200,
      R"({"choices":[{"message":{"content":"a"},"finish_reason":"stop"},{"message":{"content":"b","refusal":"r","tool_calls":[{}]},"finish_reason":"length","error":{"code":500}}]})");
  EXPECT_EQ(got.signal.why, reason::ok);
  EXPECT_EQ(got.text, "a");
  EXPECT_EQ(why(200, R"({"choices":[null,{"message":{"content":"b"}}]})"),
            reason::malformed_response);
}

TEST(Answer, WhiteSpaceAndByteOrderMarkBeforeTheJsonAreSkipped) {
  EXPECT_EQ(read(200, "\xEF\xBB\xBF\r\n \t\n" + saying("\"ok\"")).text, "ok");
  EXPECT_EQ(read(200, "\n\n" + saying("\"ok\"") + "\n").text, "ok");
  EXPECT_EQ(why(429, "\xEF\xBB\xBF " + error_with("insufficient_quota")), reason::billing);
}

TEST(Answer, TheSameKeyTwiceMeansTheLast) {
  const auto got = read(
      200,
      R"({"choices":[{"message":{"content":"x"},"finish_reason":"length"}],"choices":[{"message":{"content":"a","content":"b"},"finish_reason":"stop"}]})");
  EXPECT_EQ(got.signal.why, reason::ok);
  EXPECT_EQ(got.text, "b");
}

TEST(Answer, UsageThatCannotBeIsUnknown) {
  const auto count = [](std::string_view written) {
    const auto got = read(
        200,
        R"({"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":)" +
            std::string(written) + "}}");
    EXPECT_EQ(got.signal.why, reason::ok) << written;
    EXPECT_EQ(got.text, "ok") << written;
    return got.tokens.prompt_tokens;
  };
  EXPECT_EQ(count("7"), 7);
  EXPECT_EQ(count("7.0"), 7);
  EXPECT_EQ(count("0"), 0);
  for (const char* bad : {"-1", "7.5", "null", "\"7\"", "1e30", "1e400", "-1e400",
                          "18446744073709551615", "9223372036854775808", "[]", "{}", "true"})
    EXPECT_EQ(count(bad), std::nullopt) << bad;
}

TEST(Answer, NumbersBeyondDoubleDoNotLoseThePaidAnswer) {
  const auto got = read(
      200,
      R"({"logprob":-1e999,"x":[1e400,9e308],"choices":[{"message":{"content":"keep 1e999"},"finish_reason":"stop"}]})");
  EXPECT_EQ(got.signal.why, reason::ok);
  EXPECT_EQ(got.text, "keep 1e999");
}

// --- A 200 that is none -------------------------------------------------------------------------

TEST(Answer, NothingButACompletionIsASuccess) {
  const std::pair<std::string_view, reason> rows[] = {
      {"", reason::malformed_response},
      {" \r\n", reason::malformed_response},
      {"{}", reason::malformed_response},
      {"[]", reason::malformed_response},
      {"{", reason::malformed_response},
      {R"({"choices":[{"message":{"content":"cut)", reason::malformed_response},
      {R"({"choices":[{"message":{"content":"ok"}}]} trailing)", reason::malformed_response},
      {R"({"choices":[{"message":{"content":"ok"}}]}{})", reason::malformed_response},
      {R"({"choices":{"message":{"content":"ok"}}})", reason::malformed_response},
      {R"({"choices":[{}]})", reason::malformed_response},
      {R"({"choices":[{"message":null}]})", reason::malformed_response},
      {R"({"choices":["ok"]})", reason::malformed_response},
      {R"({"choices":[{"text":"old completion"}]})", reason::malformed_response},
      {R"({"message":{"content":"another API"},"done":true})", reason::malformed_response},
      {R"({"choices":[{"message":{"content":7}}]})", reason::empty_response},
      {R"({"choices":[{"message":{}}]})", reason::empty_response},
      {"null", reason::not_json},
      {"\"ok\"", reason::not_json},
      {"ok", reason::not_json},
      {"<html>", reason::not_json},
      {"{\"choices\":[{\"message\":{\"content\":\"\xFF\"}}]}", reason::malformed_response},
      {"{\"choices\":[{\"message\":{\"content\":\"\xED\xA0\x80\"}}]}", reason::malformed_response},
      {R"({"choices":[{"message":{"content":"\ud83d"}}]})", reason::malformed_response},
  };
  for (const auto& [body, expected] : rows) {
    const auto got = read(200, std::string(body));
    EXPECT_EQ(got.signal.why, expected) << body;
    EXPECT_TRUE(got.signal.may_have_been_billed) << body;
    EXPECT_FALSE(got.detail.empty() && !body.empty()) << body;
  }
  EXPECT_EQ(why(204, ""), reason::malformed_response);
}

TEST(Answer, BlankTextIsNeverASuccess) {
  for (const char* blank :
       {R"("")", R"(" \n\t ")", R"("\u00a0")", R"("\u200b\ufeff\u3000")", R"("\u0000")", "null"})
    EXPECT_EQ(why(200, saying(blank)), reason::empty_response) << blank;
}

TEST(Answer, ErrorsInsideASuccessCountAsTheirOwnStatus) {
  const std::pair<std::string_view, reason> rows[] = {
      {R"({"error":{"code":429,"message":"m"}})", reason::rate_limited},
      {R"({"error":{"code":"429","message":"m"}})", reason::rate_limited},
      {R"({"error":{"code":502}})", reason::server_error},
      {R"({"error":{"code":400}})", reason::bad_request},
      {R"({"error":{"code":402}})", reason::billing},
      {R"({"error":{"code":401}})", reason::key_refused},
      {R"({"error":{"code":404}})", reason::not_found},
      {R"({"error":{"code":"insufficient_quota"}})", reason::billing},
      {R"({"error":{"code":"rate_limit_exceeded"}})", reason::rate_limited},
      {R"({"error":{"type":"overloaded_error","message":"Overloaded"},"type":"error"})",
       reason::server_error},
      {R"({"error":{"code":"context_length_exceeded"}})", reason::too_large},
      {R"({"error":{"code":"nobody knows"}})", reason::server_error},
      {R"({"error":{"code":1302}})", reason::server_error},
      {R"({"error":"in words"})", reason::server_error},
      {R"({"object":"error","message":"m","code":400})", reason::bad_request},
      {R"({"code":429,"message":"m"})", reason::rate_limited},
      {R"([{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}])", reason::rate_limited},
      {R"({"choices":[{"message":{"content":"so far"},"finish_reason":"error","error":{"code":429,"message":"m"}}]})",
       reason::rate_limited},
      {R"({"choices":[{"message":{"content":"so far"},"finish_reason":"stop"}],"error":{"code":502}})",
       reason::server_error},
  };
  for (const auto& [body, expected] : rows) {
    const auto got = read(200, std::string(body));
    EXPECT_EQ(got.signal.why, expected) << body;
    EXPECT_EQ(got.signal.status, 200) << body;
    EXPECT_TRUE(got.signal.may_have_been_billed) << body;
  }
}

TEST(Answer, AnErrorWithNothingInItIsNone) {
  for (const char* nothing : {"null", "{}", "\"\"", "false"})
    EXPECT_EQ(why(200, R"({"error":)" + std::string(nothing) +
                           R"(,"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]})"),
              reason::ok)
        << nothing;
}

TEST(Answer, ARetryAfterOnAnErrorInsideASuccessCounts) {
  EXPECT_EQ(read(200, R"({"error":{"code":429}})", {{"retry-after", "9"}}).signal.hint, 9s);
}

TEST(Answer, EncodedBodiesAreNotGuessedAt) {
  for (const char* encoding : {"gzip", "br", "deflate", "zstd", "gzip, identity"})
    EXPECT_EQ(why(200, "\x1f\x8b\x08", {{"content-encoding", encoding}}),
              reason::unsupported_encoding);
  EXPECT_EQ(why(200, saying("\"ok\""), {{"content-encoding", "identity"}}), reason::ok);
  const auto refused =
      read(429, "\x1f\x8b\x08", {{"content-encoding", "gzip"}, {"retry-after", "5"}});
  EXPECT_EQ(refused.signal.why, reason::rate_limited);
  EXPECT_EQ(refused.signal.hint, 5s);
}

TEST(Answer, DeepNestingEndsAtTheBound) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += open;
    EXPECT_EQ(why(200, deep), reason::malformed_response);
    EXPECT_EQ(why(429, deep), reason::rate_limited);
    EXPECT_EQ(why(200, R"({"choices":[{"message":{"content":"ok"}}],"x":)" + deep),
              reason::malformed_response);
  }
  const std::string inside = std::string(60, '[') + std::string(60, ']');
  EXPECT_EQ(why(200, R"({"choices":[{"message":{"content":"ok"}}],"x":)" + inside + "}"),
            reason::ok);
}

// --- Streams that nobody asked for --------------------------------------------------------------

TEST(Answer, StreamsAreAssembledWhenTheyAreComplete) {
  const auto got = read(
      200,
      "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\r\n\r\n"
      "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"},\"finish_reason\":null}]}\r\n\r\n"
      "event: message\r\nid: 3\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"lo\"}}]}\r\n\r\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\r\n\r\n"
      "data: [DONE]\r\n\r\n");
  EXPECT_EQ(got.signal.why, reason::ok);
  EXPECT_EQ(got.text, "Hello");
  EXPECT_EQ(got.tokens.completion_tokens, 2);
}

TEST(Answer, StreamsThatAreNotCompleteAreNoSuccess) {
  const std::pair<std::string_view, reason> rows[] = {
      {"data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n", reason::unexpected_stream},
      {": nothing\n\n", reason::unexpected_stream},
      {"data:\n\n", reason::unexpected_stream},
      {"data: {\"choices\":[{\"delta\":{\"con\n\n", reason::malformed_response},
      {"data: [DONE]\n\n", reason::malformed_response},
      {"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
       reason::empty_response},
      {"data: "
       "{\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"length\"}]}\n\ndata: "
       "[DONE]\n\n",
       reason::truncated},
      {"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\nevent: error\ndata: "
       "{\"error\":{\"code\":429}}\n\n",
       reason::rate_limited},
  };
  for (const auto& [body, expected] : rows)
    EXPECT_EQ(why(200, std::string(body)), expected) << body;
  EXPECT_EQ(why(200, "x", {{"content-type", "text/event-stream"}}), reason::unexpected_stream);
}

TEST(Answer, AStreamsLastEventNeedsNoBlankLine) {
  const auto got =
      read(200, "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"}}]}\n\ndata: [DONE]");
  EXPECT_EQ(got.signal.why, reason::ok);
  EXPECT_EQ(got.text, "ok");
}

// --- What is kept -------------------------------------------------------------------------------

TEST(Answer, TheKeyIsRemovedFromEverythingThatIsKept) {
  const std::string key(secret);
  const attempt_report reports[] = {
      read(200, saying("\"the key " + key + key + " is\"", "\"" + key + "\""),
           {{"x-request-id", key}}),
      read(200, answer_with(R"({"refusal":")" + key + "\"}")),
      read(401, error_with("invalid_api_key", "wrong key: " + key), {{"request-id", key}}),
      read(429, error_with("x", "x"), {{"retry-after", key}}),
      read(500, "<html>" + key),
      read(302, "", {{"location", "https://u:" + key + "@host/"}}),
      read(200, R"({"error":{"code":502,"metadata":{"raw":")" + key + "\"}}}"),
      read(200, "data: " + key),
      read(400, R"({"error":{"message":"m"},"request_id":")" + key + "\"}"),
  };
  for (const attempt_report& r : reports) {
    const std::string all = r.text + r.finish_reason + r.request_id + r.hints + r.detail;
    EXPECT_EQ(all.find(secret), std::string::npos) << all;
    EXPECT_NE(all.find("[key]"), std::string::npos) << all;
  }
  EXPECT_EQ(reports[0].text, "the key [key][key] is");
}

TEST(Answer, PlaceholdersForAKeyAreLeftInTheText) {
  http_answer a;
  a.status = 200;
  a.body = saying("\"none at all, x\"");
  for (const char* key : {"none", "x", "", "EMPTY"}) {
    attempt_report out;
    interpret(a, key, out);
    EXPECT_EQ(out.text, "none at all, x");
  }
}

TEST(Answer, TheDetailIsTheEndpointsOwnMessageOnOneLine) {
  EXPECT_EQ(read(400, R"({"error":{"message":"two\nlines\tand \u0007 a bell"}})").detail,
            "two lines and   a bell");
  EXPECT_EQ(
      read(400, R"({"error":{"message":"too long","n_prompt_tokens":9000,"n_ctx":4096}})").detail,
      "too long: n_prompt_tokens=9000; n_ctx=4096");
  EXPECT_EQ(read(500, "  <html>\n<h1>Bad</h1>").detail, "<html> <h1>Bad</h1>");
  EXPECT_EQ(read(301, "", {{"location", "https://x/v1"}}).detail, "redirects to https://x/v1");
  EXPECT_EQ(read(422, R"({"detail":[{"msg":"must be positive"},{"msg":"and whole"}]})").detail,
            "must be positive; and whole");
  EXPECT_LE(read(400, error_with("x", std::string(10'000, 'y'))).detail.size(), 200U);
}

TEST(OneLine, CutsAtACodePointAndIsAlwaysValid) {
  EXPECT_EQ(one_line("a\xC3\xA4\xC3\xA4", "", 4), "a\xC3\xA4");
  EXPECT_EQ(one_line("a\xC3\xA4\xC3\xA4", "", 5), "a\xC3\xA4\xC3\xA4");
  EXPECT_EQ(one_line("\xF0\x9F\x98\x80", "", 3), "");
  EXPECT_EQ(one_line("bad \xFF\xC3 bytes\xE2\x82", "", 50), "bad ?? bytes??");
  EXPECT_EQ(one_line("a\r\n\x7F\xC2\x85\xE2\x80\xA8z", "", 50), "a     z");
  EXPECT_EQ(one_line("key abcdef.", "abcdef", 50), "key [key].");
  EXPECT_EQ(one_line("key abcdefabcdef", "abcdef", 10), "key [key]");
  EXPECT_EQ(one_line("text", "", 0), "");
  EXPECT_NO_THROW(nlohmann::json(one_line(std::string("\x00\xFF\xED\xA0\x80", 5), "", 50)).dump());
}

// --- Cases from the field -----------------------------------------------------------------------

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

// --- Robustness ---------------------------------------------------------------------------------

bool has_visible_text(const std::string& text) {
  return text.find_first_not_of(std::string(" \t\r\n\0", 5)) != std::string::npos;
}

TEST(Answer, MutatedBodiesNeverCrashAndNeverSucceedWithoutText) {
  const std::string seeds[] = {
      saying("\"Hello\""),
      saying(R"([{"type":"text","text":"a"},"b"])"),
      answer_with(R"({"content":null,"refusal":"no","tool_calls":[{"id":"c"}]})"),
      R"({"error":{"message":"Limit 20, Requested 25. try again in 4.25s","type":"tokens","code":429,"metadata":{"headers":{"X-RateLimit-Reset":"1772582400000"},"raw":"{}"},"details":[{"retryDelay":"34s","violations":[{"quotaId":"PerDay"}]}],"retry_after":1e30}})",
      "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\ndata: "
      "{\"choices\":[{\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\ndata: "
      "[DONE]\n",
      R"({"detail":[{"msg":"150000 + 60000 > 200000"}]})",
  };
  const std::string dates[] = {"52", "1m30s", "Tue, 03 Mar 2026 02:00:42 GMT", "1772503260000",
                               "2026-03-03T02:01:00Z"};
  constexpr std::string_view spice = "{}[]\":,\\0123456789eE.-+ \n\ttruefalsn\xFF\xC3\xED\x00u";
  retry::random rng(20260303);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(rng.next() % n); };
  const auto mutate = [&](std::string text) {
    for (std::size_t n = 1 + below(4); n > 0 && !text.empty(); --n) {
      const std::size_t at = below(text.size());
      switch (below(5)) {
        case 0:
          text[at] = spice[below(spice.size())];
          break;
        case 1:
          text.insert(at, 1, spice[below(spice.size())]);
          break;
        case 2:
          text.erase(at, 1 + below(8));
          break;
        case 3:
          text.resize(at);
          break;
        default:
          text.insert(at, text.substr(below(text.size()), below(40)));
          break;
      }
    }
    return text;
  };
  constexpr std::array<int, 8> statuses = {200, 200, 200, 429, 400, 503, 403, 413};
  int successes = 0;
  for (int i = 0; i < 20'000; ++i) {
    http_answer a;
    a.status = statuses[below(statuses.size())];
    a.body = mutate(seeds[below(std::size(seeds))]);
    a.received = two_o_clock;
    a.headers = {{"retry-after", mutate(dates[below(std::size(dates))])},
                 {"x-ratelimit-reset-requests", mutate(dates[below(std::size(dates))])},
                 {"date", mutate("Tue, 03 Mar 2026 02:00:00 GMT")}};
    attempt_report got;
    interpret(a, secret, got);
    if (got.signal.why == reason::ok) {
      ++successes;
      EXPECT_TRUE(has_visible_text(got.text)) << a.body;
      EXPECT_TRUE(a.status == 200) << a.body;
    }
    if (got.signal.hint) {
      EXPECT_GE(*got.signal.hint, duration::zero());
      EXPECT_LE(*got.signal.hint, retry::longest_hint);
    }
    // Everything kept can be written as JSON.
    EXPECT_NO_THROW(nlohmann::json({got.text, got.detail, got.hints, got.request_id}).dump())
        << a.body;
  }
  EXPECT_GT(successes, 100);
}

TEST(Answer, CutAtEveryByteAnAnswerIsNoSuccess) {
  const std::string whole = saying("\"Hello\"");
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(why(200, whole.substr(0, size)), reason::ok) << size;
}

}  // namespace
}  // namespace sluice::provider
