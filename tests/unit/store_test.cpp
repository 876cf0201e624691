#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "pipeline/outcomes/queries.hpp"
#include "pipeline/outcomes/run_lock.hpp"
#include "pipeline/outcomes/schema.hpp"
#include "tests/support/store_fixture.hpp"

namespace sluice::pipeline {
namespace {

using sluice::testing::called;
using sluice::testing::ended;
using sluice::testing::run_to_end;
using sluice::testing::StoreTest;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Store = StoreTest;

// The code and the words of what `act` throws.
template <class Act>
std::pair<int, std::string> trouble(Act act) {
  try {
    act();
  } catch (const store_error& e) {
    return {e.code(), e.what()};
  }
  return {0, "nothing was thrown"};
}

std::vector<std::string> ids_in(const std::string& path) {
  std::vector<std::string> ids;
  for_each_result(path, std::nullopt, [&](const result_row& r) { ids.push_back(r.id); });
  return ids;
}

std::string checked(const std::string& path) {
  sqlite::database db(path, sqlite::access::read);
  sqlite::statement s(db, "PRAGMA integrity_check");
  s.step();
  return std::string(s.text(0));
}

TEST_F(Store, AReportedOutcomeIsOnDisk) {
  const auto store = begin();
  store->attempt(called("a", 1));
  record(*store, ended("a"));
  EXPECT_THAT(ids_in(path), ::testing::ElementsAre("a"));
  EXPECT_EQ(summarise(path).calls, 1U) << "the attempt before it as well";
}

TEST_F(Store, KeepsEverythingOfARecord) {
  using namespace std::chrono_literals;
  {
    const auto store = begin();
    attempt_record a = called("a", 1, 429);
    a.request_id = "req-1";
    a.hints = "retry-after=52";
    a.detail = "slow down";
    a.raw_body = std::string("{\0}", 3);
    a.tokens.prompt_tokens = 12;
    a.took.connect = 3ms;
    a.took.total = 1500ms;
    a.queued = 6200ms;
    a.retry_after = 52s;
    a.jitter = 1234567ns;
    a.may_have_been_billed = true;
    a.sent_at = clock.wall;
    store->attempt(a);
    record(*store, ended("a"));
  }
  sqlite::database db(path, sqlite::access::read);
  sqlite::statement s(
      db,
      "SELECT attempt, reason, http_status, sent_ms, queued_ns, connect_ns, tls_ns, "
      "total_ns, retry_after_ns, jitter_ns, prompt_tokens, completion_tokens, "
      "may_be_billed, request_id, hints, detail, raw_body FROM attempts");
  ASSERT_TRUE(s.step());
  EXPECT_EQ(s.integer(0), 1);
  EXPECT_EQ(s.text(1), "rate_limited");
  EXPECT_EQ(s.integer(2), 429);
  EXPECT_EQ(s.integer(3), clock.wall.time_since_epoch().count());
  EXPECT_EQ(s.time(4), 6200ms);
  EXPECT_EQ(s.time(5), 3ms);
  EXPECT_TRUE(s.null(6));
  EXPECT_EQ(s.time(7), 1500ms);
  EXPECT_EQ(s.time(8), 52s);
  EXPECT_EQ(s.time(9), 1234567ns);
  EXPECT_EQ(s.integer(10), 12);
  EXPECT_TRUE(s.null(11)) << "unknown is not 0";
  EXPECT_EQ(s.integer(12), 1);
  EXPECT_EQ(s.text(13), "req-1");
  EXPECT_EQ(s.text(14), "retry-after=52");
  EXPECT_EQ(s.text(15), "slow down");
  EXPECT_EQ(s.text(16), std::string_view("{\0}", 3));
}

TEST_F(Store, ASecondOutcomeOfADocumentInOneRunIsRefused) {
  const auto store = begin();
  record(*store, ended("a"));
  EXPECT_THROW(record(*store, ended("a", retry::outcome::failed)), std::logic_error);
  record(*store, ended("b"));
  EXPECT_EQ(summarise(path).succeeded, 2U) << "the first one stands, and others are written";
}

TEST_F(Store, AnOutcomeNeedsARun) {
  const auto store = open();
  EXPECT_THROW(record(*store, ended("a")), std::logic_error);
}

TEST_F(Store, ManyWaitingAtOnceAreAllTold) {
  const auto store = begin();
  constexpr int many = 500;
  int told = 0;
  for (int i = 0; i < many; ++i)
    boost::asio::co_spawn(io, store->outcome(ended("d" + std::to_string(i))),
                          [&](std::exception_ptr e) {
                            EXPECT_FALSE(e);
                            ++told;
                          });
  io.restart();
  io.run();
  EXPECT_EQ(told, many);
  EXPECT_EQ(ids_in(path).size(), static_cast<std::size_t>(many));
}

TEST_F(Store, ClosingWritesWhatIsQueued) {
  {
    const auto store = begin();
    record(*store, ended("a"));
    store->attempt(called("b", 1));
  }
  EXPECT_EQ(summarise(path).calls, 1U);
}

TEST_F(Store, FindsTheLatestOutcomeOfEarlierRunsAlone) {
  {
    const auto first = begin();
    EXPECT_FALSE(first->find("a"));
    outcome_record r = ended("a", retry::outcome::failed, retry::reason::timed_out,
                             retry::outcome_class::transient);
    r.inputs[0] = 1;
    record(*first, r);
    record(*first, ended("b"));
  }
  {
    const auto second = begin();
    outcome_record r = ended("a");
    r.inputs[0] = 2;
    const auto before = second->find("a");
    ASSERT_TRUE(before);
    EXPECT_EQ(before->outcome, retry::outcome::failed);
    EXPECT_EQ(before->kind, retry::outcome_class::transient);
    EXPECT_EQ(before->why, retry::reason::timed_out);
    EXPECT_EQ(before->inputs[0], 1);
    record(*second, r);
    EXPECT_EQ(second->find("a")->outcome, retry::outcome::failed) << "its own do not count";
    EXPECT_FALSE(second->find("c"));
  }
  const auto third = open();
  EXPECT_EQ(third->find("a")->inputs[0], 2);
  EXPECT_EQ(third->find("b")->outcome, retry::outcome::succeeded);
}

TEST_F(Store, AnyIdIsData) {
  const std::string ids[] = {"../../etc/x",
                             "'; DROP TABLE runs; --",
                             std::string(1024, 'x'),
                             std::string(1024, 'x') + "y",
                             "con",
                             "a\nb",
                             "\xF0\x9F\x98\x80",
                             " "};
  {
    const auto store = begin();
    for (const auto& id : ids) record(*store, ended(id));
  }
  EXPECT_THAT(ids_in(path), ::testing::ElementsAreArray(ids));
  const auto again = open();
  for (const auto& id : ids) EXPECT_TRUE(again->find(id)) << id;
}

TEST_F(Store, RunIdsSortByTimeAlsoWhenTheClockGoesBack) {
  std::vector<std::string> ids;
  const auto next = [&](std::chrono::seconds step) {
    clock.wall += step;
    std::string id;
    begin(&id);
    ids.push_back(id);
  };
  for (const int step : {0, 0, 1, 3600, -7200, 0, -1, 9000}) next(std::chrono::seconds(step));
  EXPECT_TRUE(ids[0].starts_with("20261130T061803Z-")) << ids[0];
  for (std::size_t i = 1; i < ids.size(); ++i) EXPECT_LT(ids[i - 1], ids[i]);
}

TEST_F(Store, RunIdsGoOnWhenTheNumbersOfASecondAreUsedUp) {
  std::vector<std::string> ids(3);
  begin(&ids[0]);
  {
    sqlite::database db(path, sqlite::access::write);
    db.execute("UPDATE runs SET id = '20991231T235959Z-ffff'");
  }
  ids[0] = "20991231T235959Z-ffff";
  begin(&ids[1]);
  begin(&ids[2]);
  EXPECT_LT(ids[0], ids[1]);
  EXPECT_LT(ids[1], ids[2]);
}

TEST_F(Store, IsForItsOwnerAlone) {
  begin();
  for (const char* suffix : {"", ".lock"}) {
    struct stat info {};
    ASSERT_EQ(::stat((path + suffix).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U) << suffix;
  }
}

TEST_F(Store, ASecondRunIsTurnedAwayWithThePidOfTheFirst) {
  const auto first = begin();
  const auto [code, words] = trouble([&] { open(); });
  EXPECT_EQ(code, 75);
  EXPECT_THAT(words, HasSubstr("process " + std::to_string(::getpid())));
  std::filesystem::create_symlink(path, folder.at("other.db"));
  path = folder.at("other.db");
  EXPECT_EQ(trouble([&] { open(); }).first, 75) << "by another name it is the same store";
}

TEST_F(Store, ALockFileLeftBehindMeansNothing) {
  folder.write("sluice.db.lock", "4711\n");
  EXPECT_NO_THROW(begin());
  EXPECT_NO_THROW(begin());
}

TEST_F(Store, TurnsAwayWhatItCannotUse) {
  folder.write("text.db", std::string(4096, 'x'));
  folder.write("file", "");
  std::filesystem::create_directory(folder.at("dir"));
  const auto make = [&](const char* name, const char* sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(folder.at(name).c_str(), &db), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
  };
  make("foreign.db", "CREATE TABLE t (x); PRAGMA application_id = 42");
  make("plain.db", "CREATE TABLE t (x)");
  make("newer.db",
       "CREATE TABLE t (x); PRAGMA application_id = 1399612261; PRAGMA user_version = 99");
  struct {
    const char* name;
    int code;
    const char* words;
  } const rows[] = {
      {"text.db", 74, "not a store of Sluice"},
      {"foreign.db", 74, "belongs to another program"},
      {"plain.db", 74, "belongs to another program"},
      {"newer.db", 78, "newer Sluice (version 99"},
      {"none/sluice.db", 74, "check that the folder exists"},
      {"file/sluice.db", 74, "check that the folder exists"},
      {"dir", 74, "is a folder"},
  };
  for (const auto& row : rows) {
    path = folder.at(row.name);
    const auto [code, words] = trouble([&] { open(); });
    EXPECT_EQ(code, row.code) << row.name << ": " << words;
    EXPECT_THAT(words, AllOf(HasSubstr(row.words), HasSubstr(row.name)));
  }
  path = "";
  EXPECT_EQ(trouble([&] { open(); }).first, 74);
}

TEST_F(Store, ANewerStoreIsLeftAsItIs) {
  begin();
  {
    sqlite::database db(path, sqlite::access::write);
    db.execute("PRAGMA user_version = 1000; PRAGMA journal_mode = DELETE");
  }
  const auto before = std::filesystem::last_write_time(path);
  EXPECT_EQ(trouble([&] { open(); }).first, 78);
  EXPECT_EQ(trouble([&] { summarise(path); }).first, 78);
  EXPECT_EQ(std::filesystem::last_write_time(path), before);
}

TEST_F(Store, AReadOnlyFileIsRefusedAtTheStart) {
  const uid_t me = ::geteuid();  // only root has to become somebody with fewer rights
  begin();
  namespace fs = std::filesystem;
  fs::permissions(folder.at(""), fs::perms(0777));
  fs::permissions(path, fs::perms(0444));
  fs::permissions(path + ".lock", fs::perms(0666));
  if (me == 0) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const auto [code, words] = trouble([&] { open(); });
  if (me == 0) {
    ASSERT_EQ(::seteuid(me), 0);
  }
  EXPECT_EQ(code, 74);
  EXPECT_THAT(words, HasSubstr("the right to write"));
}

TEST_F(Store, StepsLeadFromEachVersionToTheLast) {
  begin();
  const int last = schema::steps().back().to;
  std::vector<schema::step> longer(schema::steps().begin(), schema::steps().end());
  longer.push_back({last + 1, "ALTER TABLE runs ADD COLUMN extra TEXT DEFAULT 'x'"});
  longer.push_back({last + 2, "UPDATE runs SET extra = extra || 'y'"});
  sqlite::database db(path, sqlite::access::write);
  schema::bring_up_to_date(db, longer);
  EXPECT_EQ(schema::version_of(db, longer), last + 2);
  sqlite::statement s(db, "SELECT extra FROM runs");
  ASSERT_TRUE(s.step());
  EXPECT_EQ(s.text(0), "xy");
}

// As the first version wrote it: the line and the document of the same name were one.
TEST_F(Store, TheSecondVersionTellsLinesFromDocuments) {
  path = folder.write("first.db", "");
  {
    sqlite::database db(path, sqlite::access::write);
    schema::bring_up_to_date(db, schema::steps().first(1));
    db.execute(R"sql(
      INSERT INTO runs VALUES (1, 'r', 1, 2, 3, 'run', 'e', 'm', '{}', '[]', NULL);
      INSERT INTO documents VALUES (1, 'a'), (2, 'f:2'), (3, 'g:1');
      INSERT INTO outcomes
        SELECT d.number, 1, v.column2, v.column3, 'none', 1, 0, NULL, NULL, 0, 0, 1, zeroblob(16),
               'jsonl_line', 'f', v.column4, '', '', '', ''
        FROM documents d JOIN (VALUES (1, 'succeeded', 'ok', 1), (2, 'failed', 'input_error', 2),
                                      (3, 'succeeded', 'ok', 7)) v ON v.column1 = d.number;
    )sql");
  }
  const rerun_choice before = rerun_targets(path, std::nullopt, selection::ids, {"f:2"});
  ASSERT_EQ(before.targets.size(), 1U) << "an older store can be read as it is";
  EXPECT_FALSE(before.targets[0].from.unnamed);
  const auto store = open();
  EXPECT_TRUE(store->find("a"));
  EXPECT_FALSE(store->find("f:2"));
  EXPECT_TRUE(store->find("g:1"));
  const rerun_choice after = rerun_targets(path, std::nullopt, selection::ids, {"f:2", "g:1"});
  ASSERT_EQ(after.targets.size(), 2U);
  EXPECT_TRUE(after.targets[0].from.unnamed);
  EXPECT_FALSE(after.targets[1].from.unnamed);
}

TEST_F(Store, ALineIsNeverTakenForTheDocumentOfThatName) {
  {
    const auto store = begin();
    record(*store, ended("f:2"));
  }
  const auto store = begin();
  outcome_record line = ended("f:2");
  line.outcome = retry::outcome::failed;
  line.why = retry::reason::input_error;
  line.from.unnamed = true;
  record(*store, line);
  const auto prior = store->find("f:2");
  ASSERT_TRUE(prior);
  EXPECT_EQ(prior->outcome, retry::outcome::succeeded);
  const summary s = summarise(path);
  EXPECT_EQ(s.succeeded, 1U);
  EXPECT_EQ(s.failed, 1U);
  EXPECT_EQ(rerun_targets(path, std::nullopt, selection::ids, {"f:2"}).targets.size(), 2U);
}

TEST_F(Store, AStepThatFailsLeavesTheVersionBefore) {
  begin();
  const int last = schema::steps().back().to;
  std::vector<schema::step> broken(schema::steps().begin(), schema::steps().end());
  broken.push_back({last + 1, "ALTER TABLE runs ADD COLUMN extra TEXT"});
  broken.push_back({last + 2, "no SQL at all"});
  sqlite::database db(path, sqlite::access::write);
  EXPECT_THROW(schema::bring_up_to_date(db, broken), storage_failure);
  EXPECT_EQ(schema::version_of(db, broken), last);
  EXPECT_EQ(db.number("SELECT count(*) FROM pragma_table_info('runs') WHERE name = 'extra'"), 0);
}

TEST_F(Store, AReaderHoldingAnOldViewHoldsNobodyUp) {
  const auto store = begin();
  record(*store, ended("a"));
  sqlite::database reader(path, sqlite::access::read);
  reader.execute("BEGIN");
  ASSERT_EQ(reader.number("SELECT count(*) FROM outcomes"), 1);
  outcome_record big = ended("b");
  big.text.assign(std::size_t{12} << 20U, 'x');  // enough to ask for a checkpoint
  record(*store, big);
  record(*store, ended("c"));
  EXPECT_EQ(reader.number("SELECT count(*) FROM outcomes"), 1);
  reader.execute("COMMIT");
  EXPECT_EQ(reader.number("SELECT count(*) FROM outcomes"), 3);
}

TEST_F(Store, AnotherProgramsWriteLockIsWaitedFor) {
  const auto store = begin();
  sqlite::database other(path, sqlite::access::write);
  other.execute("BEGIN IMMEDIATE");
  bool told = false;
  boost::asio::co_spawn(io, store->outcome(ended("a")), [&](std::exception_ptr e) {
    EXPECT_FALSE(e);
    told = true;
  });
  io.restart();
  io.poll();
  EXPECT_FALSE(told);
  other.execute("COMMIT");
  io.run();
  EXPECT_TRUE(told);
}

// What a process killed with -9 leaves behind.

// Writes outcomes one after the other and names each on `report` once it is said to be on disk.
[[noreturn]] void write_until_killed(const std::string& path, int report) {
  boost::asio::io_context io;
  sluice::testing::standing_clock clock;
  run_store store(io.get_executor(), clock, path);
  const std::string run = store.begin_run(run_info());
  for (int i = 0;; ++i) {
    const std::string id = run + "/" + std::to_string(i);
    store.attempt(called(id, 1));
    run_to_end(io, store.outcome(ended(id)));
    const std::string line = id + "\n";
    if (::write(report, line.data(), line.size()) < 0) ::_exit(1);
  }
}

TEST_F(Store, AKillLosesNothingThatWasReported) {
  std::vector<std::string> reported;
  for (int round = 0; round < 5; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      write_until_killed(path, ends[1]);
    }
    ::close(ends[1]);
    std::string text;
    char buffer[4096];
    const auto lines = [&] { return std::count(text.begin(), text.end(), '\n'); };
    while (lines() < 5 + 17 * round) {
      const ssize_t n = ::read(ends[0], buffer, sizeof buffer);
      if (n <= 0) break;
      text.append(buffer, static_cast<std::size_t>(n));
    }
    ::kill(child, SIGKILL);
    ssize_t n = 0;
    while ((n = ::read(ends[0], buffer, sizeof buffer)) > 0)
      text.append(buffer, static_cast<std::size_t>(n));
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself, round " << round;
    ASSERT_GE(lines(), 5 + 17 * round);
    std::size_t from = 0;
    for (std::size_t to; (to = text.find('\n', from)) != std::string::npos; from = to + 1)
      reported.push_back(text.substr(from, to - from));
  }
  EXPECT_TRUE(summarise(path).unfinished);
  const auto kept = ids_in(path);
  const std::set<std::string> there(kept.begin(), kept.end());
  for (const std::string& id : reported) EXPECT_TRUE(there.contains(id)) << id;
  EXPECT_LE(there.size(), reported.size() + 5) << "at most the one in flight each time";
  EXPECT_EQ(checked(path), "ok");
  EXPECT_NO_THROW(begin()) << "the lock went with the process";
}

// A disk without room, played by a limit on the size of files.
TEST_F(Store, AFullDiskEndsTheRunAndKeepsWhatWasReported) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    std::string said;
    int written = 0;
    int code = 0;
    {
      boost::asio::io_context inner;
      run_store store(inner.get_executor(), clock, path);
      store.begin_run(run_info());
      const rlimit limit{300'000, 300'000};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      for (; written < 1000 && code == 0; ++written) {
        outcome_record r = ended("d" + std::to_string(written));
        r.text.assign(10'000, 'x');
        const auto [c, words] = trouble([&] { run_to_end(inner, store.outcome(std::move(r))); });
        code = c;
        said = words;
        if (code != 0) break;
      }
      // It stays so, for every outcome and for the end of the run; attempts are passed over.
      store.attempt(called("x", 1));
      if (trouble([&] { run_to_end(inner, store.outcome(ended("x"))); }).first != 74) code = 1;
      if (trouble([&] { store.finish_run(0, "{}"); }).first != 74) code = 1;
    }
    said = std::to_string(written) + " " + said;
    if (::write(ends[1], said.data(), said.size()) < 0) code = 2;
    ::_exit(code);
  }
  ::close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 74) << said;
  EXPECT_THAT(said, AllOf(HasSubstr(path), HasSubstr("run the same command again")));
  const auto written = static_cast<std::uint64_t>(std::stoi(said));
  EXPECT_GT(written, 5U);
  EXPECT_EQ(summarise(path).succeeded, written);
  EXPECT_EQ(checked(path), "ok");
}

}  // namespace
}  // namespace sluice::pipeline
