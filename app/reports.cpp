#include "app/reports.hpp"

#include <fmt/format.h>

#include "app/exit_codes.hpp"
#include "app/output_file.hpp"
#include "pipeline/outcomes/queries.hpp"
#include "pipeline/outcomes/usage.hpp"
#include "retry/table.hpp"

namespace sluice::app {
namespace {

std::string seconds_or_none(const std::optional<duration>& d) {
  return d ? fmt::format("{:.1f} s", to_seconds(*d)) : "none";
}

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

// The runs that a status speaks of, added up.
pipeline::run_usage usage_of(const status_command& what) {
  return pipeline::total(pipeline::usage_since(what.with.store, wall_time(), what.run));
}

std::string_view in_words(pipeline::advice a) {
  switch (a) {
    case pipeline::advice::nothing_sent:
      return "Nothing was sent in that time.";
    case pipeline::advice::stop_worrying:
      return "No call was refused: stop worrying, a shared budget is not needed.";
    case pipeline::advice::lower_concurrency:
      return "Calls were refused only while others were under way: lower --concurrency.";
    case pipeline::advice::lower_limit:
      return "Calls were refused within the limit given: lower --limit, or share one with --budget "
             "if other jobs use the key.";
  }
  return "";
}

std::string in_words(const std::vector<pipeline::run_usage>& runs, duration span) {
  std::string text = fmt::format("{:<24} {:>8} {:>8} {:>10} {:>10} {:>8}\n", "run", "calls",
                                 "refused", "waited s", "elapsed s", "waiting");
  const auto line = [&](const std::string& title, const pipeline::run_usage& u) {
    text += fmt::format("{:<24} {:>8} {:>8} {:>10.1f} {:>10.1f} {:>8}\n", title, u.calls, u.refused,
                        to_seconds(u.waited), to_seconds(u.elapsed), percent(u.waiting_share()));
  };
  for (const pipeline::run_usage& u : runs) line(u.run, u);
  const pipeline::run_usage all = pipeline::total(runs);
  line(fmt::format("all {} in {:.0f} h", runs.size(), to_seconds(span) / 3600), all);
  return text + std::string(in_words(pipeline::advise(all))) + "\n";
}

std::string in_words(const pipeline::summary& s, const pipeline::run_usage& used,
                     const std::string& store) {
  std::string text = fmt::format("store     {}\nlast run  {}{}\n", store, s.run,
                                 s.unfinished ? " (going on, or was killed)" : "");
  text += fmt::format(
      "documents {}: {} succeeded, {} failed ({} permanent, {} transient), "
      "{} deferred, {} mismatched\n",
      s.documents, s.succeeded, s.failed, s.failed_permanent, s.failed_transient, s.deferred,
      s.mismatched);
  text += fmt::format("calls     {}: {} refused (429), {} retries of {} documents\n", s.calls,
                      s.rate_limited, s.retries, s.documents_retried);
  text += fmt::format(
      "time      {:.1f} s elapsed, {} of it without a call under way; documents waited {:.1f} s in "
      "all\n",
      to_seconds(s.elapsed), percent(used.waiting_share()), to_seconds(s.model_wait));
  text += fmt::format("hints     Retry-After p50 {}, p95 {}; jitter {} to {}\n",
                      seconds_or_none(s.retry_after_p50), seconds_or_none(s.retry_after_p95),
                      seconds_or_none(s.jitter_min), seconds_or_none(s.jitter_max));
  const auto tokens = [](const std::optional<std::int64_t>& n) {
    return n ? fmt::format("{}", *n) : std::string("unknown");
  };
  text += fmt::format("tokens    {} prompt, {} completion\n", tokens(s.prompt_tokens),
                      tokens(s.completion_tokens));
  for (const auto& [why, count] : s.by_reason) {
    const auto known = retry::reason_named(why);
    text += fmt::format("{:>9} {}: {}\n", count, why, known ? retry::row_of(*known).remedy : "");
  }
  return text;
}

}  // namespace

int status(const status_command& what) {
  output_file out("");
  if (what.since) {
    const auto now =
        std::chrono::time_point_cast<wall_time::duration>(std::chrono::system_clock::now());
    const auto span = std::chrono::ceil<wall_time::duration>(*what.since);
    const auto runs = pipeline::usage_since(what.with.store, now - span);
    out.write(what.with.json ? pipeline::to_json(runs, span) + "\n" : in_words(runs, span));
    out.commit();
    return exit_codes::success;
  }
  const pipeline::summary s = pipeline::summarise(what.with.store, what.run);
  out.write(what.with.json ? pipeline::to_json(s) + "\n"
                           : in_words(s, usage_of(what), what.with.store));
  out.commit();
  return exit_codes::success;
}

int results(const results_command& what) {
  // A store that cannot be read leaves an older file as it was.
  output_file out(what.output);
  pipeline::for_each_result(what.with.store, what.run, [&](const pipeline::result_row& row) {
    out.write(pipeline::to_json_line(row) + "\n");
  });
  out.commit();
  return exit_codes::success;
}

}  // namespace sluice::app
