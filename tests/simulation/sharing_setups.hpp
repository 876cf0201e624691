// Several jobs that share one limit of 10/60s, and what must hold for them.
#pragma once

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

}  // namespace sluice::fixtures
