// What people do to a program by mistake, at night and in a hurry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/sluice_process.hpp"

namespace sluice {
namespace {

using testing::desk;
using ::testing::HasSubstr;

std::string beginning(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(6, ' ');
  in.read(text.data(), 6);
  return text;
}

TEST(Mistakes, AStoreNamedAsABudgetIsLeftAlone) {
  const fixtures::fake_endpoint endpoint(testing::unlimited());
  const desk d(endpoint);
  d.folder.write("in.jsonl", testing::numbered_documents(2));
  ASSERT_EQ(d.sluice({"run", "in.jsonl"}).exit, 0);
  EXPECT_EQ(d.sluice({"budget", "init", "sluice.db", "--limit", "1/1s"}).exit, 78);
  const auto run = d.sluice({"run", "in.jsonl", "--again", "--store", "b.db", "--budget",
                             "sluice.db", "--limit", "10/60s"});
  EXPECT_EQ(run.exit, 78) << run.err;
  EXPECT_THAT(run.err, HasSubstr("SQLite"));
  EXPECT_EQ(beginning(d.folder.at("sluice.db")), "SQLite");
  EXPECT_EQ(d.results().size(), 2U);
}

TEST(Mistakes, ABudgetThatIsNoFileIsRefused) {
  const fixtures::fake_endpoint endpoint(testing::unlimited());
  const desk d(endpoint);
  d.folder.write("in.jsonl", testing::numbered_documents(1));
  const auto run = d.sluice({"run", "in.jsonl", "--limit", "10/60s", "--budget", "."});
  EXPECT_EQ(run.exit, 78) << run.err;
  EXPECT_THAT(run.err, HasSubstr("no regular file"));
  EXPECT_EQ(testing::calls(endpoint), 0U);
}

TEST(Mistakes, AFolderWhereAFileIsMeantIsSaid) {
  const desk d;
  d.folder.write("in.jsonl", testing::numbered_documents(1));
  ASSERT_EQ(d.sluice({"run", "in.jsonl", "--fake"}).exit, 0);
  EXPECT_EQ(d.sluice({"rerun", "--ids-from", "."}).exit, 65);
  EXPECT_EQ(d.sluice({"run", "in.jsonl", "--fake", "--config", "."}).exit, 78);
}

TEST(Mistakes, ASummaryThatCannotBeWrittenIsAFailure) {
  const fixtures::fake_endpoint endpoint(testing::unlimited());
  const desk d(endpoint);
  d.folder.write("in.jsonl", testing::numbered_documents(1));
  auto o = d.prepare({"-c", std::string(SLUICE_PROGRAM) + " run in.jsonl --json >/dev/full"});
  o.program = "/bin/sh";
  EXPECT_EQ(testing::run_process(o).exit, 74);
}

TEST(Mistakes, TooFewFileDescriptorsAreSaidBeforeAnything) {
  const fixtures::fake_endpoint endpoint(testing::unlimited());
  const desk d(endpoint);
  d.folder.write("in.jsonl", testing::numbered_documents(1));
  auto o = d.prepare({"run", "in.jsonl"});
  o.most_files = 19;
  const auto end = testing::run_process(o);
  EXPECT_EQ(end.exit, 74);
  EXPECT_THAT(end.err, HasSubstr("raise ulimit -n"));
  EXPECT_EQ(testing::calls(endpoint), 0U);
  EXPECT_FALSE(std::filesystem::exists(d.folder.at("sluice.db")));
  o.most_files = 20;
  EXPECT_EQ(testing::run_process(o).exit, 0);
}

TEST(Mistakes, ResultsWrittenOverAFileLeaveItsRightsAndLinks) {
  const fixtures::fake_endpoint endpoint(testing::unlimited());
  const desk d(endpoint);
  namespace fs = std::filesystem;
  d.folder.write("in.jsonl", testing::numbered_documents(1));
  ASSERT_EQ(d.sluice({"run", "in.jsonl"}).exit, 0);
  const fs::path mine = d.folder.write("kept/mine.jsonl", "before");
  fs::permissions(mine, fs::perms(0600));
  fs::create_symlink("kept/mine.jsonl", d.folder.at("link.jsonl"));
  EXPECT_EQ(d.sluice({"results", "-o", "link.jsonl"}).exit, 0);
  EXPECT_TRUE(fs::is_symlink(d.folder.at("link.jsonl")));
  EXPECT_EQ(fs::status(mine).permissions(), fs::perms(0600));
  EXPECT_EQ(beginning(mine), "{\"id\":");
}

TEST(Mistakes, ARecordOfABatchThatIsFinishedIsSaidToBeEmpty) {
  const fixtures::fake_endpoint endpoint(testing::unlimited());
  const desk d(endpoint);
  d.folder.write("in.jsonl", testing::numbered_documents(1));
  ASSERT_EQ(d.sluice({"run", "in.jsonl"}).exit, 0);
  const auto end = d.sluice({"run", "in.jsonl", "--record", "answers.jsonl"});
  EXPECT_EQ(end.exit, 0);
  EXPECT_THAT(end.err, HasSubstr("--again asks anew"));
  EXPECT_EQ(d.sluice({"run", "in.jsonl", "--record", "answers.jsonl", "--again"})
                .err.find("--again asks anew"),
            std::string::npos);
}

TEST(Mistakes, AStoreRemovedDuringTheRunIsNoSuccess) {
  fixtures::fake_options slow = testing::unlimited();
  slow.latency_min = slow.latency_max = std::chrono::milliseconds(400);
  const fixtures::fake_endpoint endpoint(slow);
  const desk d(endpoint);
  d.folder.write("in.jsonl", testing::numbered_documents(4));
  testing::process run(d.prepare({"run", "in.jsonl", "--concurrency", "1"}));
  ASSERT_TRUE(run.says("event=model_call_ok"));
  for (const char* name : {"sluice.db", "sluice.db-wal", "sluice.db-shm"})
    std::filesystem::remove(d.folder.at(name));
  const auto end = run.wait();
  EXPECT_EQ(end.exit, 74) << end.err;
  EXPECT_THAT(end.err, HasSubstr("removed or replaced"));
}

}  // namespace
}  // namespace sluice
