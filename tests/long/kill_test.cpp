// The kill trial at length: two hundred kills in four batches.
#include "tests/support/kill_trial.hpp"

namespace sluice {
namespace {

class LongKill : public ::testing::TestWithParam<unsigned> {};

TEST_P(LongKill, FiftyTimesAndNothingIsLostOrDoubled) {
  testing::kill_until_done(50, 2000, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Seeds, LongKill, ::testing::Values(1U, 2U, 3U, 4U));

}  // namespace
}  // namespace sluice
