// Every reason that a signal may carry, driven through the whole pipeline: how often the document
// is sent, after which wait, what becomes of it, of the others and of the run.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <ostream>
#include <set>

#include "fixtures/simulation/simulation.hpp"
#include "retry/table.hpp"

namespace sluice::fixtures {
namespace {

using namespace std::chrono_literals;
using retry::outcome;
using retry::outcome_class;
using retry::reason;

constexpr unsigned always = std::numeric_limits<unsigned>::max();
constexpr unsigned batch_size = 6;

// What is there when it happens.
enum class when { first_of_all, after_a_success };
// What the wait before the second call holds back.
enum class waits { nobody, document, everybody };

struct table_case {
  const char* name;
  reason why;
  int status = 0;
  std::optional<duration> hint{};
  std::optional<bool> should_retry{};
  unsigned times = always;  // the document gets this answer so often, then a good one
  when there = when::first_of_all;
  // Expected.
  unsigned calls = 1;
  outcome end = outcome::failed;
  reason end_why = reason::ok;
  outcome_class kind = outcome_class::none;
  int exit = 0;  // of a run that stopped
  waits held = waits::nobody;
  duration least{};  // between the answer and the second call
  duration most{};
};

void PrintTo(const table_case& c, std::ostream* out) {
  *out << c.name << " (" << retry::name(c.why) << ' ' << c.status << ')';
}

constexpr auto good = outcome::succeeded;
constexpr auto bad = outcome::failed;
constexpr auto put_off = outcome::deferred;
constexpr auto none = outcome_class::none;
constexpr auto lasting = outcome_class::permanent;
constexpr auto passing = outcome_class::transient;
constexpr std::optional<duration> no_hint;
constexpr std::optional<bool> unsaid;
constexpr auto first = when::first_of_all;
constexpr auto later = when::after_a_success;
using enum reason;

// A backed-off first retry waits for U(0, 1 s), and at least 100 ms.
constexpr duration least_jitter = 100ms;
constexpr duration first_bound = 1s;

// A row that is sent again once, by itself, and then fails for now.
constexpr table_case once(const char* name, reason why, int status) {
  return {name, why, status,  no_hint, unsaid,          always,       first,      2,
          bad,  why, passing, 0,       waits::document, least_jitter, first_bound};
}
// A row that fails the document for ever.
constexpr table_case lost(const char* name, reason why, int status) {
  return {name, why, status, no_hint, unsaid, always, first, 1, bad, why, lasting};
}
// A row that stops the run.
constexpr table_case stops(const char* name, reason why, int status, int exit, when there = first) {
  return {name, why, status, no_hint, unsaid, always, there, 1, put_off, why, none, exit};
}

// clang-format off
const table_case cases[] = {
    {"RateLimitedWithHint",      rate_limited, 429, 52s, unsaid, 1, first, 2, good, ok, none, 0, waits::everybody, 52s, 54s},
    {"RateLimitedTwiceWithHint", rate_limited, 429, 9s,  unsaid, 2, first, 3, good, ok, none, 0, waits::everybody, 9s, 11s},
    {"RateLimitedHintOfMaxWait", rate_limited, 429, 15min, unsaid, 1, first, 2, good, ok, none, 0, waits::everybody, 15min, 15min + 2s},
    {"RateLimitedUnhinted",      rate_limited, 429, no_hint, unsaid, 1, first, 2, good, ok, none, 0, waits::everybody, 60s, 62s},
    {"RateLimitedUnhintedEver",  rate_limited, 429, no_hint, unsaid, always, first, 4, put_off, rate_limited, none, 0, waits::everybody, 60s, 62s},
    {"RateLimitedHintZero",      rate_limited, 429, 0s,  unsaid, 1, first, 2, good, ok, none, 0, waits::everybody, least_jitter, first_bound},
    {"RateLimitedHintNegative",  rate_limited, 429, -5s, unsaid, 1, first, 2, good, ok, none, 0, waits::everybody, least_jitter, first_bound},
    {"RateLimitedHintZeroEver",  rate_limited, 429, 0s,  unsaid, always, first, 4, put_off, rate_limited, none, 0, waits::everybody, least_jitter, first_bound},
    {"RateLimitedHintTooLong",   rate_limited, 429, 16min, unsaid, always, first, 1, put_off, wait_too_long, none, 75},
    {"RateLimitedNotAgain",      rate_limited, 429, 52s, false, always, first, 1, put_off, rate_limited, none, 0, waits::everybody, 52s, 54s},
    once("ServerError500", server_error, 500),
    once("ServerError502", server_error, 502),
    once("ServerError503", server_error, 503),
    once("ServerError504", server_error, 504),
    once("ServerError520", server_error, 520),
    once("ServerError529", server_error, 529),
    once("ServerError408", server_error, 408),
    once("ServerError409", server_error, 409),
    once("ServerError425", server_error, 425),
    once("ServerError498", server_error, 498),
    once("ServerError499", server_error, 499),
    {"ServerErrorThenGood",      server_error, 500, no_hint, unsaid, 1, first, 2, good, ok, none, 0, waits::document, least_jitter, first_bound},
    {"ServerErrorRetryAfter",    server_error, 503, 7s,  unsaid, always, first, 2, bad, server_error, passing, 0, waits::document, 7s, 7s},
    {"ServerErrorHintTooLong",   server_error, 503, 16min, unsaid, always, first, 1, put_off, wait_too_long, none, 75},
    {"ServerErrorNotAgain",      server_error, 503, no_hint, false, always, first, 1, bad, server_error, passing},
    {"ServerErrorDoAgain",       server_error, 503, no_hint, true, always, first, 2, bad, server_error, passing, 0, waits::document, least_jitter, first_bound},
    {"ServerLoadingForAWhile",   server_loading, 503, no_hint, unsaid, 3, first, 4, good, ok, none, 0, waits::document, least_jitter, first_bound},
    {"ServerLoadingForEver",     server_loading, 503, no_hint, unsaid, always, first, 8, put_off, server_loading, none, 0, waits::document, least_jitter, first_bound},
    once("TimedOut", timed_out, 0),
    once("ConnectionLost", connection_lost, 0),
    once("MalformedResponse", malformed_response, 200),
    once("EmptyResponse", empty_response, 200),
    once("NotJson", not_json, 200),
    once("UnexpectedToolCall", unexpected_tool_call, 200),
    once("UnsupportedEncoding", unsupported_encoding, 200),
    stops("UnexpectedStream", unexpected_stream, 200, 78),
    lost("ResponseTooLarge", response_too_large, 200),
    {"DnsFailure",               dns_failure, 0, no_hint, unsaid, 3, first, 1, good, ok, none},
    {"ConnectFailure",           connect_failure, 0, no_hint, unsaid, 3, first, 1, good, ok, none},
    {"TlsFailure",               tls_failure, 0, no_hint, unsaid, 3, first, 1, good, ok, none},
    lost("BadRequest400", bad_request, 400),
    lost("BadRequest422", bad_request, 422),
    lost("TooLarge413", too_large, 413),
    lost("TooLarge400", too_large, 400),
    {"BadRequestDoAgain",        bad_request, 400, no_hint, true, always, first, 2, bad, bad_request, lasting, 0, waits::document, least_jitter, first_bound},
    {"BadRequestNotAgain",       bad_request, 400, no_hint, false, always, first, 1, bad, bad_request, lasting},
    lost("ContentFilter", content_filter, 200),
    lost("Truncated", truncated, 200),
    lost("Refused", refused, 200),
    stops("KeyRefused", key_refused, 401, 77),
    stops("KeyRefusedAfterASuccess", key_refused, 401, 77, later),
    stops("Forbidden", forbidden, 403, 77),
    {"ForbiddenAfterASuccess",   forbidden, 403, no_hint, unsaid, always, later, 1, bad, forbidden_document, lasting},
    stops("Billing", billing, 402, 77),
    stops("BillingBy429", billing, 429, 77, later),
    {"KeyRefusedDoAgain",        key_refused, 401, no_hint, true, always, first, 1, put_off, key_refused, none, 77},
    stops("NotFound", not_found, 404, 78),
    stops("MethodRefused", method_refused, 405, 78),
    stops("ProxyRefused", proxy_refused, 407, 78),
    stops("Redirected", redirected, 302, 78),
    {"CertificateRefused",       certificate_refused, 0, no_hint, unsaid, always, first, 0, put_off, certificate_refused, none, 78},
    {"CertificateRefusedThrice", certificate_refused, 0, no_hint, unsaid, 3, later, 1, good, ok, none},
    {"CertificateRefusedEver",   certificate_refused, 0, no_hint, unsaid, always, later, 0, put_off, certificate_refused, none, 78},
    {"HostUnknown",              host_unknown, 0, no_hint, unsaid, always, first, 0, put_off, host_unknown, none, 78},
    stops("DailyLimit", daily_limit, 429, 75),
    {"DailyLimitWithHint",       daily_limit, 429, 5h, unsaid, always, first, 1, put_off, daily_limit, none, 75},
    stops("BudgetRefused", budget_refused, 0, 75),
    {"Mismatched",               mismatched, 200, no_hint, unsaid, always, first, 1, outcome::mismatched, mismatched, lasting},
};
// clang-format on

// Those that are known before anything leaves the machine.
bool before_sending(reason why) {
  const std::set<reason> those{dns_failure, connect_failure, tls_failure, certificate_refused,
                               host_unknown};
  return those.contains(why);
}

struct told {
  sim_result result;
  duration answered{};               // when the victim's first bad answer came
  std::vector<duration> connects{};  // the victim's
};

// One permit and no limit: what waits, waits because of the answer. Documents go in order.
told tell(const table_case& c, const std::string& victim, std::uint64_t seed) {
  sim_setup s;
  s.seed = seed;
  s.documents = batch_size;
  s.server.limit.reset();
  s.server.answer_min = s.server.answer_max = 100ms;
  s.options.concurrency = 1;
  provider::attempt_report trouble;
  trouble.signal = retry::signal(c.why, c.status);
  trouble.signal.hint = c.hint;
  trouble.signal.should_retry = c.should_retry;
  told t;
  unsigned given = 0;
  const unsigned good_ones = c.there == later ? 1 : 0;
  if (before_sending(c.why)) {
    s.server.connecting = [&](unsigned nth, duration at) {
      sim_readiness how;
      if (nth > good_ones && given < c.times) {
        ++given;
        t.connects.push_back(at);
        how.trouble = trouble;
      }
      return how;
    };
  } else {
    s.server.answers = [&](unsigned, const std::string& document) {
      std::optional<provider::attempt_report> scripted;
      if (document == victim && given < c.times) {
        ++given;
        scripted = trouble;
      }
      return scripted;
    };
  }
  t.result = simulate(s);
  return t;
}

class RetryTable : public ::testing::TestWithParam<table_case> {};

constexpr std::uint64_t seeds = 20;

TEST_P(RetryTable, RowIsKept) {
  const table_case& c = GetParam();
  const std::string victim = c.there == later ? "job0-2" : "job0-1";
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(std::string(retry::name(c.why)) + ", seed " + std::to_string(seed));
    const told t = tell(c, victim, seed);
    const sim_result& r = t.result;
    const auto calls = r.calls_of(victim);
    EXPECT_EQ(calls.size(), c.calls);

    const auto& end = r.outcome_of(victim);
    EXPECT_EQ(end.outcome, c.end);
    const reason why = c.end_why;
    EXPECT_EQ(retry::name(end.why), retry::name(why));
    EXPECT_EQ(retry::name(end.kind), retry::name(c.kind));
    EXPECT_EQ(end.attempts, c.calls);

    // The run, and the others.
    ASSERT_EQ(r.outcomes.size(), batch_size);
    const auto& stopped = r.jobs.at(0).stopped;
    ASSERT_EQ(stopped.has_value(), c.exit != 0);
    if (stopped) {
      EXPECT_EQ(stopped->exit, c.exit);
      EXPECT_EQ(retry::name(stopped->why), retry::name(why));
      if (c.hint) {
        EXPECT_EQ(stopped->come_back, c.hint);
      }
      EXPECT_EQ(r.jobs[0].deferred, batch_size - (c.there == later ? 1 : 0));
      EXPECT_EQ(r.arrivals.size(), c.calls + (c.there == later ? 1 : 0));
      for (const auto& o : r.outcomes) {
        if (o.outcome == outcome::deferred) {
          EXPECT_EQ(retry::name(o.why), retry::name(why));
        }
      }
    } else {
      for (const auto& o : r.outcomes) {
        if (o.document_id == victim) continue;
        EXPECT_EQ(o.outcome, outcome::succeeded) << o.document_id;
        EXPECT_EQ(r.calls_of(o.document_id).size(), 1U) << o.document_id;
      }
    }

    // The waits. A call of another document may be under way when one is over.
    constexpr duration other_call = 100ms;
    if (c.held != waits::nobody && calls.size() > 1) {
      const duration gap = calls[1].sent - calls[0].arrived;
      EXPECT_GE(gap, c.least);
      EXPECT_LE(gap, c.most + other_call);
    }
    if (c.held == waits::everybody || c.held == waits::document) {
      auto next = duration::max();
      for (const auto& a : r.arrivals) {
        if (a.document != victim && a.sent >= calls.at(0).sent) next = std::min(next, a.sent);
      }
      const duration gap = next - calls[0].sent;
      if (c.held == waits::everybody) {
        EXPECT_GE(gap, c.least);
        if (c.times == 1) {
          EXPECT_LE(gap, c.most + other_call);
        }
      } else {
        EXPECT_EQ(gap, 0ns) << "the others must not wait for this one";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, RetryTable, ::testing::ValuesIn(cases),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(RetryTableCases, CoverEveryReasonThatASignalMayCarry) {
  // Made by the pipeline itself, never by an answer.
  const std::set<reason> our_own{ok,
                                 forbidden_document,
                                 empty_input,
                                 input_error,
                                 duplicate_id,
                                 document_missing,
                                 wait_too_long,
                                 call_budget_used,
                                 patience_used,
                                 endpoint_down,
                                 interrupted,
                                 run_stopped};
  std::set<reason> seen(our_own);
  for (const table_case& c : cases) {
    EXPECT_FALSE(our_own.contains(c.why)) << c.name;
    seen.insert(c.why);
  }
  for (const retry::row& r : retry::table())
    EXPECT_TRUE(seen.contains(r.why)) << "no case for " << r.name;
}

// All documents refused for ever, with that hint.
sim_setup refused_for_ever(unsigned documents, duration hint) {
  sim_setup s;
  s.documents = documents;
  s.server.limit.reset();
  s.options.concurrency = 4;
  s.server.answers = [hint](unsigned, const std::string&) {
    provider::attempt_report no;
    no.signal = retry::signal(rate_limited, 429);
    no.signal.hint = hint;
    return std::optional<provider::attempt_report>(std::move(no));
  };
  return s;
}

TEST(Refusals, EndWithTheCallBudgetOfTheRun) {
  const sim_result r = simulate(refused_for_ever(4, 5s));
  ASSERT_EQ(r.outcomes.size(), 4U);
  EXPECT_LE(r.arrivals.size(), 5U * 4 + 3) << "those under way when it was used up";
  EXPECT_GE(r.arrivals.size(), 5U * 4);
  for (const auto& o : r.outcomes) {
    EXPECT_EQ(o.outcome, outcome::deferred);
    EXPECT_EQ(o.why, call_budget_used) << retry::name(o.why);
  }
  EXPECT_FALSE(r.jobs.at(0).stopped);
}

TEST(Refusals, EndWithTheDocumentsPatienceAfterHalfAnHour) {
  sim_setup s = refused_for_ever(1, 600s);
  const sim_result r = simulate(s);
  ASSERT_EQ(r.outcomes.size(), 1U);
  EXPECT_EQ(r.outcomes[0].outcome, outcome::deferred);
  EXPECT_EQ(r.outcomes[0].why, patience_used) << retry::name(r.outcomes[0].why);
  // Refused at 0, at about 600 s and at about 1200 s: a fourth call would come after 1800 s.
  EXPECT_EQ(r.arrivals.size(), 3U);
  EXPECT_LE(r.last_sent, duration(30min));
}

TEST(Refusals, JitterIsRecordedOnTopOfTheHint) {
  duration lowest = 2s;
  duration highest{};
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    table_case c = cases[0];
    const told t = tell(c, "job0-1", seed);
    const auto& attempt = t.result.attempts.at(0);
    EXPECT_EQ(attempt.retry_after, std::optional<duration>(52s));
    ASSERT_TRUE(attempt.jitter);
    lowest = std::min(lowest, *attempt.jitter);
    highest = std::max(highest, *attempt.jitter);
  }
  EXPECT_GE(lowest, duration::zero());
  EXPECT_LT(lowest, duration(300ms)) << "not spread over the two seconds";
  EXPECT_GT(highest, duration(1700ms)) << "not spread over the two seconds";
  EXPECT_LE(highest, duration(2s));
}

TEST(Certificate, AfterASuccessIsProbedThreeTimesWithPausesWhateverTheCrowd) {
  sim_setup s;
  s.documents = 20;
  s.server.limit.reset();
  s.server.answer_min = s.server.answer_max = 100ms;
  s.options.concurrency = 8;
  // The first call opens the way; then eight find the certificate wanting at the same time.
  s.server.connecting = [](unsigned, duration at) {
    sim_readiness how;
    if (at > 50ms) {
      provider::attempt_report no;
      no.signal = retry::signal(certificate_refused);
      how.trouble = std::move(no);
    }
    return how;
  };
  const sim_result r = simulate(s);
  ASSERT_TRUE(r.jobs.at(0).stopped);
  EXPECT_EQ(r.jobs[0].stopped->exit, 78);
  EXPECT_EQ(r.jobs[0].succeeded, 8U);
  EXPECT_EQ(r.jobs[0].deferred, 12U);
  EXPECT_GE(r.connecting.back(), duration(20s)) << "given up within the first pauses";
  EXPECT_LE(r.connecting.back(), duration(60s));
}

TEST(Certificate, ProbesStartAfreshAfterASuccess) {
  sim_setup s;
  s.documents = 6;
  s.server.limit.reset();
  s.server.answer_min = s.server.answer_max = 100ms;
  s.options.concurrency = 1;
  // Every other making ready fails: never three in a row, but five in all.
  s.server.connecting = [](unsigned nth, duration) {
    sim_readiness how;
    if (nth % 2 == 0) {
      provider::attempt_report no;
      no.signal = retry::signal(certificate_refused);
      how.trouble = std::move(no);
    }
    return how;
  };
  const sim_result r = simulate(s);
  EXPECT_FALSE(r.jobs.at(0).stopped);
  EXPECT_EQ(r.succeeded(), 6U);
}

}  // namespace
}  // namespace sluice::fixtures
