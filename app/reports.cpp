#include "app/reports.hpp"

#include <fmt/format.h>

#include "app/exit_codes.hpp"
#include "app/output_file.hpp"
#include "pipeline/outcomes/queries.hpp"
#include "retry/table.hpp"

namespace sluice::app {
namespace {

std::string seconds_or_none(const std::optional<duration>& d) {
  return d ? fmt::format("{:.1f} s", to_seconds(*d)) : "none";
}

std::string in_words(const pipeline::summary& s, const std::string& store) {
  std::string text = fmt::format("store     {}\nlast run  {}{}\n", store, s.run,
                                 s.unfinished ? " (going on, or was killed)" : "");
  text += fmt::format(
      "documents {}: {} succeeded, {} failed ({} permanent, {} transient), "
      "{} deferred, {} mismatched\n",
      s.documents, s.succeeded, s.failed, s.failed_permanent, s.failed_transient, s.deferred,
      s.mismatched);
  text += fmt::format("calls     {}: {} refused (429), {} retries of {} documents\n", s.calls,
                      s.rate_limited, s.retries, s.documents_retried);
  text += fmt::format("time      {:.1f} s elapsed; documents waited {:.1f} s in all\n",
                      to_seconds(s.elapsed), to_seconds(s.model_wait));
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
  const pipeline::summary s = pipeline::summarise(what.with.store, what.run);
  output_file out("");
  out.write(what.with.json ? pipeline::to_json(s) + "\n" : in_words(s, what.with.store));
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
