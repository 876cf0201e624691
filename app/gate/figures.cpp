#include "app/gate/figures.hpp"

#include <algorithm>

namespace sluice::app {

std::vector<std::int64_t> used_now(const pipeline::gate_line& line, instant now) {
  const pipeline::ring_state record = line.record().save();
  const auto& limits = line.settings().limits;
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    std::int64_t used = 0;
    for (const auto& e : record.tracks[i].entries)
      if (e.at + limits[i].window + record.tracks[i].guard > now) used += e.cost;
    result.push_back(used);
  }
  return result;
}

page_figures figures_of(const pipeline::gate_keeper& keeper, instant now) {
  const pipeline::gate_line& line = keeper.line();
  page_figures f;
  const std::vector<std::int64_t> used = used_now(line, now);
  for (std::size_t i = 0; i < used.size(); ++i) {
    const pipeline::limit& l = line.settings().limits[i];
    f.limits.push_back({to_string(l), used[i], l.amount});
  }
  for (const auto& [job, count] : line.line_by_job())
    if (count > 0) f.line.emplace_back(job, count);
  f.in_flight = line.in_flight();
  f.max_in_flight = line.settings().max_in_flight;
  f.cool_down = std::max(line.record().not_before(), now) - now;
  f.hour = keeper.hour().up_to(now);
  return f;
}

}  // namespace sluice::app
