// kill -9 at random moments: what was reported is kept, and little is paid for twice.
#include "tests/support/kill_trial.hpp"

namespace sluice {
namespace {

TEST(Kill, TwentyTimesAndNothingIsLostOrDoubled) {
  testing::kill_until_done(20, 400, 20);
}

}  // namespace
}  // namespace sluice
