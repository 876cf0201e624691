// The circuit breaker: when it opens, how it probes, when it gives up.
#include "retry/breaker.hpp"

#include <gtest/gtest.h>

namespace sluice::retry {
namespace {

using namespace std::chrono_literals;

const instant start(1h);

TEST(Breaker, OpensAtTheFifthFailureInARow) {
  random rng(1);
  breaker b(15min);
  for (int i = 0; i < 4; ++i) {
    b.note(scope::unsent, start, rng);
    EXPECT_FALSE(b.open());
  }
  EXPECT_EQ(b.probe_at(), instant::min());
  b.note(scope::endpoint, start, rng);
  EXPECT_TRUE(b.open());
  EXPECT_GT(b.probe_at(), start);
}

TEST(Breaker, AnyAnswerStartsTheCountAfresh) {
  for (const scope whose :
       {scope::success, scope::rate, scope::document, scope::account, scope::setup}) {
    random rng(1);
    breaker b(15min);
    for (int i = 0; i < 4; ++i) b.note(scope::unsent, start, rng);
    b.note(whose, start, rng);
    for (int i = 0; i < 4; ++i) b.note(scope::unsent, start, rng);
    EXPECT_FALSE(b.open());
    b.note(scope::unsent, start, rng);
    EXPECT_TRUE(b.open());
    b.note(whose, start, rng);
    EXPECT_FALSE(b.open());
  }
}

TEST(Breaker, ProbesAreSpacedMoreAndMoreUpToHalfAMinute) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    random rng(seed);
    breaker b(15min);
    instant now = start;
    for (int i = 0; i < 4; ++i) b.note(scope::unsent, now, rng);
    const duration bounds[] = {2s, 4s, 8s, 16s, 30s, 30s, 30s};
    for (const duration bound : bounds) {
      b.note(scope::unsent, now, rng);
      ASSERT_GE(b.probe_at() - now, bound / 2);
      ASSERT_LE(b.probe_at() - now, bound);
      now = b.probe_at();
    }
  }
}

TEST(Breaker, GivesUpWhenTheOutageLastsFromItsFirstFailure) {
  random rng(1);
  breaker b(10min);
  b.note(scope::unsent, start, rng);
  EXPECT_FALSE(b.given_up(start + 1h)) << "one failure is no outage";
  for (int i = 0; i < 4; ++i) b.note(scope::unsent, start + 1min, rng);
  EXPECT_FALSE(b.given_up(start + 10min - 1ns));
  EXPECT_TRUE(b.given_up(start + 10min));
  b.note(scope::success, start + 11min, rng);
  EXPECT_FALSE(b.given_up(start + 1h));
}

}  // namespace
}  // namespace sluice::retry
