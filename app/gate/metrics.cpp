#include "app/gate/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "app/gate/figures.hpp"

namespace sluice::app {
namespace {

std::string label(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

void head(std::string& to, const char* name, const char* type, const char* help) {
  to += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

template <class Number>
void one(std::string& to, const char* name, const char* type, const char* help, Number value) {
  head(to, name, type, help);
  to += fmt::format("{} {}\n", name, value);
}

void budget(std::string& to, const pipeline::gate_line& line, instant now) {
  const auto& limits = line.settings().limits;
  head(to, "sluice_gate_limit", "gauge", "What a limit allows in its window.");
  for (const auto& l : limits)
    to += fmt::format("sluice_gate_limit{{limit=\"{}\"}} {}\n", to_string(l), l.amount);
  head(to, "sluice_gate_used", "gauge", "What of it is used in the window up to now.");
  const std::vector<std::int64_t> used = used_now(line, now);
  for (std::size_t i = 0; i < limits.size(); ++i)
    to += fmt::format("sluice_gate_used{{limit=\"{}\"}} {}\n", to_string(limits[i]), used[i]);
}

void lateness(std::string& to, const pipeline::gate_counts& counts) {
  constexpr const char* name = "sluice_gate_lateness_seconds";
  head(to, name, "histogram", "From a turn's instant to its answer.");
  const auto& bounds = pipeline::gate_keeper::lateness_bounds_ms;
  for (std::size_t i = 0; i < bounds.size(); ++i)
    to += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, static_cast<double>(bounds.at(i)) / 1e3,
                      counts.late.at(i));
  to += fmt::format("{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name,
                    counts.late.back(), to_seconds(counts.lateness));
}

}  // namespace

std::string metrics_text(const pipeline::gate_keeper& of, instant now) {
  const pipeline::gate_line& line = of.line();
  const pipeline::gate_counts& counts = of.counts();
  std::string text;
  one(text, "sluice_gate_granted_total", "counter", "Slots granted.", counts.granted);
  one(text, "sluice_gate_refused_total", "counter", "Questions without a turn in time.",
      counts.refused);
  one(text, "sluice_gate_calls_total", "counter", "Calls reported to have ended.", counts.reported);
  one(text, "sluice_gate_rate_limited_total", "counter", "Calls reported to have met a 429.",
      counts.rate_limited);
  one(text, "sluice_gate_in_flight", "gauge", "Calls granted and not reported ended.",
      line.in_flight());
  one(text, "sluice_gate_max_in_flight", "gauge", "The most of them at once; 0: no limit.",
      line.settings().max_in_flight);
  const duration cool_down = std::max(line.record().not_before(), now) - now;
  one(text, "sluice_gate_cool_down_seconds", "gauge", "For how long nobody is admitted.",
      to_seconds(cool_down));
  head(text, "sluice_gate_waiting", "gauge", "Calls in line.");
  for (const auto& [job, count] : line.line_by_job())
    text += fmt::format("sluice_gate_waiting{{job=\"{}\"}} {}\n", label(job), count);
  budget(text, line, now);
  lateness(text, counts);
  return text;
}

}  // namespace sluice::app
