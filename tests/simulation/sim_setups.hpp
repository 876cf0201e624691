// Short ways to say what a simulated endpoint answers.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "fixtures/simulation/simulation.hpp"

namespace sluice::fixtures {

/// One bad answer, after `took`.
inline provider::attempt_report bad_answer(retry::reason why, int status,
                                           std::optional<duration> hint = std::nullopt,
                                           duration took = duration::zero()) {
  provider::attempt_report report;
  report.signal = retry::signal(why, status);
  report.signal.hint = hint;
  report.took.total = took;
  return report;
}

/// One good answer, after `took`.
inline provider::attempt_report good_answer(duration took) {
  provider::attempt_report report;
  report.signal = retry::signal(retry::reason::ok, 200);
  report.text = "fine";
  report.took.total = took;
  return report;
}

/// As scripts give them.
inline std::optional<provider::attempt_report> just(provider::attempt_report report) {
  return std::optional<provider::attempt_report>(std::move(report));
}

/// One job without a limit on either side, and answers after a tenth of a second.
inline sim_setup unlimited(unsigned documents, unsigned concurrency) {
  sim_setup s;
  s.documents = documents;
  s.server.limit.reset();
  s.server.answer_min = s.server.answer_max = std::chrono::milliseconds(100);
  s.options.concurrency = concurrency;
  return s;
}

/// One job with 10/60s at the default pace, against a server that takes all.
inline sim_setup ten_a_minute(unsigned documents) {
  sim_setup s = unlimited(documents, 8);
  s.options.limits.push_back(pipeline::limit());
  return s;
}

/// A document with an ID and a text.
inline pipeline::source_item item(std::string id, std::string text = "text") {
  pipeline::document d;
  d.id = std::move(id);
  d.text = std::move(text);
  return pipeline::source_item(std::move(d));
}

}  // namespace sluice::fixtures
