// How long an answer asks us to wait, form by form and rank by rank.
#include "provider/hints.hpp"

#include <gtest/gtest.h>

#include "provider/dates.hpp"
#include "retry/signal.hpp"

namespace sluice::provider {
namespace {
using namespace std::chrono_literals;
using std::chrono::sys_days;

// 2026-03-03T02:00:00Z, epoch 1772503200.
constexpr wall_time two_o_clock =
    wall_time(sys_days(std::chrono::year(2026) / 3 / 3)) + std::chrono::hours(2);
constexpr duration endless = retry::longest_hint;

std::optional<duration> wait_of(const field_list& headers, std::string_view words = {},
                                bool resets = true) {
  const field_list none;
  return find_hint({headers, none, none, words, two_o_clock, resets}).wait;
}

struct text_row {
  std::string_view text;
  std::optional<duration> wait;
};

TEST(Hints, RetryAfterIsReadInEveryForm) {
  const text_row rows[] = {
      {"52", 52s},
      {" 52 ", 52s},
      {"+5", 5s},
      {"0", 0s},
      {"1.5", 1500ms},
      {"34.07s", 34070ms},
      {"120 seconds", 120s},
      {"2m", 2min},
      {"1e2", 100s},
      {"259200", 72h},
      // Zero or less is zero, which is not the same as absent.
      {"-1", 0s},
      {"-5", 0s},
      {"-5s", 0s},
      {"-1e400", 0s},
      {"-inf", 0s},
      {"1e-400", 0s},
      // Beyond any clock.
      {"9999999999", endless},
      {"9223372036854775807", endless},
      {"9223372036854775808", endless},
      {"18446744073709551616", endless},
      {"31622401", endless},
      {"1e308", endless},
      {"1e400", endless},
      {"nan", endless},
      {"NaN", endless},
      {"inf", endless},
      {"Infinity", endless},
      {"99999999999999999999h", endless},
      // Dates, relative to now.
      {"Tue, 03 Mar 2026 02:00:42 GMT", 42s},
      {"Tuesday, 03-Mar-26 02:00:42 GMT", 42s},
      {"Tue Mar  3 02:00:42 2026", 42s},
      {"Tue, 03 Mar 2026 01:59:57 GMT", 0s},
      {"Sun, 06 Nov 1994 08:49:37 GMT", 0s},
      {"Fri, 31 Dec 99999 23:59:59 GMT", endless},
      {"Fri, 31 Dec 999999999 23:59:59 GMT", endless},
      {"2026-03-03T02:01:00Z", 60s},
      {"2026-03-03T02:01:00.250Z", 60s},
      {"2026-03-03T03:01:00+01:00", 60s},
      {"2026-03-02T22:01:00-04:00", 60s},
      // Malformed is absent.
      {"", std::nullopt},
      {" ", std::nullopt},
      {"soon", std::nullopt},
      {"-", std::nullopt},
      {"+", std::nullopt},
      {".", std::nullopt},
      {"0x10", std::nullopt},
      {"5 apples", std::nullopt},
      {"5s and more", std::nullopt},
      {"1,5", std::nullopt},
      {"Tue, 31 Feb 2026 02:00:42 GMT", std::nullopt},
      {"Tue, 03 Mar 2026 25:00:42 GMT", std::nullopt},
      {"Tue, 03 Mar 2026 02:00:42 CET", std::nullopt},
      {"Tue, 03 Mar", std::nullopt},
      {"Tue, 03 Mrz 2026 02:00:42 GMT", std::nullopt},
      {"2026-03-03T02:01:00", std::nullopt},
      {"2026-03-03", std::nullopt},
  };
  for (const auto& [text, wait] : rows)
    EXPECT_EQ(wait_of({{"retry-after", std::string(text)}}), wait) << text;
}

TEST(Hints, LongNumbersAreNoTrap) {
  EXPECT_EQ(wait_of({{"retry-after", std::string(100'000, '9')}}), endless);
  EXPECT_EQ(wait_of({{"retry-after", std::string(100'000, '0') + "7"}}), 7s);
  EXPECT_EQ(wait_of({{"retry-after", "0." + std::string(100'000, '1')}}).value() / 1ms, 111);
}

TEST(Hints, DatesAreRelativeToTheAnswersOwnDate) {
  const field_list headers = {{"date", "Tue, 03 Mar 2026 05:00:00 GMT"},
                              {"retry-after", "Tue, 03 Mar 2026 05:00:42 GMT"}};
  EXPECT_EQ(wait_of(headers), 42s);
  const field_list bad_date = {{"date", "yesterday"},
                               {"retry-after", "Tue, 03 Mar 2026 02:00:42 GMT"}};
  EXPECT_EQ(wait_of(bad_date), 42s);
}

TEST(Hints, YearsOfTwoDigitsAreNeverMoreThanFiftyYearsAhead) {
  const auto year_of = [](std::string_view text) {
    const auto date = parse_http_date(text, two_o_clock);
    return date ? static_cast<int>(
                      std::chrono::year_month_day(std::chrono::floor<std::chrono::days>(*date))
                          .year())
                : 0;
  };
  EXPECT_EQ(year_of("Sunday, 06-Nov-94 08:49:37 GMT"), 1994);
  EXPECT_EQ(year_of("Sunday, 06-Nov-76 08:49:37 GMT"), 2076);
  EXPECT_EQ(year_of("Sunday, 06-Nov-77 08:49:37 GMT"), 1977);
}

TEST(Hints, MillisecondFormsCountThousandths) {
  EXPECT_EQ(wait_of({{"retry-after-ms", "1500"}}), 1500ms);
  EXPECT_EQ(wait_of({{"x-ms-retry-after-ms", "120.5"}}), 120500us);
  EXPECT_EQ(wait_of({{"x-retry-after-ms", "7"}}), 7ms);
  EXPECT_EQ(wait_of({{"retry-after-ms", "1e400"}}), endless);
}

TEST(Hints, ResetsAreReadInEveryForm) {
  const text_row rows[] = {
      {"52s", 52s},
      {"1m30s", 90s},
      {"6m0s", 6min},
      {"2m59.56s", 179560ms},
      {"1m26.4s", 86400ms},
      {"500ms", 500ms},
      {"120ms", 120ms},
      {"20us", 20us},
      {"20\xC2\xB5s", 20us},
      {"1h12m3s", 1h + 12min + 3s},
      {"60", 60s},
      {"33011.382", 33011382ms},
      {"2026-03-03T02:01:00Z", 60s},
      {"1772503260", 60s},
      {"1772503260.5", 60500ms},
      {"1772503260000", 60s},
      {"1772503140", 0s},
      {"99999999999999999999", endless},
      {"later", std::nullopt},
  };
  for (const auto& [text, wait] : rows) {
    for (const char* name :
         {"x-ratelimit-reset-requests", "x-rate-limit-reset-tokens", "x-ratelimit-reset",
          "ratelimit-reset", "anthropic-ratelimit-requests-reset"})
      EXPECT_EQ(wait_of({{name, std::string(text)}}), wait) << name << ": " << text;
  }
}

TEST(Hints, TheResetOfTheExhaustedBucketCounts) {
  EXPECT_EQ(wait_of({{"x-ratelimit-remaining-requests", "0"},
                     {"x-ratelimit-reset-requests", "20s"},
                     {"x-ratelimit-remaining-tokens", "5000"},
                     {"x-ratelimit-reset-tokens", "5m"}}),
            20s);
  EXPECT_EQ(wait_of({{"anthropic-ratelimit-input-tokens-remaining", "0"},
                     {"anthropic-ratelimit-input-tokens-reset", "2026-03-03T02:00:07Z"},
                     {"anthropic-ratelimit-requests-remaining", "3"},
                     {"anthropic-ratelimit-requests-reset", "2026-03-03T02:05:00Z"}}),
            7s);
  // Two are exhausted: both have to be over.
  EXPECT_EQ(wait_of({{"x-ratelimit-remaining-requests", "0"},
                     {"x-ratelimit-reset-requests", "20s"},
                     {"x-ratelimit-remaining-tokens", "0"},
                     {"x-ratelimit-reset-tokens", "50s"}}),
            50s);
}

TEST(Hints, WhenItIsUnknownWhichBucketTheLongestCounts) {
  EXPECT_EQ(wait_of({{"x-ratelimit-reset-requests", "20s"}, {"x-ratelimit-reset-tokens", "50s"}}),
            50s);
  EXPECT_EQ(wait_of({{"x-ratelimit-reset-requests", "20s"},
                     {"x-ratelimit-remaining-tokens", "9"},
                     {"x-ratelimit-reset-tokens", "50s"}}),
            20s);
}

TEST(Hints, ResetsOfBucketsWithRoomOnlyCountWhenNothingElseDoes) {
  const field_list headers = {{"x-ratelimit-remaining-requests", "14370"},
                              {"x-ratelimit-reset-requests", "2m59.56s"}};
  EXPECT_EQ(wait_of(headers, "Please try again in 4.25s."), 4250ms);
  EXPECT_EQ(wait_of(headers), 179560ms);
}

TEST(Hints, ResetsSpeakOfNowOnlyInARefusalForRate) {
  EXPECT_EQ(wait_of({{"x-ratelimit-reset-requests", "20s"}}, {}, false), std::nullopt);
  EXPECT_EQ(wait_of({{"retry-after", "20"}}, {}, false), 20s);
}

TEST(Hints, RanksHoldAndWithinARankTheLongestWins) {
  const field_list inner = {{"x-ratelimit-reset", "40"}};
  const field_list details = {{"retryDelay", "34s"}};
  const field_list resets = {{"x-ratelimit-reset-requests", "70s"}};
  const field_list both = {
      {"x-ratelimit-reset-requests", "70s"}, {"retry-after", "5"}, {"retry-after-ms", "5250"}};
  const field_list none;
  const std::string_view words = "try again in 90s or try again in 80s";
  const auto wait = [&](const field_list& headers, const field_list& in, const field_list& body) {
    return find_hint({headers, in, body, words, two_o_clock, true}).wait;
  };
  EXPECT_EQ(wait(both, inner, details), 5250ms);
  EXPECT_EQ(wait(resets, inner, details), 70s);
  EXPECT_EQ(wait(none, inner, details), 40s);
  EXPECT_EQ(wait(none, none, details), 34s);
  EXPECT_EQ(wait(none, none, none), 90s);
}

TEST(Hints, AnUnreadableValueLeavesTheNextRank) {
  EXPECT_EQ(wait_of({{"retry-after", "soon"}}, "retry after 5 seconds"), 5s);
}

TEST(Hints, DetailsOfTheBodyKnowTheirUnits) {
  const auto wait = [](std::string name, std::string value) {
    const field_list none;
    const field_list details = {{std::move(name), std::move(value)}};
    return find_hint({none, none, details, {}, two_o_clock, true}).wait;
  };
  EXPECT_EQ(wait("retryDelay", "34s"), 34s);
  EXPECT_EQ(wait("retryDelay", "34.074824224s"), 34074824224ns);
  EXPECT_EQ(wait("retry_after", "1.5"), 1500ms);
  EXPECT_EQ(wait("retry_after_ms", "1500"), 1500ms);
  EXPECT_EQ(wait("retryAfterMs", "1500"), 1500ms);
  EXPECT_EQ(wait("resets_at", "1772503260"), 60s);
  EXPECT_EQ(wait("estimated_time", "20.0"), 20s);
  EXPECT_EQ(wait("retry_after", "-3"), 0s);
}

TEST(Hints, WordsOfTheMessageAreReadTolerantly) {
  const text_row rows[] = {
      {"Please try again in 4.25s.", 4250ms},
      {"Please try again in 20s", 20s},
      {"Please try again in 850ms. Visit", 850ms},
      {"try again in 1m12.5s.", 72500ms},
      {"Try again in 1h12m3s", 1h + 12min + 3s},
      {"in 1m26.4s", std::nullopt},
      {"retry in 1m26.4s", 86400ms},
      {"Please retry after 45 seconds.", 45s},
      {"retry after 5 seconds", 5s},
      {"retry after 5", 5s},
      {"Retry after 5.", 5s},
      {"Retry-After: 7", 7s},
      {"retry after 5 attempts", std::nullopt},
      {"rate quota, retry in 5s", 5s},
      {"resets after 11h20m5s", 11h + 20min + 5s},
      {"quota resets in 2 hours 5 minutes", 2h + 5min},
      {"Please wait 42000 seconds before retrying", 42000s},
      {"please try again in ~30s", 30s},
      {"try again in 20s 5 models are busy", 20s},
      {"try again in a moment", std::nullopt},
      {"try again in -5s", std::nullopt},
      {"try again in 1e400s", endless},
      {"try again in 99999999999999999999 days", endless},
      {"try again in", std::nullopt},
      {"", std::nullopt},
  };
  for (const auto& [text, wait] : rows) EXPECT_EQ(wait_in_words(text), wait) << text;
}

TEST(Hints, WhatWasReceivedIsKeptForTheLog) {
  const field_list headers = {{"retry-after", "52"},
                              {"content-type", "application/json"},
                              {"x-ratelimit-remaining-requests", "0"},
                              {"x-ratelimit-reset-requests", "52s"}};
  const field_list none;
  EXPECT_EQ(find_hint({headers, none, none, {}, two_o_clock, true}).raw,
            "retry-after=52 x-ratelimit-reset-requests=52s");
}

}  // namespace
}  // namespace sluice::provider
