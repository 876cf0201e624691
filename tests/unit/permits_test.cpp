// The in-flight semaphore: handed on in order, retries first, and closed without losing anybody.
#include "pipeline/permits.hpp"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <string>
#include <vector>

#include "fixtures/simulation/sim_clock.hpp"

namespace sluice::pipeline {
namespace {

using namespace std::chrono_literals;

struct crowd {
  explicit crowd(unsigned count) : time(context), gate(time, count) {}

  asio::io_context context;
  fixtures::sim_clock time;
  permits gate;
  std::vector<std::string> let_in;
  std::vector<std::string> sent_away;
  unsigned holding = 0;
  unsigned most = 0;
  unsigned over = 0;

  // Holds a permit for a second.
  asio::awaitable<void> visit(std::string who, priority rank) {
    {
      const permit held = co_await gate.acquire(rank);
      if (!held) {
        sent_away.push_back(who);
      } else {
        let_in.push_back(who);
        most = std::max(most, ++holding);
        const auto bell = time.make_alarm();
        const instant until = time.now() + 1s;
        while (time.now() < until) co_await bell->wait_until(until);
        --holding;
      }
    }
    ++over;
  }

  void send(std::string who, bool fresh, std::uint64_t order) {
    const priority rank{fresh, order};
    asio::co_spawn(context, visit(std::move(who), rank), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
  }

  void run(unsigned all) {
    time.run_until([&] { return over == all; }, 1h);
  }
};

using names = std::vector<std::string>;

TEST(Permits, AreHandedOnInTheOrderOfTheDocumentsRetriesFirst) {
  crowd c(1);
  c.send("holder", true, 1);
  c.send("new 3", true, 3);
  c.send("new 2", true, 2);
  c.send("retry 9", false, 9);
  c.send("new 4", true, 4);
  c.send("retry 5", false, 5);
  c.run(6);
  EXPECT_EQ(c.let_in, (names{"holder", "retry 5", "retry 9", "new 2", "new 3", "new 4"}));
  EXPECT_EQ(c.most, 1U);
}

TEST(Permits, TheSameRankIsServedFirstComeFirstServed) {
  crowd c(1);
  for (const char* who : {"a", "b", "c", "d"}) c.send(who, true, 7);
  c.run(4);
  EXPECT_EQ(c.let_in, (names{"a", "b", "c", "d"}));
}

TEST(Permits, NoMoreAreOutThanThereAre) {
  crowd c(3);
  for (std::uint64_t i = 1; i <= 20; ++i) c.send(std::to_string(i), true, i);
  c.run(20);
  EXPECT_EQ(c.most, 3U);
  EXPECT_EQ(c.let_in.size(), 20U);
}

TEST(Permits, CloseSendsTheWaitingAwayAndLetsTheOthersFinish) {
  crowd c(2);
  for (std::uint64_t i = 1; i <= 5; ++i) c.send(std::to_string(i), true, i);
  while (c.context.poll() > 0) {
  }
  c.gate.close();
  c.send("late", true, 6);
  c.run(6);
  EXPECT_EQ(c.let_in, (names{"1", "2"}));
  EXPECT_EQ(c.sent_away.size(), 4U);
}

TEST(Permits, MovingAPermitFreesItOnce) {
  crowd c(1);
  asio::co_spawn(
      c.context,
      [](crowd& in) -> asio::awaitable<void> {
        const priority rank{true, 1};
        permit first = co_await in.gate.acquire(rank);
        permit second(std::move(first));
        EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is the promise
        EXPECT_TRUE(second);
        second = permit();
        EXPECT_FALSE(second);
        const permit again = co_await in.gate.acquire(rank);
        EXPECT_TRUE(again);
        ++in.over;
      }(c),
      [](std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
      });
  c.run(1);
}

}  // namespace
}  // namespace sluice::pipeline
