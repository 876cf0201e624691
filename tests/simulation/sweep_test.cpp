// Everything at once, at random: whatever the faults, each document ends exactly once and nothing
// hangs.
#include <gtest/gtest.h>

#include <set>

#include "retry/table.hpp"
#include "tests/simulation/sim_setups.hpp"

namespace sluice::fixtures {
namespace {

using namespace std::chrono_literals;
using retry::reason;

constexpr unsigned documents = 30;

duration seconds_up_to(retry::random& rng, int most) {
  return rng.between(0s, std::chrono::seconds(most));
}

unsigned below(retry::random& rng, unsigned bound) {
  return static_cast<unsigned>(rng.next() % bound);
}

// Any row of the table may come as an answer; those that stop the run seldom do.
reason some_reason(retry::random& rng) {
  const auto rows = retry::table();
  while (true) {
    const retry::row& r = rows[below(rng, static_cast<unsigned>(rows.size()))];
    const bool stops = r.stops_run != retry::exit_code::none;
    if (!stops || below(rng, 50) == 0) return r.why;
  }
}

std::optional<duration> some_hint(retry::random& rng) {
  switch (below(rng, 8)) {
    case 0:
      return duration::zero();
    case 1:
      return duration(-1s);
    case 2:
      return below(rng, 10) == 0 ? retry::longest_hint : duration(15min);
    case 3:
    case 4:
      return seconds_up_to(rng, 60);
    default:
      return std::nullopt;
  }
}

std::optional<bool> some_word(retry::random& rng) {
  const unsigned n = below(rng, 10);
  if (n > 1) return std::nullopt;
  return n == 1;
}

sim_setup mix(std::uint64_t seed, retry::random& rng) {
  sim_setup s;
  s.seed = seed;
  s.documents = documents;
  if (below(rng, 2) == 0) s.server.limit.reset();
  s.server.spread = seconds_up_to(rng, 1);
  s.server.answer_max = seconds_up_to(rng, 20) + 50ms;
  s.options.concurrency = 1 + below(rng, 8);
  if (below(rng, 4) != 0) s.options.limits.push_back(pipeline::limit());
  if (below(rng, 4) == 0) s.options.limits.push_back(pipeline::parse_limit("25/1d"));
  if (below(rng, 2) == 0) s.options.shape = pipeline::pace::burst;
  if (below(rng, 3) == 0) s.interrupt_at = seconds_up_to(rng, 300);
  s.server.answers = [&rng](unsigned, const std::string&) {
    if (below(rng, 100) >= 15) return std::optional<provider::attempt_report>();
    provider::attempt_report report =
        bad_answer(some_reason(rng), 0, some_hint(rng), seconds_up_to(rng, 10));
    if (report.signal.why == reason::rate_limited) report.signal.status = 429;
    report.signal.should_retry = some_word(rng);
    report.stale_connection = report.signal.why == reason::connection_lost && below(rng, 2) == 0;
    report.redirected = report.signal.why == reason::redirected && below(rng, 2) == 0;
    return just(std::move(report));
  };
  s.server.connecting = [&rng](unsigned, duration) {
    sim_readiness how;
    how.takes = seconds_up_to(rng, 1 + (below(rng, 20) == 0 ? 30 : 0));
    constexpr reason unsent[] = {reason::dns_failure, reason::connect_failure, reason::tls_failure,
                                 reason::certificate_refused};
    if (below(rng, 20) == 0) how.trouble = bad_answer(unsent[below(rng, below(rng, 4) + 1)], 0);
    return how;
  };
  s.server.dawdling = [&rng](unsigned) {
    return below(rng, 20) == 0 ? seconds_up_to(rng, 3) : duration::zero();
  };
  return s;
}

TEST(Sweep, EachDocumentEndsExactlyOnceWhateverHappens) {
  std::uint64_t finished = 0;
  std::uint64_t stopped = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    retry::random rng(seed * 7919);
    const sim_setup s = mix(seed, rng);
    sim_result r;
    ASSERT_NO_THROW(r = simulate(s));
    std::set<std::string> ids;
    for (const auto& o : r.outcomes) ids.insert(o.document_id);
    ASSERT_EQ(r.outcomes.size(), ids.size());
    const auto& job = r.jobs.at(0);
    const bool interrupted = job.stopped && job.stopped->why == reason::interrupted;
    ASSERT_EQ(job.succeeded + job.failed + job.deferred + job.mismatched, r.outcomes.size());
    ASSERT_EQ(r.outcomes.size(), documents);
    ASSERT_LE(r.arrivals.size(), 5U * documents);
    ASSERT_EQ(r.arrivals.size(), job.calls);
    ASSERT_LE(r.max_in_flight, s.options.concurrency);
    if (interrupted) {
      ASSERT_LE(r.last_sent, *s.interrupt_at + 1s);
    }
    // What succeeded was answered, and what was answered well succeeded.
    std::size_t answered = 0;
    for (const auto& a : r.attempts) answered += a.why == reason::ok ? 1 : 0;
    ASSERT_EQ(job.succeeded, answered);
    finished += job.stopped ? 0 : 1;
    stopped += job.stopped ? 1 : 0;
  }
  EXPECT_GE(finished, 20U) << "the mix is so rough that it tests little";
  EXPECT_GE(stopped, 20U) << "the mix is so mild that it tests little";
}

}  // namespace
}  // namespace sluice::fixtures
