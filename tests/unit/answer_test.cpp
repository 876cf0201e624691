// What a success means, in how many ways a 200 is none, and what is kept of an answer.
#include "tests/support/answers.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace sluice::provider {
namespace {
using namespace std::chrono_literals;
using retry::reason;

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
      {"data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n", reason::connection_lost},
      {": nothing\n\n", reason::connection_lost},
      {"data:\n\n", reason::connection_lost},
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
  EXPECT_EQ(why(200, "x", {{"content-type", "text/event-stream"}}), reason::connection_lost);
}

TEST(Answer, AStreamsLastEventNeedsNoBlankLine) {
  const auto got =
      read(200, "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"}}]}\n\ndata: [DONE]");
  EXPECT_EQ(got.signal.why, reason::ok);
  EXPECT_EQ(got.text, "ok");
}

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

}  // namespace
}  // namespace sluice::provider
