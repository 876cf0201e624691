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

}  // namespace
}  // namespace sluice::fixtures
