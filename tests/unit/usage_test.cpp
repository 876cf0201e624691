// Calls, refusals and waiting, added up over runs.
#include "pipeline/outcomes/usage.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/store_fixture.hpp"

namespace sluice::pipeline {
namespace {

using namespace std::chrono_literals;
using sluice::testing::called;
using sluice::testing::ended;
using sluice::testing::StoreTest;

class Usage : public StoreTest {
 protected:
  // One call of a document of its own, sent so long after the run's beginning.
  void call(run_store& store, duration after, duration took, int status = 200) {
    attempt_record r = called("d" + std::to_string(++documents_), 1, status);
    r.sent_at = began_ + std::chrono::duration_cast<std::chrono::milliseconds>(after);
    r.took.total = took;
    store.attempt(r);
    outcome_record o = ended(r.document_id);
    o.waited = 2s;
    record(store, o);
  }
  std::unique_ptr<run_store> begin_run() {
    began_ = clock.wall;
    return begin();
  }
  void end_run(std::unique_ptr<run_store> store, std::chrono::milliseconds after) {
    clock.wall = began_ + after;
    store->finish_run(0, "{}");
  }
  std::vector<run_usage> all() { return usage_since(path, wall_time()); }

 private:
  wall_time began_{};
  int documents_ = 0;
};

TEST_F(Usage, TimeWithoutACallUnderWayIsWaiting) {
  auto store = begin_run();
  call(*store, 0s, 2s);
  call(*store, 1s, 3s);  // until 4 s: two at once count once
  call(*store, 3s, 500ms);
  call(*store, 8s, 1s, 429);
  end_run(std::move(store), 10s);
  const auto runs = all();
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].calls, 4U);
  EXPECT_EQ(runs[0].refused, 1U);
  EXPECT_EQ(runs[0].crowded, 2U);
  EXPECT_EQ(runs[0].crowded_refused, 0U);
  EXPECT_EQ(runs[0].elapsed, duration(10s));
  EXPECT_EQ(runs[0].waited, duration(8s));
  EXPECT_EQ(runs[0].calling, duration(5s));
  EXPECT_DOUBLE_EQ(runs[0].waiting_share(), 0.5);
}

TEST_F(Usage, OnlyRunsOfTheTimeAskedAboutCount) {
  auto store = begin_run();
  call(*store, 0s, 1s);
  end_run(std::move(store), 10s);
  clock.wall += 24h;
  const wall_time between = clock.wall - 1h;
  store = begin_run();
  call(*store, 0s, 1s, 429);
  call(*store, 5s, 1s);
  end_run(std::move(store), 10s);
  EXPECT_EQ(all().size(), 2U);
  const auto late = usage_since(path, between);
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late[0].calls, 2U);
  EXPECT_EQ(late[0].refused, 1U);
  const run_usage sum = total(all());
  EXPECT_EQ(sum.calls, 3U);
  EXPECT_EQ(sum.elapsed, duration(20s));
  EXPECT_TRUE(usage_since(path, clock.wall + 1h).empty());
  const auto named = usage_since(path, wall_time(), late[0].run);
  ASSERT_EQ(named.size(), 1U);
  EXPECT_EQ(named[0].run, late[0].run);
  EXPECT_EQ(named[0].calls, 2U);
}

TEST_F(Usage, AKilledRunLastedUntilTheLastThingKnownOfIt) {
  {
    auto store = begin_run();
    clock.wall += 7s;
    attempt_record r = called("a", 1);
    r.sent_at = clock.wall - 1s;
    r.took.total = 1s;
    store->attempt(r);
    outcome_record o = ended("a");
    o.ended_at = clock.wall;
    record(*store, o);
  }
  const auto runs = all();
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].elapsed, duration(7s));
}

run_usage used(std::uint64_t calls, std::uint64_t refused, std::uint64_t crowded,
               std::uint64_t crowded_refused) {
  run_usage u;
  u.calls = calls;
  u.refused = refused;
  u.crowded = crowded;
  u.crowded_refused = crowded_refused;
  return u;
}

TEST_F(Usage, AdviceFollowsFromWhatWasRefused) {
  EXPECT_EQ(advise(used(0, 0, 0, 0)), advice::nothing_sent);
  EXPECT_EQ(advise(used(500, 0, 400, 0)), advice::stop_worrying);
  EXPECT_EQ(advise(used(500, 20, 400, 20)), advice::lower_concurrency);
  EXPECT_EQ(advise(used(500, 20, 400, 19)), advice::lower_limit);
  // Nothing was sent alone, so nothing is known of that.
  EXPECT_EQ(advise(used(500, 20, 495, 20)), advice::lower_limit);
}

TEST_F(Usage, JsonKeepsItsFieldNames) {
  auto store = begin_run();
  call(*store, 0s, 1s);
  end_run(std::move(store), 10s);
  const auto j = nlohmann::json::parse(to_json(all(), 1h));
  for (const char* field : {"since_seconds", "runs", "calls", "rate_limited", "model_wait_seconds",
                            "elapsed_seconds", "waiting_seconds", "waiting_share", "advice"})
    EXPECT_TRUE(j.contains(field)) << field;
  EXPECT_EQ(j["advice"], "stop_worrying");
  EXPECT_EQ(j["runs"][0]["calls"], 1);
  EXPECT_EQ(j["waiting_share"], 0.9);
}

}  // namespace
}  // namespace sluice::pipeline
