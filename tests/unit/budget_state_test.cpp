// The file of a shared budget: what was written is read, and whatever is not what was written is
// found out.
#include "pipeline/admission/budget_state.hpp"

#include <gtest/gtest.h>

namespace sluice::pipeline {
namespace {

using namespace std::chrono_literals;

constexpr instant start{1000s};

budget_state busy_state() {
  budget_settings settings;
  settings.limits = {limit{10, 60s}, limit{200'000, 60s, limit_unit::tokens}, limit{1000, 24h}};
  settings.max_in_flight = 8;
  budget_state s = fresh_budget(settings, "4b0a7fd4-3a0d-4bd5-bcf1-b6e4a0b6a2a9");
  ring r(settings.limits, pace::smooth, s.record);
  for (int i = 0; i < 7; ++i) r.grant(start + i * 6200ms, call_cost{900 + i});
  r.unexplained_refusal(start + 10s, start + 20s);
  r.cool_down(start + 90s);
  s.record = r.save();
  s.line.push_back(
      {4711, 0xFEDCBA9876543210U, start + 96s, call_cost{800}, pace::burst, "nightly"});
  s.line.push_back({815, 7, start + 102s, call_cost{}, pace::smooth, ""});
  return s;
}

bool readable(std::string_view bytes) {
  return std::holds_alternative<budget_state>(parse_budget(bytes));
}

TEST(BudgetState, WhatIsWrittenIsRead) {
  const budget_state s = busy_state();
  const auto read = parse_budget(serialise(s));
  ASSERT_TRUE(std::holds_alternative<budget_state>(read));
  EXPECT_EQ(std::get<budget_state>(read), s);
}

TEST(BudgetState, ABudgetWithoutLimitsIsRead) {
  const budget_state s = fresh_budget({}, "boot");
  EXPECT_EQ(std::get<budget_state>(parse_budget(serialise(s))), s);
}

TEST(BudgetState, TheRingGoesOnWhereItWas) {
  const budget_state s = busy_state();
  ring before(s.settings.limits, pace::smooth, s.record);
  const auto read = std::get<budget_state>(parse_budget(serialise(s)));
  ring after(read.settings.limits, pace::smooth, read.record);
  instant now = start + 50s;
  for (int i = 0; i < 40; ++i) {
    const auto due = before.forecast(now, call_cost{500});
    ASSERT_EQ(after.forecast(now, call_cost{500}), due);
    now = *due;
    before.grant(now, call_cost{500});
    after.grant(now, call_cost{500});
  }
}

TEST(BudgetState, EveryFlippedBitIsFound) {
  const std::string good = serialise(busy_state());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_FALSE(readable(bad)) << "bit " << bit;
  }
}

TEST(BudgetState, EveryMissingEndIsFound) {
  const std::string good = serialise(busy_state());
  for (std::size_t length = 0; length < good.size(); ++length)
    ASSERT_FALSE(readable(std::string_view(good).substr(0, length))) << "length " << length;
}

TEST(BudgetState, WhatFollowsTheEndIsFound) {
  const std::string good = serialise(busy_state());
  EXPECT_FALSE(readable(good + '\0'));
  EXPECT_FALSE(readable(good + good));
}

TEST(BudgetState, SaysWhatIsWrong) {
  const auto why = [](std::string_view bytes) {
    return std::get<unusable>(parse_budget(bytes)).why;
  };
  const std::string good = serialise(busy_state());
  std::string damaged = good;
  damaged[100] = static_cast<char>(damaged[100] ^ 1);
  EXPECT_EQ(why(""), "is empty");
  EXPECT_EQ(why("{\"limit\": 10}"), "is no budget file");
  EXPECT_EQ(why(std::string_view(good).substr(0, 200)), "ends too early");
  EXPECT_EQ(why(damaged), "is damaged (checksum)");
}

// The checksum is right here: only a writer that is broken makes such files.
TEST(BudgetState, ValuesThatMakeNoSenseAreRefused) {
  const auto readable_with = [](auto change) {
    budget_state s = busy_state();
    change(s);
    return readable(serialise(s));
  };
  EXPECT_TRUE(readable_with([](budget_state&) {}));
  EXPECT_FALSE(readable_with([](budget_state& s) { s.record.tracks[0].guard = -1s; }));
  EXPECT_FALSE(readable_with([](budget_state& s) { s.record.tracks[0].rate = 0; }));
  EXPECT_FALSE(readable_with([](budget_state& s) { s.record.tracks[1].last_cost = -1; }));
  EXPECT_FALSE(readable_with([](budget_state& s) { s.settings.limits[0].amount = 0; }));
  EXPECT_FALSE(readable_with([](budget_state& s) { s.settings.limits[2].window = 0s; }));
}

TEST(BudgetState, AUsedUpBudgetWaitsOneWindow) {
  budget_settings settings;
  settings.limits = {limit{10, 60s}};
  for (const pace shape : {pace::smooth, pace::burst}) {
    const budget_state s = used_up_budget(settings, "boot", start);
    ring r(settings.limits, shape, s.record);
    instant now = start;
    for (int i = 0; i < 10; ++i) {
      now = r.forecast(now, call_cost()).value();
      ASSERT_EQ(now, start + 62s + i * 6200ms);  // the window after a cool-down is smooth
      r.grant(now, call_cost());
    }
  }
}

TEST(BudgetState, LongNamesAreCut) {
  budget_state s = busy_state();
  s.line.front().job = std::string(1000, 'j');
  const auto read = std::get<budget_state>(parse_budget(serialise(s)));
  EXPECT_EQ(read.line.front().job, std::string(64, 'j'));
}

}  // namespace
}  // namespace sluice::pipeline
