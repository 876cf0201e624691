#include "fixtures/server_limiter.hpp"

#include <gtest/gtest.h>

namespace sluice::fixtures {
namespace {
using namespace std::chrono_literals;

TEST(ServerLimiter, RollingRefusesTheEleventhAndSaysWhenItFits) {
  server_limiter server({10, 60s, window_kind::rolling, false});
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(server.arrive(instant(i * 1s)));
  const auto refused = server.arrive(instant(10s));
  ASSERT_TRUE(refused);
  EXPECT_EQ(*refused, duration(50s));
  EXPECT_FALSE(server.arrive(instant(60s)));
  EXPECT_TRUE(server.arrive(instant(60s)));
}

TEST(ServerLimiter, CountingRefusalsKeepsAHammeringClientOut) {
  server_limiter server({2, 10s, window_kind::rolling, true});
  EXPECT_FALSE(server.arrive(instant(0s)));
  EXPECT_FALSE(server.arrive(instant(0s)));
  for (int i = 1; i < 30; ++i) EXPECT_TRUE(server.arrive(instant(i * 1s)));
  EXPECT_FALSE(server.arrive(instant(40s)));
}

TEST(ServerLimiter, FixedWindowsStartAfreshAtTheirBorder) {
  server_limiter server({1, 10s, window_kind::fixed, false});
  EXPECT_FALSE(server.arrive(instant(9s)));
  EXPECT_EQ(server.arrive(instant(9500ms)), std::optional<duration>(500ms));
  EXPECT_FALSE(server.arrive(instant(10s)));
}

TEST(ServerLimiter, StrictAdmitsOnePerShareOfTheWindow) {
  server_limiter server({10, 60s, window_kind::strict, false});
  EXPECT_FALSE(server.arrive(instant(0s)));
  EXPECT_TRUE(server.arrive(instant(5900ms)));
  EXPECT_FALSE(server.arrive(instant(6s)));
}

TEST(ServerLimiter, BucketRefillsEvenly) {
  server_limiter server({10, 10s, window_kind::bucket, false});
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(server.arrive(instant(0s)));
  EXPECT_TRUE(server.arrive(instant(900ms)));
  EXPECT_FALSE(server.arrive(instant(1100ms)));
}

TEST(ServerLimiter, SaysWhenTheNextPartOfTheBudgetComesBack) {
  struct row {
    window_kind kind;
    duration after_one_call;
  };
  for (const row& r :
       {row{window_kind::rolling, 8s}, row{window_kind::fixed, 7s}, row{window_kind::strict, 0s}}) {
    server_limiter server({10, 10s, r.kind, false});
    EXPECT_FALSE(server.arrive(instant(1s)));
    EXPECT_EQ(server.until_release(instant(3s)), r.after_one_call) << static_cast<int>(r.kind);
  }
  server_limiter fresh({10, 10s, window_kind::rolling, false});
  EXPECT_EQ(fresh.until_release(instant(3s)), duration{});
  server_limiter hammered({1, 10s, window_kind::rolling, true});
  for (int i = 0; i < 5; ++i) hammered.arrive(instant(i * 1s));
  EXPECT_EQ(hammered.until_release(instant(4s)), duration(10s));
}

}  // namespace
}  // namespace sluice::fixtures
