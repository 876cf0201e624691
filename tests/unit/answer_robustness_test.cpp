// Answers that were damaged on the way: no crash, no success without a text.
#include "tests/support/answers.hpp"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "retry/random.hpp"
#include "retry/signal.hpp"

namespace sluice::provider {
namespace {
using namespace std::chrono_literals;
using retry::reason;

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
