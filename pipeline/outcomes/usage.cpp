#include "pipeline/outcomes/usage.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <queue>

#include "pipeline/outcomes/store_view.hpp"

namespace sluice::pipeline {
namespace {

// Fewer calls sent alone do not show that those would not have been refused.
constexpr std::uint64_t enough_alone = 10;

// The calls of one run in the order of sending, told one by one.
class call_line {
 public:
  void sent(duration at, duration took, bool refused, run_usage& into) {
    while (!ends_.empty() && ends_.top() <= at) ends_.pop();
    ++into.calls;
    if (refused) ++into.refused;
    if (!ends_.empty()) {
      ++into.crowded;
      if (refused) ++into.crowded_refused;
    }
    const duration end = at + std::max(took, duration::zero());
    into.calling += std::max(duration::zero(), end - std::max(at, covered_));
    covered_ = std::max(covered_, end);
    ends_.push(end);
  }

 private:
  std::priority_queue<duration, std::vector<duration>, std::greater<>> ends_;
  duration covered_ = duration::min();
};

nlohmann::ordered_json numbers(const run_usage& u) {
  nlohmann::ordered_json j;
  j["calls"] = u.calls;
  j["rate_limited"] = u.refused;
  j["model_wait_seconds"] = to_seconds(u.waited);
  j["elapsed_seconds"] = to_seconds(u.elapsed);
  j["waiting_seconds"] = to_seconds(std::max(duration::zero(), u.elapsed - u.calling));
  j["waiting_share"] = u.waiting_share();
  return j;
}

}  // namespace

double run_usage::waiting_share() const {
  if (elapsed <= duration::zero() || calling >= elapsed) return 0;
  return to_seconds(elapsed - calling) / to_seconds(elapsed);
}

run_usage total(const std::vector<run_usage>& runs) {
  run_usage all;
  for (const run_usage& u : runs) {
    all.elapsed += u.elapsed;
    all.calls += u.calls;
    all.refused += u.refused;
    all.waited += u.waited;
    all.calling += std::min(u.calling, u.elapsed);
    all.crowded += u.crowded;
    all.crowded_refused += u.crowded_refused;
  }
  return all;
}

std::vector<run_usage> usage_since(const std::string& path, wall_time since,
                                   const std::optional<std::string>& run) {
  store_view v(path, run);
  const std::int64_t from = since.time_since_epoch().count();
  // A run that was killed lasted until the last thing known of it.
  sqlite::statement runs = v.prepare(
      "SELECT number, id, model, started_ms, last_ms, "
      "  (SELECT sum(waited_ns) FROM outcomes WHERE run = number) FROM "
      "  (SELECT *, coalesce(ended_ms, (SELECT max(ended_ms) FROM outcomes WHERE run = number), "
      "   started_ms) AS last_ms FROM runs) WHERE last_ms >= ?1 AND " +
      v.of_runs() + " ORDER BY number");
  runs.bind(1, from);
  std::vector<run_usage> result;
  std::map<std::int64_t, std::size_t> places;
  while (runs.step()) {
    run_usage u;
    u.run = runs.text(1);
    u.model = runs.text(2);
    u.started = wall_time(std::chrono::milliseconds(runs.integer(3)));
    u.elapsed = std::chrono::milliseconds(
        std::max<std::int64_t>(0, runs.integer(4) - std::max(runs.integer(3), from)));
    u.waited = runs.time(5);
    places[runs.integer(0)] = result.size();
    result.push_back(std::move(u));
  }
  sqlite::statement calls = v.prepare(
      "SELECT run, sent_ms, total_ns, http_status FROM attempts WHERE sent_ms >= ?1 AND " +
      v.of_run() + " ORDER BY run, sent_ms");
  calls.bind(1, from);
  std::int64_t current = -1;
  call_line line;
  while (calls.step()) {
    const std::int64_t number = calls.integer(0);
    const auto place = places.find(number);
    if (place == places.end()) continue;
    if (number != current) line = call_line();
    current = number;
    line.sent(std::chrono::milliseconds(calls.integer(1)), calls.time(2), calls.integer(3) == 429,
              result[place->second]);
  }
  return result;
}

advice advise(const run_usage& all) {
  if (all.calls == 0) return advice::nothing_sent;
  if (all.refused == 0) return advice::stop_worrying;
  const bool alone_is_fine =
      all.refused == all.crowded_refused && all.calls - all.crowded >= enough_alone;
  return alone_is_fine ? advice::lower_concurrency : advice::lower_limit;
}

std::string_view name(advice a) {
  switch (a) {
    case advice::nothing_sent:
      return "nothing_sent";
    case advice::stop_worrying:
      return "stop_worrying";
    case advice::lower_concurrency:
      return "lower_concurrency";
    case advice::lower_limit:
      return "lower_limit";
  }
  return "";
}

std::string to_json(const std::vector<run_usage>& runs, duration span) {
  const run_usage all = total(runs);
  nlohmann::ordered_json j;
  j["since_seconds"] = to_seconds(span);
  j["runs"] = nlohmann::ordered_json::array();
  for (const run_usage& u : runs) {
    nlohmann::ordered_json one;
    one["run"] = u.run;
    one["model"] = u.model;
    one.update(numbers(u));
    j["runs"].push_back(std::move(one));
  }
  j.update(numbers(all));
  j["advice"] = std::string(name(advise(all)));
  return j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace sluice::pipeline
