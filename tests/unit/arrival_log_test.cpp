// The fake endpoint's record, and what it blames a client for.
#include "fixtures/arrival_log.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace sluice::fixtures {
namespace {
using namespace std::chrono_literals;
using nlohmann::json;

log_options two_per_ten_seconds() {
  log_options options;
  options.limit = server_limit{2, 10s, window_kind::rolling, false};
  return options;
}

json grade(const arrival_log& log) {
  return json::parse(log.grade_json());
}
json stats(const arrival_log& log) {
  return json::parse(log.stats_json());
}

/// A call that is answered a millisecond after it came.
void call(arrival_log& log, duration t, const std::string& job, std::uint64_t document, int status,
          std::optional<duration> retry_after = std::nullopt) {
  const open_call open = log.arrive(t, job, document);
  log.answer(open, t + 1ms, status, retry_after);
}

TEST(ArrivalLog, CountsCallsByTheirAnswers) {
  arrival_log log(two_per_ten_seconds());
  call(log, 0s, "a", 1, 200);
  call(log, 1s, "b", 2, 429, 9s);
  call(log, 20s, "a", 3, 500);
  const open_call open = log.arrive(30s, "a", 4);
  const json s = stats(log);
  EXPECT_EQ(s["calls"], 4);
  EXPECT_EQ(s["ok"], 1);
  EXPECT_EQ(s["rate_limited"], 1);
  EXPECT_EQ(s["max_in_flight"], 1);
  ASSERT_EQ(s["arrivals"].size(), 4U);
  EXPECT_EQ(s["arrivals"][1], json({{"t_ms", 1000}, {"status", 429}, {"job", "b"}}));
  EXPECT_EQ(s["arrivals"][3]["status"], 0);
  log.answer(open, 31s, 200, std::nullopt);
  EXPECT_EQ(stats(log)["arrivals"][3]["status"], 200);
}

TEST(ArrivalLog, RemembersThePeakInFlight) {
  arrival_log log(log_options{});
  const auto a = log.arrive(0s, "", 1);
  const auto b = log.arrive(1s, "", 2);
  log.answer(a, 2s, 200, std::nullopt);
  const auto c = log.arrive(3s, "", 3);
  log.answer(b, 4s, 200, std::nullopt);
  log.answer(c, 4s, 200, std::nullopt);
  EXPECT_EQ(stats(log)["max_in_flight"], 2);
  EXPECT_EQ(grade(log)["max_in_flight"], 2);
}

TEST(ArrivalLog, AWellPacedClientIsFoundWithoutFault) {
  arrival_log log(two_per_ten_seconds());
  for (unsigned i = 0; i < 50; ++i) call(log, i * 5s, "a", i, 200);
  EXPECT_EQ(grade(log), json({{"windows_over_limit", 0},
                              {"max_in_flight", 1},
                              {"early_retries", 0},
                              {"duplicate_successes", 0},
                              {"ok", true}}));
}

TEST(ArrivalLog, BlamesEachArrivalOverTheLimitInTheWindowThatEndsWithIt) {
  arrival_log log(two_per_ten_seconds());
  call(log, 0s, "a", 1, 200);
  call(log, 1s, "a", 2, 200);
  call(log, 10s - 1ns, "a", 3, 200);  // a hair too soon
  call(log, 11s, "a", 4, 200);        // the one at 1 s has just left
  EXPECT_EQ(grade(log)["windows_over_limit"], 1);
  EXPECT_EQ(grade(log)["ok"], false);
  call(log, 12s, "a", 5, 429);  // refused calls are calls
  call(log, 21s, "a", 6, 200);
  EXPECT_EQ(grade(log)["windows_over_limit"], 2);
}

TEST(ArrivalLog, WithoutALimitNoWindowIsOverIt) {
  arrival_log log(log_options{});
  for (unsigned i = 0; i < 1000; ++i) call(log, 0s, "a", i, 200);
  EXPECT_EQ(grade(log)["windows_over_limit"], 0);
  EXPECT_EQ(grade(log)["ok"], true);
}

TEST(ArrivalLog, BlamesADocumentThatComesBeforeItsRetryAfter) {
  arrival_log log(log_options{});
  call(log, 0s, "", 1, 503, 5s);
  call(log, 5s, "", 1, 503, 5s);  // told at 1 ms: a millisecond early
  EXPECT_EQ(grade(log)["early_retries"], 1);
  EXPECT_EQ(grade(log)["ok"], false);
  call(log, 10s + 1ms, "", 1, 200);
  EXPECT_EQ(grade(log)["early_retries"], 1);
}

TEST(ArrivalLog, ARefusalBindsTheWholeJobOnceItCanKnow) {
  arrival_log log(two_per_ten_seconds());
  const duration grace = two_per_ten_seconds().on_its_way();
  call(log, 0s, "a", 1, 429, 30s);
  call(log, 1ms + grace - 1ns, "a", 2, 429, 30s);  // was on its way
  EXPECT_EQ(grade(log)["early_retries"], 0);
  call(log, 1ms + grace, "a", 3, 429, 30s);
  EXPECT_EQ(grade(log)["early_retries"], 1);
  call(log, 2s, "b", 4, 200);  // another job was told nothing
  call(log, 3s, "", 5, 200);
  EXPECT_EQ(grade(log)["early_retries"], 1);
}

TEST(ArrivalLog, HammeringGainsNoNewTimeOfGrace) {
  arrival_log log(two_per_ten_seconds());
  for (unsigned i = 0; i < 20; ++i) call(log, i * 200ms, "a", i, 429, 10s);
  // Told at 1 ms; all but the first and the one at 200 ms could have known.
  EXPECT_EQ(grade(log)["early_retries"], 18);
}

TEST(ArrivalLog, AServerErrorsRetryAfterBindsItsDocumentOnly) {
  arrival_log log(log_options{});
  call(log, 0s, "a", 1, 503, 30s);
  call(log, 10s, "a", 2, 200);
  EXPECT_EQ(grade(log)["early_retries"], 0);
  call(log, 11s, "a", 1, 200);
  EXPECT_EQ(grade(log)["early_retries"], 1);
}

TEST(ArrivalLog, CountsDocumentsAnsweredMoreThanOnce) {
  arrival_log log(log_options{});
  call(log, 0s, "a", 7, 200);
  EXPECT_EQ(grade(log)["duplicate_successes"], 0);
  for (int i = 1; i < 3; ++i) {
    call(log, i * 1s, "a", 7, 200);
    EXPECT_EQ(grade(log)["duplicate_successes"], 1) << "one document, however often";
  }
  call(log, 4s, "a", 8, 500);
  call(log, 5s, "a", 8, 200);
  EXPECT_EQ(grade(log)["duplicate_successes"], 1);
  EXPECT_EQ(grade(log)["ok"], false);
}

TEST(ArrivalLog, UnreadableCallsAreCountedButNotTakenForOneDocument) {
  arrival_log log(log_options{});
  for (int i = 0; i < 3; ++i) {
    const auto open = log.arrive(i * 1s, "a", std::nullopt);
    log.answer(open, i * 1s, 200, 30s);
  }
  EXPECT_EQ(stats(log)["calls"], 3);
  EXPECT_EQ(grade(log)["ok"], true);
}

TEST(ArrivalLog, GoesOnCountingWhenItListsNoMore) {
  log_options options;
  options.listed = 10;
  arrival_log log(options);
  for (unsigned i = 0; i < 25; ++i) call(log, i * 1ms, "a", i, 200);
  EXPECT_EQ(stats(log)["calls"], 25);
  EXPECT_EQ(stats(log)["ok"], 25);
  EXPECT_EQ(stats(log)["arrivals"].size(), 10U);
}

TEST(ArrivalLog, SurvivesAJobThatIsNotUtf8) {
  arrival_log log(log_options{});
  call(log, 0s, "j\xff", 1, 200);
  EXPECT_EQ(stats(log)["arrivals"][0]["job"], "j\xef\xbf\xbd");
}

TEST(DocumentHash, IsTheSameEverywhere) {
  // The published test vectors of FNV-1a.
  EXPECT_EQ(document_hash(""), 0xcbf29ce484222325U);
  EXPECT_EQ(document_hash("foobar"), 0x85944171f73967e8U);
}

}  // namespace
}  // namespace sluice::fixtures
