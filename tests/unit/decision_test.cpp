// Decisions one by one: the bounds that the table leaves to them, and their randomness.
#include "retry/decision.hpp"

#include <gtest/gtest.h>

#include <set>

namespace sluice::retry {
namespace {

using namespace std::chrono_literals;
using act = decision::act;

signal said(reason why, int status, std::optional<duration> hint = std::nullopt) {
  signal s(why, status);
  s.hint = hint;
  return s;
}

run_history some_run() {
  run_history run;
  run.calls = 1;
  run.documents = 10;
  return run;
}

TEST(FullJitter, IsUniformUpToABoundThatDoublesToTwentySeconds) {
  const duration ceilings[] = {1s, 2s, 4s, 8s, 16s, 20s, 20s, 20s};
  random rng(7);
  unsigned n = 0;
  for (const duration bound : ceilings) {
    duration lowest = bound;
    duration highest{};
    duration sum{};
    for (int i = 0; i < 2000; ++i) {
      const duration d = full_jitter(n, rng);
      ASSERT_GE(d, 0ns);
      ASSERT_LE(d, bound);
      lowest = std::min(lowest, d);
      highest = std::max(highest, d);
      sum += d;
    }
    EXPECT_LT(lowest, bound / 20) << n;
    EXPECT_GT(highest, bound - bound / 20) << n;
    EXPECT_NEAR(to_seconds(sum / 2000), to_seconds(bound / 2), to_seconds(bound) / 25) << n;
    ++n;
  }
  EXPECT_LE(full_jitter(4'000'000'000U, rng), duration(20s));
}

TEST(Decision, BackOffGrowsWithEachRetryForTheSameReason) {
  random rng(3);
  document_history doc;
  const duration ceilings[] = {1s, 2s, 4s, 8s, 16s, 20s};
  for (const duration bound : ceilings) {
    const decision d = decide(said(reason::server_loading, 503), doc, some_run(), bounds{}, rng);
    ASSERT_EQ(d.what, act::again);
    EXPECT_GE(d.delay, duration(100ms));
    EXPECT_LE(d.delay, bound);
    EXPECT_EQ(d.jitter, std::optional<duration>(d.delay));
    EXPECT_FALSE(d.cool_down);
  }
}

TEST(Decision, AHintOnlyEverAddsToTheJitter) {
  random rng(3);
  for (int i = 0; i < 200; ++i) {
    document_history doc;
    const decision d =
        decide(said(reason::server_error, 503, 300ms), doc, some_run(), bounds{}, rng);
    EXPECT_GE(d.delay, duration(300ms));
    EXPECT_LE(d.delay, duration(1s));
  }
}

TEST(Decision, ReasonsAreChargedOneByOneUpToTheHardCap) {
  random rng(3);
  document_history doc;
  const reason mix[] = {reason::server_error,        reason::timed_out,
                        reason::connection_lost,     reason::not_json,
                        reason::empty_response,      reason::malformed_response,
                        reason::unexpected_tool_call};
  for (const reason why : mix)
    EXPECT_EQ(decide(signal(why), doc, some_run(), bounds{}, rng).what, act::again) << name(why);
  EXPECT_EQ(doc.charged, 7U);
  // Its first, but the eighth in all.
  const decision last =
      decide(signal(reason::unsupported_encoding), doc, some_run(), bounds{}, rng);
  EXPECT_EQ(last.what, act::give_up);
  EXPECT_EQ(last.end, outcome::failed);
}

TEST(Decision, RefusalsAndWhatWasNeverSentAreNotCharged) {
  random rng(3);
  document_history doc;
  run_history run = some_run();
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(decide(said(reason::rate_limited, 429, 1s), doc, run, bounds{}, rng).what,
              act::again);
    EXPECT_EQ(decide(signal(reason::connect_failure), doc, run, bounds{}, rng).what, act::again);
  }
  EXPECT_EQ(doc.charged, 0U);
  EXPECT_EQ(decide(signal(reason::server_error), doc, run, bounds{}, rng).what, act::again);
}

TEST(Decision, ARefusalThatEndsTheDocumentStillHoldsTheOthersBack) {
  random rng(3);
  bounds within;
  run_history run = some_run();

  document_history impatient;
  impatient.refused_since = within.patience - 10s;
  decision d = decide(said(reason::rate_limited, 429, 52s), impatient, run, within, rng);
  EXPECT_EQ(d.what, act::give_up);
  EXPECT_EQ(d.why, reason::patience_used);
  ASSERT_TRUE(d.cool_down);
  EXPECT_GE(*d.cool_down, duration(52s));

  document_history fresh;
  run.calls = within.calls_per_document * run.documents;
  d = decide(said(reason::rate_limited, 429, 52s), fresh, run, within, rng);
  EXPECT_EQ(d.why, reason::call_budget_used);
  ASSERT_TRUE(d.cool_down);
  EXPECT_GE(*d.cool_down, duration(52s));

  document_history forbidden_again;
  signal s = said(reason::rate_limited, 429, 52s);
  s.should_retry = false;
  d = decide(s, forbidden_again, some_run(), within, rng);
  EXPECT_EQ(d.what, act::give_up);
  EXPECT_EQ(d.end, outcome::deferred);
  ASSERT_TRUE(d.cool_down);
  EXPECT_GE(*d.cool_down, duration(52s));
}

TEST(Decision, AnUnhintedRefusalWaitsForTheWindowOfTheLimit) {
  random rng(3);
  bounds within;
  within.window = 10s;
  document_history doc;
  const decision d = decide(said(reason::rate_limited, 429), doc, some_run(), within, rng);
  EXPECT_GE(d.delay, duration(10s));
  EXPECT_LE(d.delay, duration(12s));
}

TEST(Decision, TheLongestHintOfAllStopsTheRunAndOverflowsNothing) {
  random rng(3);
  document_history doc;
  const decision d =
      decide(said(reason::rate_limited, 429, longest_hint), doc, some_run(), bounds{}, rng);
  EXPECT_EQ(d.what, act::stop_run);
  EXPECT_EQ(d.exit, exit_code::come_back_later);
  EXPECT_EQ(d.cool_down, std::optional<duration>(longest_hint));
}

TEST(Decision, IsTheSameForTheSameSeed) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    random a(seed);
    random b(seed);
    document_history x;
    document_history y;
    const signal s = said(reason::rate_limited, 429, 5s);
    EXPECT_EQ(decide(s, x, some_run(), bounds{}, a).delay,
              decide(s, y, some_run(), bounds{}, b).delay);
  }
}

TEST(Table, NamesAreUniqueSnakeCaseAndFoundAgain) {
  std::set<std::string_view> names;
  for (const row& r : table()) {
    EXPECT_TRUE(names.insert(r.name).second) << r.name;
    EXPECT_EQ(reason_named(r.name), r.why);
    EXPECT_EQ(name(r.why), r.name);
    EXPECT_EQ(r.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string_view::npos);
  }
  EXPECT_FALSE(reason_named("no_such_reason"));
}

TEST(Table, EveryTroubleCarriesARemedyAndAnOutcomeThatFits) {
  for (const row& r : table()) {
    SCOPED_TRACE(std::string(r.name));
    if (r.why == reason::ok) continue;
    EXPECT_FALSE(r.remedy.empty());
    EXPECT_NE(r.end, outcome::succeeded);
    EXPECT_EQ(r.kind == outcome_class::none, r.end == outcome::deferred);
    if (r.stops_run != exit_code::none) EXPECT_EQ(r.end, outcome::deferred);
  }
}

}  // namespace
}  // namespace sluice::retry
