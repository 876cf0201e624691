// Summaries and results as JSON: the field names are a contract with scripts.
#include <nlohmann/json.hpp>

#include "pipeline/outcomes/queries.hpp"

namespace sluice::pipeline {
namespace {

using json = nlohmann::ordered_json;

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json seconds(const std::optional<duration>& value) {
  return value ? json(to_seconds(*value)) : json(nullptr);
}

json unless_empty(const std::string& text) {
  return text.empty() ? json(nullptr) : json(text);
}

std::string one_line(const json& j) {
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string to_json(const summary& s) {
  json j;
  j["run"] = s.run;
  j["documents"] = s.documents;
  j["succeeded"] = s.succeeded;
  j["failed"] = s.failed;
  j["failed_permanent"] = s.failed_permanent;
  j["failed_transient"] = s.failed_transient;
  j["deferred"] = s.deferred;
  j["mismatched"] = s.mismatched;
  j["calls"] = s.calls;
  j["rate_limited"] = s.rate_limited;
  j["retries"] = s.retries;
  j["documents_retried"] = s.documents_retried;
  j["model_wait_seconds"] = to_seconds(s.model_wait);
  j["elapsed_seconds"] = to_seconds(s.elapsed);
  j["prompt_tokens"] = or_null(s.prompt_tokens);
  j["completion_tokens"] = or_null(s.completion_tokens);
  j["retry_after_seconds_p50"] = seconds(s.retry_after_p50);
  j["retry_after_seconds_p95"] = seconds(s.retry_after_p95);
  j["jitter_seconds_min"] = seconds(s.jitter_min);
  j["jitter_seconds_max"] = seconds(s.jitter_max);
  j["by_reason"] = json::object();
  for (const auto& [reason, n] : s.by_reason) j["by_reason"][reason] = n;
  j["unfinished"] = s.unfinished;
  j["exit"] = or_null(s.exit);
  return one_line(j);
}

std::string to_json_line(const result_row& row) {
  json j;
  j["id"] = row.id;
  j["run"] = row.run;
  j["outcome"] = row.outcome;
  j["reason"] = row.reason;
  j["class"] = row.kind.empty() || row.kind == "none" ? json(nullptr) : json(row.kind);
  j["text"] = row.text;
  j["attempts"] = row.attempts;
  j["http_status"] = row.http_status == 0 ? json(nullptr) : json(row.http_status);
  j["request_id"] = unless_empty(row.request_id);
  j["prompt_tokens"] = or_null(row.prompt_tokens);
  j["completion_tokens"] = or_null(row.completion_tokens);
  j["wait_seconds"] = to_seconds(row.waited);
  j["duration_seconds"] = to_seconds(row.took);
  j["detail"] = unless_empty(row.detail);
  return one_line(j);
}

}  // namespace sluice::pipeline
