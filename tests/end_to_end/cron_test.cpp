// The line that people paste into their crontab, run as cron would: by sh, with little around it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/sluice_process.hpp"

namespace sluice {
namespace {

using testing::desk;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The command of the only line that is no comment: what follows the five fields of the time.
std::string pasted_command() {
  std::ifstream in(std::string(SLUICE_SOURCE_DIR) + "/scripts/cron/nightly.crontab");
  std::string command;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.front() == '#') continue;
    EXPECT_EQ(command, "") << "two lines";
    std::istringstream words(line);
    std::string field;
    for (int i = 0; i < 5; ++i) words >> field;
    std::getline(words >> std::ws, command);
  }
  return command;
}

// A home with the program in ~/.local/bin, the configuration and two documents.
void furnish(desk& d, const fixtures::fake_endpoint& endpoint) {
  d.environment = {{"HOME", d.folder.at("")}, {"SHELL", "/bin/sh"}, {"PATH", "/usr/bin:/bin"}};
  d.folder.write("documents/a.txt", "one");
  d.folder.write("documents/b.md", "two");
  d.folder.write(".config/sluice/nightly.toml",
                 "endpoint = \"" + endpoint.url() + "\"\nmodel = \"m\"\nlimit = [\"none\"]\n");
  const std::filesystem::path bin = d.folder.at(".local/bin");
  std::filesystem::create_directories(bin);
  std::filesystem::create_symlink(SLUICE_PROGRAM, bin / "sluice");
}

testing::process_end at_two_in_the_morning(const desk& d) {
  testing::process_options o = d.prepare({"-c", pasted_command()});
  o.program = "/bin/sh";
  return testing::run_process(o);
}

TEST(Cron, TheLineWorksAsPastedAndSaysNothingWhenAllIsWell) {
  const fixtures::fake_endpoint endpoint(testing::unlimited());
  desk d;
  furnish(d, endpoint);
  const auto first = at_two_in_the_morning(d);
  EXPECT_EQ(first.exit, 0);
  EXPECT_THAT(first.out, IsEmpty());
  EXPECT_THAT(first.err, IsEmpty());
  EXPECT_EQ(testing::calls(endpoint), 2U);
  // The next night has nothing left to do.
  EXPECT_EQ(at_two_in_the_morning(d).exit, 0);
  EXPECT_EQ(testing::calls(endpoint), 2U);
}

TEST(Cron, TheMailNamesWhatFailedAndTheCommandToTakeItUp) {
  const fixtures::fake_endpoint endpoint(testing::unlimited());
  desk d;
  furnish(d, endpoint);
  d.folder.write("documents/c.txt", "");
  const auto end = at_two_in_the_morning(d);
  EXPECT_EQ(end.exit, 3);
  EXPECT_THAT(end.err, HasSubstr("event=remedy"));
  EXPECT_THAT(end.err, HasSubstr("sluice rerun --store"));
}

}  // namespace
}  // namespace sluice
