// Several jobs that share one limit of 10/60s, and what must hold for them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "fixtures/simulation/simulation.hpp"
#include "retry/random.hpp"

namespace sluice::fixtures {

inline constexpr duration shared_window = std::chrono::seconds(60);
inline constexpr std::size_t calls_per_window = 10;

/// One to six jobs with one to sixteen workers each, 150 documents in all, or a few more. What they
/// share is the caller's to say.
inline sim_setup crowd(std::uint64_t seed) {
  using std::chrono::seconds;
  retry::random random(seed);
  sim_setup s;
  s.seed = seed;
  s.jobs = 1 + static_cast<unsigned>(seed % 6);
  s.documents = (150 + s.jobs - 1) / s.jobs;
  for (unsigned job = 0; job < s.jobs; ++job)
    s.workers.push_back(
        static_cast<unsigned>(random.between(seconds(1), seconds(17)) / seconds(1)));
  s.start_within = seconds(30);
  s.server.limit = server_limit{calls_per_window, shared_window, window_kind::rolling, false};
  s.server.spread = std::chrono::milliseconds(900);
  s.server.answer_max = seconds(3);
  s.options.limits.emplace_back();
  return s;
}

/// A budget file of which nothing was spent.
inline std::shared_ptr<memory_budget> fresh_file(std::uint32_t max_in_flight = 0) {
  auto budget = std::make_shared<memory_budget>();
  pipeline::budget_settings settings;
  settings.limits.emplace_back();
  settings.max_in_flight = max_in_flight;
  budget->bytes = pipeline::serialise(pipeline::fresh_budget(settings, budget->boot));
  return budget;
}

/// Whether more than the limit arrived in any window.
inline bool ever_over(const sim_result& r) {
  std::vector<duration> at;
  for (const sim_arrival& a : r.arrivals) at.push_back(a.arrived);
  std::sort(at.begin(), at.end());
  for (std::size_t i = calls_per_window; i < at.size(); ++i)
    if (at[i] - at[i - calls_per_window] < shared_window) return true;
  return false;
}

/// The sends of each job while all of them were there, within `length` of the last one's start. In
/// burst shape the count begins and ends between two bursts, `inset` from both ends, or it would
/// cut one in two.
inline std::map<unsigned, unsigned> shares(const sim_result& r, unsigned jobs, duration length,
                                           duration inset = duration::zero()) {
  std::map<unsigned, duration> first;
  std::map<unsigned, duration> last;
  for (const sim_arrival& a : r.arrivals) {
    first.try_emplace(a.job, a.sent);
    last[a.job] = a.sent;
  }
  duration from{};
  duration until = duration::max();
  for (unsigned job = 0; job < jobs; ++job) {
    from = std::max(from, first[job]);
    until = std::min(until, last[job]);
  }
  from += inset;
  until = std::min(until - inset, from + length);
  std::map<unsigned, unsigned> result;
  for (unsigned job = 0; job < jobs; ++job) result[job] = 0;
  for (const sim_arrival& a : r.arrivals)
    if (a.sent >= from && a.sent < until) ++result[a.job];
  return result;
}

// What holds for both forms of a shared budget, over the seeds from 1 on. `make` says what is
// shared.

using sharing = sim_setup (*)(std::uint64_t seed);

inline void all_succeed_unrefused(sharing make, std::uint64_t seeds) {
  for (const pipeline::pace shape : {pipeline::pace::smooth, pipeline::pace::burst}) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      sim_setup s = make(seed);
      s.options.shape = shape;
      const sim_result r = simulate(s);
      const auto all = std::uint64_t{s.jobs} * s.documents;
      ASSERT_EQ(r.succeeded(), all) << "seed " << seed;
      ASSERT_EQ(r.arrivals.size(), all) << "seed " << seed;
      ASSERT_EQ(r.refused(), 0U) << "seed " << seed;
      ASSERT_FALSE(ever_over(r)) << "seed " << seed;
    }
  }
}

/// `burst_inset`: see shares().
inline void shares_are_even(sharing make, std::uint64_t seeds,
                            duration burst_inset = duration::zero()) {
  for (const pipeline::pace shape : {pipeline::pace::smooth, pipeline::pace::burst}) {
    const bool burst = shape == pipeline::pace::burst;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      sim_setup s = make(seed);
      s.options.shape = shape;
      // Whoever waits for a long answer with its only worker asks for no turn.
      if (burst) s.workers.assign(s.jobs, 10);
      const sim_result r = simulate(s);
      const auto share = shares(r, s.jobs, 5 * (shared_window + std::chrono::seconds(2)),
                                burst ? burst_inset : duration::zero());
      const auto [least, most] =
          std::minmax_element(share.begin(), share.end(),
                              [](const auto& a, const auto& b) { return a.second < b.second; });
      ASSERT_LE(most->second - least->second, 1U)
          << "seed " << seed << " jobs " << s.jobs << (burst ? " burst" : " smooth");
    }
  }
}

/// Smooth turns are 6.2 s apart; the starts, and turns without a taker at the end, add a little.
inline void no_time_is_lost(sharing make, std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const sim_setup s = make(seed);
    const sim_result r = simulate(s);
    const double turns = static_cast<double>(s.jobs) * s.documents;
    ASSERT_LE(to_seconds(r.last_sent), 6.2 * turns + 60) << "seed " << seed;
  }
}

/// The twentieth call is refused for 50 s, whoever makes it.
inline void one_refusal_holds_every_job_back(sharing make, std::uint64_t seeds) {
  using std::chrono::seconds;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    sim_setup s = make(seed);
    s.server.limit.reset();
    s.server.spread = duration::zero();
    s.server.answers = [](unsigned nth, const std::string&) {
      std::optional<provider::attempt_report> report;
      if (nth != 20) return report;
      report.emplace();
      report->signal = retry::signal(retry::reason::rate_limited, 429);
      report->signal.hint = seconds(50);
      return report;
    };
    const sim_result r = simulate(s);
    ASSERT_EQ(r.succeeded(), std::uint64_t{s.jobs} * s.documents) << "seed " << seed;
    std::vector<duration> sent;
    for (const sim_arrival& a : r.arrivals) sent.push_back(a.sent);
    std::sort(sent.begin(), sent.end());
    ASSERT_GE(sent[20] - sent[19], duration(seconds(50))) << "seed " << seed;
  }
}

}  // namespace sluice::fixtures
