// What somebody sees who has just built the program: help, the version, and a first batch against
// the fake endpoint inside, with no key and no server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/sluice_process.hpp"

namespace sluice {
namespace {

using testing::desk;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Start, AFirstBatchSucceedsAndRecoversFromARefusal) {
  const desk d;
  const auto end = d.sluice({"run", SLUICE_SOURCE_DIR "/fixtures/documents", "--fake"});
  ASSERT_EQ(end.exit, 0) << ::testing::PrintToString(end);
  EXPECT_GE(testing::lines_with(end.err, "status=429"), 1U);
  const auto status = d.status();
  EXPECT_GE(status["documents"], 10);
  EXPECT_EQ(status["succeeded"], status["documents"]);
  EXPECT_GE(status["rate_limited"], 1);
  EXPECT_GE(status["documents_retried"], 1);
  // The fake one's port is another every time, and no reason to do it all again.
  const auto second = d.sluice({"run", SLUICE_SOURCE_DIR "/fixtures/documents", "--fake"});
  EXPECT_EQ(second.exit, 0);
  EXPECT_THAT(second.err, HasSubstr("othing is left"));
}

TEST(Start, HelpAndVersionNeedNothing) {
  const desk d;
  const auto version = d.sluice({"--version"});
  EXPECT_EQ(version.exit, 0);
  EXPECT_THAT(version.out, StartsWith("sluice "));
  const auto help = d.sluice({"--help"});
  EXPECT_EQ(help.exit, 0);
  for (const char* command : {"run", "rerun", "status", "results", "fake-endpoint"}) {
    EXPECT_THAT(help.out, HasSubstr(command));
    const auto more = d.sluice({command, "--help"});
    EXPECT_EQ(more.exit, 0) << command;
    EXPECT_THAT(more.out, HasSubstr("--")) << command;
    EXPECT_EQ(more.err, "") << command;
  }
  EXPECT_THAT(d.sluice({"run", "--help"}).out, HasSubstr("--limit"));
}

}  // namespace
}  // namespace sluice
