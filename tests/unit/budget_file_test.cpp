// Jobs that share a budget's file, on simulated time: two or three instances in this process are
// strangers to each other as far as the locks are concerned.
#include "pipeline/admission/budget_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <deque>
#include <filesystem>
#include <functional>

#include "fixtures/simulation/memory_budget.hpp"
#include "fixtures/simulation/sim_clock.hpp"
#include "pipeline/admission/admission.hpp"
#include "tests/support/scratch_folder.hpp"

namespace sluice::pipeline {
namespace {

using namespace std::chrono_literals;

// Jobs that take a number of turns each and note when.
class BudgetFile : public ::testing::Test {
 protected:
  struct job {
    std::shared_ptr<shared_budget> budget;
    std::unique_ptr<admission> turns;
    std::vector<instant> sent;
    std::optional<no_slot> refused;
    std::exception_ptr failure;
    bool done = false;
  };

  sharing how(std::uint64_t client = 1) {
    sharing s;
    s.process = static_cast<std::uint32_t>(client);
    s.client = client;
    s.job = "job" + std::to_string(client);
    s.limits = {limit{}};
    s.warn = [this](const std::string& text) { warnings.push_back(text); };
    return s;
  }

  job& open(std::uint64_t client) { return open(how(client)); }
  job& open(sharing s) {
    job& j = jobs.emplace_back();
    j.budget = std::make_shared<shared_budget>(medium(), std::move(s));
    j.turns = std::make_unique<admission>(clock, j.budget, 15min);
    return j;
  }
  virtual std::unique_ptr<budget_medium> medium() { return open_budget_file(path); }

  asio::awaitable<void> take(job& j, int turns) {
    for (int i = 0; i < turns; ++i) {
      admission::place place(*j.turns, priority{true, static_cast<std::uint64_t>(i)}, call_cost());
      std::function<bool()> ready;
      co_await j.turns->near(place);
      admission::turn turn = co_await j.turns->take(place, ready);
      if (auto* none = std::get_if<no_slot>(&turn)) {
        j.refused = *none;
        co_return;
      }
      j.sent.push_back(clock.now());
      j.turns->finished(std::get<provider::slot>(turn).id());
    }
  }

  void begin(job& j, int turns) {
    j.done = false;
    asio::co_spawn(context, take(j, turns), [&j](std::exception_ptr e) {
      j.failure = e;
      j.done = true;
    });
  }
  void run(duration limit = 2h) {
    clock.run_until(
        [this] {
          return std::all_of(jobs.begin(), jobs.end(), [](const job& j) { return j.done; });
        },
        limit);
    for (const job& j : jobs)
      if (j.failure) std::rethrow_exception(j.failure);
  }
  // Lets time pass with nobody asking.
  void pass(duration length) {
    bool over = false;
    asio::co_spawn(context, nap(length), [&](std::exception_ptr) { over = true; });
    clock.run_until([&] { return over; }, length + 1s);
  }
  asio::awaitable<void> nap(duration length) {
    const auto bell = clock.make_alarm();
    const instant until = clock.now() + length;
    while (clock.now() < until) co_await bell->wait_until(until);
  }

  std::vector<instant> all_sent() const {
    std::vector<instant> all;
    for (const job& j : jobs) all.insert(all.end(), j.sent.begin(), j.sent.end());
    std::sort(all.begin(), all.end());
    return all;
  }
  void never_over(std::size_t calls, duration window) const {
    const auto all = all_sent();
    for (std::size_t i = calls; i < all.size(); ++i)
      ASSERT_GT(all[i] - all[i - calls], window) << "call " << i;
  }
  void init(std::uint32_t max_in_flight = 0) {
    budget_settings s;
    s.limits = {limit{}};
    s.max_in_flight = max_in_flight;
    init_budget(path, s);
  }

  testing::scratch_folder folder;
  std::string path = folder.at("key.budget");
  asio::io_context context{1};
  fixtures::sim_clock clock{context};
  std::vector<std::string> warnings;
  std::deque<job> jobs;
};

TEST_F(BudgetFile, OneAfterTheOtherKeepToOneLimit) {
  init();
  for (std::uint64_t client = 1; client <= 5; ++client) {
    job& j = open(client);
    begin(j, 4);
    run();
    j.budget.reset();
  }
  EXPECT_EQ(all_sent().size(), 20U);
  EXPECT_EQ(all_sent().back() - all_sent().front(), 19 * 6200ms);
  never_over(10, 60s);
}

TEST_F(BudgetFile, TwoAtOnceNeverGoOverAndShareEvenly) {
  for (const pace shape : {pace::smooth, pace::burst}) {
    jobs.clear();
    init();
    for (std::uint64_t client = 1; client <= 2; ++client) {
      sharing s = how(client);
      s.shape = shape;
      begin(open(s), 40);
    }
    run();
    never_over(10, 60s);
    // What the first had before the second was there: one turn, or in burst shape the whole bucket.
    const std::size_t from = shape == pace::smooth ? 1 : 10;
    for (std::size_t i = from; i < 39; ++i) {
      EXPECT_LE(jobs[0].sent[i], jobs[1].sent[i + 1 - from]) << i;
      EXPECT_LE(jobs[1].sent[i - from], jobs[0].sent[i + 1]) << i;
    }
  }
}

TEST_F(BudgetFile, SmoothAndBurstTogetherNeverGoOver) {
  init();
  sharing s = how(1);
  s.shape = pace::burst;
  begin(open(s), 30);
  begin(open(2), 30);
  run();
  EXPECT_EQ(all_sent().size(), 60U);
  never_over(10, 60s);
}

TEST_F(BudgetFile, ACoolDownHoldsEverybodyBack) {
  init();
  for (std::uint64_t client = 1; client <= 3; ++client) begin(open(client), 5);
  pass(7s);
  const std::size_t before = all_sent().size();
  const instant until = clock.now() + 100s;
  jobs[1].turns->cool_down(100s);
  run();
  const auto all = all_sent();
  ASSERT_EQ(all.size(), 15U);
  EXPECT_EQ(all[before], until);
  EXPECT_EQ(all.back() - all[before], static_cast<int>(15 - before - 1) * 6200ms);
  for (const job& j : jobs) EXPECT_FALSE(j.refused);
}

TEST_F(BudgetFile, AnUnexplainedRefusalSlowsEverybodyDown) {
  init();
  begin(open(1), 3);
  run();
  jobs[0].turns->unexplained_refusal(jobs[0].sent.back());
  begin(open(2), 3);
  run();
  // 0.7 of 600/62 calls a window.
  EXPECT_GT(jobs[1].sent[1] - jobs[1].sent[0], 8800ms);
}

TEST_F(BudgetFile, AMissingFileCountsAsJustUsedUp) {
  const instant start = clock.now();
  begin(open(1), 2);
  run();
  EXPECT_EQ(jobs[0].sent[0], start + 62s);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("sluice budget init"), std::string::npos);
}

TEST_F(BudgetFile, ADamagedFileIsKeptAsideAndCountsAsJustUsedUp) {
  for (const std::string_view content : {"", "SLUICEBG", "what is this?"}) {
    init();
    folder.write("key.budget", content);
    const instant start = clock.now();
    jobs.clear();
    begin(open(1), 1);
    run();
    EXPECT_EQ(jobs[0].sent[0], start + 62s);
  }
  ASSERT_EQ(warnings.size(), 3U);
  unsigned aside = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.at("")))
    if (entry.path().filename().string().starts_with("key.budget.bad-")) ++aside;
  EXPECT_GE(aside, 1U);
  EXPECT_NE(warnings[2].find("key.budget.bad-"), std::string::npos);
}

TEST_F(BudgetFile, DamageWhileJobsRunNeverMakesAFullBucket) {
  init();
  for (std::uint64_t client = 1; client <= 2; ++client) begin(open(client), 20);
  pass(40s);
  std::filesystem::resize_file(path, 100);
  run();
  EXPECT_EQ(all_sent().size(), 40U);
  never_over(10, 60s);
}

TEST_F(BudgetFile, AForeignLimitIsRefusedWithBothNamed) {
  init();
  sharing s = how(1);
  s.limits = {limit{20, 60s}};
  s.limits_asked_for = true;
  try {
    open(s);
    FAIL() << "was taken";
  } catch (const budget_misuse& e) {
    EXPECT_EQ(e.code(), 78);
    EXPECT_NE(std::string(e.what()).find("10/60s"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("20/60s"), std::string::npos) << e.what();
  }
  s.limits_asked_for = false;
  EXPECT_EQ(open(s).budget->settings().limits, std::vector{limit{}});
}

TEST_F(BudgetFile, APlannedTurnThatNobodyTakesIsSpent) {
  init();
  // Three calls, then a fourth is planned and its job dies.
  auto killed = std::make_unique<shared_budget>(medium(), how(1));
  const instant start = clock.now();
  ASSERT_EQ(killed->grant(start, call_cost()).what, prospect::kind::granted);
  ASSERT_EQ(killed->look(start, start, call_cost()).when, start + 6200ms);
  begin(open(2), 10);
  run();
  // Of the ten turns that a window has, two are gone.
  EXPECT_EQ(jobs[0].sent[0], start + 12400ms);
  EXPECT_EQ(jobs[0].sent[9], start + 12400ms + 9 * 6200ms);
  const auto record = describe_budget(path).state.record;
  EXPECT_EQ(record.granted, 12U);
}

TEST_F(BudgetFile, APlannedTurnGivenBackIsNotSpent) {
  init();
  begin(open(1), 1);
  run();
  {
    shared_budget quits(medium(), how(2));
    quits.look(clock.now(), clock.now(), call_cost());
    ASSERT_EQ(describe_budget(path).state.line.size(), 1U);
    quits.withdraw(clock.now());
  }
  EXPECT_TRUE(describe_budget(path).state.line.empty());
  EXPECT_EQ(describe_budget(path).state.record.granted, 1U);
}

TEST_F(BudgetFile, AHolderThatIsStoppedIsNamedInTime) {
  init();
  job& j = open(1);
  const int fd = ::open((path + ".lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
  ASSERT_EQ(::ftruncate(fd, 0), 0);
  ASSERT_EQ(::pwrite(fd, "4711\n", 5, 0), 5);
  const instant start = clock.now();
  begin(j, 1);
  run();
  EXPECT_EQ(j.refused, no_slot::refused);
  EXPECT_GE(clock.now() - start, 90s);
  EXPECT_LE(clock.now() - start, 91s);
  EXPECT_NE(j.turns->refusal().find("4711"), std::string::npos) << j.turns->refusal();
  ::close(fd);
}

TEST_F(BudgetFile, ALockThatWasTidiedAwayIsMadeAnew) {
  init();
  for (std::uint64_t client = 1; client <= 2; ++client) begin(open(client), 15);
  pass(20s);
  std::filesystem::remove(path + ".lock");
  run();
  EXPECT_EQ(all_sent().size(), 30U);
  never_over(10, 60s);
  EXPECT_TRUE(std::filesystem::exists(path + ".lock"));
}

TEST_F(BudgetFile, PlacesInFlightAreSharedAndEndWithTheirHolder) {
  const auto a = open_budget_file(path);
  auto b = open_budget_file(path);
  EXPECT_TRUE(a->take_place(3));
  EXPECT_TRUE(b->take_place(3));
  EXPECT_TRUE(b->take_place(3));
  EXPECT_FALSE(a->take_place(3));
  EXPECT_FALSE(a->others_want_place());
  a->want_place(true);
  EXPECT_TRUE(b->others_want_place());
  EXPECT_FALSE(a->others_want_place());
  b->free_place();
  EXPECT_TRUE(a->take_place(3));
  EXPECT_FALSE(a->take_place(3));
  b.reset();
  EXPECT_TRUE(a->take_place(3));
}

TEST_F(BudgetFile, AFolderThatIsNotThereIsAStorageFailure) {
  EXPECT_THROW(open_budget_file(folder.at("none/key.budget")), storage_failure);
}

TEST(NetworkFileSystems, AreKnownByName) {
  EXPECT_EQ(network_file_system(0x6969), "NFS");
  EXPECT_EQ(network_file_system(static_cast<int>(0xFF534D42)), "CIFS");
  EXPECT_TRUE(network_file_system(0x65735546));
  EXPECT_FALSE(network_file_system(0xEF53));      // ext4
  EXPECT_FALSE(network_file_system(0x01021994));  // tmpfs
  EXPECT_FALSE(network_file_system(0x9123683E));  // btrfs
}

// The same jobs on a budget in memory, whose boot and disk are the test's.
class BudgetInMemory : public BudgetFile {
 protected:
  BudgetInMemory() { reset(); }
  void reset() {
    budget_settings s;
    s.limits = {limit{}};
    memory->bytes = serialise(fresh_budget(s, memory->boot));
  }
  std::unique_ptr<budget_medium> medium() override {
    return std::make_unique<fixtures::memory_medium>(memory);
  }
  std::shared_ptr<fixtures::memory_budget> memory = std::make_shared<fixtures::memory_budget>();
};

TEST_F(BudgetInMemory, ARestartOfTheMachineCountsAsJustUsedUp) {
  begin(open(1), 3);
  run();
  memory->boot = "second boot";
  const instant start = clock.now();
  begin(open(2), 1);
  run();
  EXPECT_EQ(jobs[1].sent[0], start + 62s);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("started anew"), std::string::npos);
}

TEST_F(BudgetInMemory, AnInstantAheadOfTheClockCountsAsARestart) {
  budget_settings s;
  s.limits = {limit{}};
  budget_state ahead = fresh_budget(s, memory->boot);
  ring r(s.limits, pace::smooth, ahead.record);
  r.grant(clock.now() + 500h, call_cost());
  ahead.record = r.save();
  memory->bytes = serialise(ahead);
  const instant start = clock.now();
  begin(open(1), 1);
  run();
  EXPECT_EQ(jobs[0].sent[0], start + 62s);
}

TEST_F(BudgetInMemory, ADiskThatFailsStopsTheJob) {
  begin(open(1), 20);
  pass(20s);
  memory->disk_fails = true;
  EXPECT_THROW(run(), storage_failure);
  EXPECT_FALSE(memory->locked);
}

TEST_F(BudgetInMemory, ATurnTooFarOffIsRefusedAtOnceAndCostsNothing) {
  for (std::uint64_t client = 1; client <= 2; ++client) begin(open(client), 10);
  pass(1s);
  sharing s = how(3);
  s.admission_timeout = 1s;
  job& impatient = open(s);
  const std::string before = *memory->bytes;
  begin(impatient, 1);
  pass(1ms);
  EXPECT_EQ(impatient.refused, no_slot::refused);
  EXPECT_EQ(*memory->bytes, before);
  run();
  EXPECT_EQ(jobs[0].sent.size() + jobs[1].sent.size(), 20U);
}

TEST_F(BudgetInMemory, ACoolDownIsNoReasonToBeRefused) {
  begin(open(1), 1);
  run();
  jobs[0].turns->cool_down(10min);
  sharing s = how(2);
  s.admission_timeout = 1s;
  begin(open(s), 1);
  const instant until = clock.now() + 10min;
  run();
  ASSERT_FALSE(jobs[1].refused);
  EXPECT_EQ(jobs[1].sent[0], until);
}

TEST_F(BudgetInMemory, WritesTwiceACallAtMost) {
  for (std::uint64_t client = 1; client <= 3; ++client) begin(open(client), 10);
  run();
  EXPECT_LE(memory->writes, 60U);
}

}  // namespace
}  // namespace sluice::pipeline
