// Admission's pure function: when may the next call be sent?
#include "pipeline/admission/ring.hpp"

#include <gtest/gtest.h>

namespace sluice::pipeline {
namespace {

using namespace std::chrono_literals;

const instant start(1h);

limit requests(std::int64_t amount, duration window) {
  limit l;
  l.amount = amount;
  l.window = window;
  return l;
}

limit tokens(std::int64_t amount, duration window) {
  limit l = requests(amount, window);
  l.unit = limit_unit::tokens;
  return l;
}

ring ten_a_minute(pace shape, std::optional<duration> guard = std::nullopt) {
  return ring({requests(10, 60s)}, shape, guard);
}

constexpr call_cost one{};

// Grants `count` calls at their turns; returns when each was sent, from `start`.
std::vector<duration> send(ring& r, int count, instant now = start) {
  std::vector<duration> sent;
  for (int i = 0; i < count; ++i) {
    now = r.forecast(now, one).value();
    r.grant(now, one);
    sent.push_back(now - start);
  }
  return sent;
}

TEST(Ring, ForecastChangesNothing) {
  ring r = ten_a_minute(pace::burst);
  send(r, 7);
  ring untouched = r;
  for (int i = 0; i < 100; ++i) (void)r.forecast(start + i * 1s, one);
  EXPECT_EQ(r.granted(), 7U);
  EXPECT_EQ(send(r, 20), send(untouched, 20));
}

TEST(Ring, TenPacingIntervalsAreTheWindowAndItsGuardExactly) {
  ring r = ten_a_minute(pace::smooth);
  const auto sent = send(r, 31);
  for (std::size_t i = 0; i < sent.size(); ++i)
    EXPECT_EQ(sent[i], duration(6200ms) * static_cast<int>(i)) << "call " << i;
  EXPECT_EQ(sent[10], duration(62s));
}

TEST(Ring, AnOddLimitIsRoundedTowardsWaiting) {
  // 60 s and 2 s of guard do not divide by 7 in nanoseconds.
  ring r({requests(7, 60s)}, pace::smooth);
  const auto sent = send(r, 36);
  for (std::size_t i = 7; i < sent.size(); ++i) {
    EXPECT_GE(sent[i] - sent[i - 7], duration(62s)) << "call " << i;
    EXPECT_LT(sent[i] - sent[i - 7], duration(62s + 1us)) << "call " << i;
  }
}

TEST(Ring, BurstSendsAsEarlyAsTheWindowAllows) {
  ring r = ten_a_minute(pace::burst);
  const auto sent = send(r, 25);
  for (std::size_t i = 0; i < sent.size(); ++i)
    EXPECT_EQ(sent[i], duration(62s) * static_cast<int>(i / 10)) << "call " << i;
}

TEST(Ring, GuardIsAThirtiethOfTheWindowAndAtLeastFiftyMilliseconds) {
  EXPECT_EQ(ring::default_guard(requests(10, 60s)), duration(2s));
  EXPECT_EQ(ring::default_guard(requests(10, 6s)), duration(200ms));
  EXPECT_EQ(ring::default_guard(requests(10, 1s)), duration(50ms));
  EXPECT_EQ(ring::default_guard(requests(10, 10ms)), duration(50ms));
}

TEST(Ring, AGuardCanBeGiven) {
  ring r = ten_a_minute(pace::burst, duration(5s));
  EXPECT_EQ(send(r, 11).back(), duration(65s));
  EXPECT_EQ(r.use_within(), duration(2500ms));
}

TEST(Ring, ASlotMustBeUsedWithinHalfTheLeastGuard) {
  EXPECT_EQ(ten_a_minute(pace::smooth).use_within(), duration(1s));
  EXPECT_EQ(ring({requests(10, 60s), requests(1000, 24h)}, pace::smooth).use_within(),
            duration(1s));
}

TEST(Ring, NoMoreThanTheLimitEverFallsIntoOneWindow) {
  for (const pace shape : {pace::smooth, pace::burst}) {
    ring r = ten_a_minute(shape);
    // Idle spells of all lengths, then as many calls as will go.
    instant now = start;
    std::vector<instant> sent;
    for (int i = 1; i <= 300; ++i) {
      if (i % 7 == 0) now += std::chrono::seconds(i % 61);
      now = r.forecast(now, one).value();
      r.grant(now, one);
      sent.push_back(now);
      if (sent.size() > 10) {
        const duration span = sent.back() - sent[sent.size() - 11];
        ASSERT_GE(span, duration(62s)) << "call " << i;
      }
    }
  }
}

TEST(Ring, WithoutALimitOnlyACoolDownWaits) {
  ring r({}, pace::smooth);
  for (const duration d : send(r, 100)) EXPECT_EQ(d, 0ns);
  r.cool_down(start + 30s);
  EXPECT_EQ(r.forecast(start, one), start + 30s);
}

TEST(Ring, ACoolDownHoldsAndOneWindowIsSmoothAfterIt) {
  ring r = ten_a_minute(pace::burst);
  send(r, 3);
  r.cool_down(start + 100s);
  const auto sent = send(r, 40);
  EXPECT_EQ(sent[0], duration(100s));
  std::size_t i = 1;
  for (; i < sent.size() && sent[i] < 162s; ++i)
    EXPECT_EQ(sent[i] - sent[i - 1], duration(6200ms)) << "call " << i;
  EXPECT_EQ(i, 10U) << "one window of ten calls";
  // Then as early as the window allows: each ten calls after the one ten before it.
  for (; i + 1 < sent.size(); ++i) EXPECT_GE(sent[i] - sent[i - 10], duration(62s)) << "call " << i;
  EXPECT_LE(sent[39], duration(100s + 4 * 62s));
}

TEST(Ring, AShorterCoolDownNeverShortensALongerOne) {
  ring r = ten_a_minute(pace::smooth);
  r.cool_down(start + 100s);
  r.cool_down(start + 10s);
  EXPECT_EQ(r.not_before(), start + 100s);
}

TEST(Ring, ACostAboveTheLimitIsNeverAdmitted) {
  const ring r({tokens(1000, 60s)}, pace::smooth);
  EXPECT_FALSE(r.forecast(start, call_cost{1001}));
  EXPECT_EQ(r.forecast(start, call_cost{1000}), start);
}

TEST(Ring, TokensWaitUntilEnoughHasLeftTheWindow) {
  ring r({tokens(1000, 60s)}, pace::burst);
  r.grant(start, call_cost{400});
  r.grant(start + 10s, call_cost{400});
  EXPECT_EQ(r.forecast(start + 20s, call_cost{200}), start + 20s);
  EXPECT_EQ(r.forecast(start + 20s, call_cost{201}), start + 62s);
  EXPECT_EQ(r.forecast(start + 20s, call_cost{601}), start + 72s);
}

TEST(Ring, SettledTokensCountInPlaceOfTheEstimate) {
  ring r({tokens(1000, 60s)}, pace::burst);
  const auto number = r.grant(start, call_cost{900});
  EXPECT_EQ(r.forecast(start + 1s, call_cost{500}), start + 62s);
  r.settle(number, 300);
  EXPECT_EQ(r.forecast(start + 1s, call_cost{500}), start + 1s);
  r.settle(number, 5000);  // more than the limit: counted, and gone with its window
  EXPECT_EQ(r.forecast(start + 1s, call_cost{500}), start + 62s);
  EXPECT_EQ(r.forecast(start + 63s, call_cost{1000}), start + 63s);
}

TEST(Ring, SeveralLimitsHoldAtOnce) {
  ring r({requests(10, 60s), requests(15, 24h)}, pace::burst);
  const auto sent = send(r, 16);
  EXPECT_EQ(sent[9], 0ns);
  EXPECT_EQ(sent[10], duration(62s));
  EXPECT_EQ(sent[14], duration(62s));
  EXPECT_EQ(sent[15], duration(24h + 48min));
}

TEST(Ring, AQuotaCapsButDoesNotPace) {
  ring r({requests(1000, 24h)}, pace::smooth);
  EXPECT_EQ(send(r, 1000).back(), 0ns);
}

// The pace right now: from one grant to the next turn, in burst shape with room in the window.
duration pace_of(const ring& r, instant now) {
  ring copy = r;
  copy.grant(now, one);
  return copy.forecast(now, one).value() - now;
}

TEST(SlowDown, CutsToSevenTenthsOncePerCut) {
  ring r({requests(100, 60s)}, pace::burst);
  const double full = 100 * 60.0 / 62;
  EXPECT_EQ(pace_of(r, start), 0ns);
  r.unexplained_refusal(start, start + 1s);
  EXPECT_NEAR(to_seconds(pace_of(r, start + 1s)), 60 / (0.7 * full), 1e-6);
  // Sent before the cut: the same trouble, not a new one.
  r.unexplained_refusal(start + 1s, start + 2s);
  EXPECT_NEAR(to_seconds(pace_of(r, start + 2s)), 60 / (0.7 * full), 1e-6);
  r.unexplained_refusal(start + 1500ms, start + 3s);
  EXPECT_NEAR(to_seconds(pace_of(r, start + 3s)), 60 / (0.49 * full), 1e-6);
}

TEST(SlowDown, EasesByThreeHundredthsForEachWindowInPeace) {
  ring r({requests(100, 60s)}, pace::burst);
  const double cut = 0.7 * 100 * 60.0 / 62;
  r.unexplained_refusal(start, start);
  EXPECT_NEAR(to_seconds(pace_of(r, start + 59s)), 60 / cut, 1e-6);
  EXPECT_NEAR(to_seconds(pace_of(r, start + 60s)), 60 / (cut + 3), 1e-6);
  EXPECT_NEAR(to_seconds(pace_of(r, start + 185s)), 60 / (cut + 9), 1e-6);
  // 29.03 lost at 3 a window: ten windows later it is as before.
  EXPECT_GT(pace_of(r, start + 9min), 0ns);
  EXPECT_EQ(pace_of(r, start + 10min), 0ns);
}

TEST(SlowDown, NeverGoesBelowATenth) {
  ring r({requests(100, 60s)}, pace::burst);
  for (int i = 1; i <= 50; ++i) r.unexplained_refusal(start + i * 1s, start + i * 1s);
  EXPECT_NEAR(to_seconds(pace_of(r, start + 50s)), 6.0, 1e-6);
}

TEST(SlowDown, SlowsTheSmoothPaceToo) {
  ring r = ten_a_minute(pace::smooth);
  r.unexplained_refusal(start, start);
  EXPECT_NEAR(to_seconds(pace_of(r, start)), 6.2 / 0.7, 1e-6);
}

TEST(SlowDown, LeavesAQuotaAlone) {
  ring r({requests(1000, 24h)}, pace::burst);
  r.unexplained_refusal(start, start);
  EXPECT_EQ(pace_of(r, start), 0ns);
}

}  // namespace
}  // namespace sluice::pipeline
