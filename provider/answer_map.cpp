#include "provider/answer_map.hpp"

#include <array>
#include <cstddef>
#include <iterator>

namespace sluice::provider {
namespace {

struct step {
  place from;
  std::string_view key;
  place to;
};

// Sorted by `from`, so that a lookup reads one short run.
constexpr step steps[] = {
    {place::root, "choices", place::choices},
    {place::root, "usage", place::usage},
    {place::root, "error", place::error},
    {place::root, "errors", place::errors},
    {place::root, "object", place::object_kind},
    {place::root, "message", place::words},
    {place::root, "msg", place::words},
    {place::root, "detail", place::words},
    {place::root, "code", place::code},
    {place::root, "status", place::code},
    {place::root, "type", place::word},
    {place::root, "error_type", place::word},
    {place::root, "request_id", place::request_id},
    {place::root, "retry_after", place::wait},
    {place::root, "estimated_time", place::wait},
    {place::choice, "message", place::message},
    {place::choice, "delta", place::message},
    {place::choice, "finish_reason", place::finish},
    {place::choice, "error", place::error},
    {place::message, "content", place::content},
    {place::message, "refusal", place::refusal},
    {place::message, "reasoning_content", place::reasoning},
    {place::message, "reasoning", place::reasoning},
    {place::message, "tool_calls", place::tools},
    {place::message, "function_call", place::tools},
    {place::part, "text", place::part_text},
    {place::part, "type", place::part_type},
    {place::part, "refusal", place::refusal},
    {place::part, "thinking", place::reasoning},
    {place::usage, "prompt_tokens", place::prompt_tokens},
    {place::usage, "completion_tokens", place::completion_tokens},
    {place::error, "code", place::code},
    {place::error, "status", place::code},
    {place::error, "type", place::word},
    {place::error, "message", place::words},
    {place::error, "innererror", place::inner_error},
    {place::error, "details", place::details},
    {place::error, "metadata", place::metadata},
    {place::error, "request_id", place::request_id},
    {place::error, "retry_after", place::wait},
    {place::error, "retry_after_seconds", place::wait},
    {place::error, "retry_after_ms", place::wait},
    {place::error, "retryAfter", place::wait},
    {place::error, "retryAfterMs", place::wait},
    {place::error, "resets_in_seconds", place::wait},
    {place::error, "resets_at", place::wait},
    {place::error, "n_prompt_tokens", place::size},
    {place::error, "n_ctx", place::size},
    {place::inner_error, "code", place::word},
    {place::metadata, "headers", place::headers},
    {place::metadata, "limit_source", place::quota_id},
    {place::metadata, "raw", place::raw_words},
    {place::metadata, "flagged_input", place::flagged},
    {place::metadata, "error_type", place::word},
    {place::metadata, "retry_after", place::wait},
    {place::metadata, "retry_after_seconds", place::wait},
    {place::metadata, "retry_after_ms", place::wait},
    {place::detail, "reason", place::word},
    {place::detail, "retryDelay", place::wait},
    {place::detail, "violations", place::violations},
    {place::detail, "msg", place::words},
    {place::violation, "quotaId", place::quota_id},
};

struct run {
  std::size_t first = 0;
  std::size_t last = 0;
};

constexpr auto runs = [] {
  std::array<run, static_cast<std::size_t>(place::last) + 1> all{};
  for (std::size_t i = 0; i < std::size(steps); ++i) {
    run& r = all[static_cast<std::size_t>(steps[i].from)];
    if (r.last == 0) r.first = i;
    r.last = i + 1;
  }
  return all;
}();

constexpr bool each_place_in_one_run() {
  std::size_t sum = 0;
  for (const run& r : runs) sum += r.last - r.first;
  return sum == std::size(steps);
}
static_assert(each_place_in_one_run(), "the steps are sorted by where they start");

}  // namespace

place below(place from, std::string_view key) {
  if (from == place::headers) return place::header;
  const run r = runs[static_cast<std::size_t>(from)];
  for (std::size_t i = r.first; i < r.last; ++i)
    if (steps[i].key == key) return steps[i].to;
  return place::nowhere;
}

place element_of(place from) {
  switch (from) {
    case place::root:
      return place::root;  // Google wraps its errors in an array
    case place::choices:
      return place::choice;
    case place::content:
      return place::part;
    case place::tools:
      return place::tools;
    case place::errors:
      return place::error;
    case place::words:
      return place::detail;  // FastAPI: "detail": [{"msg": ...}]
    case place::details:
      return place::detail;
    case place::violations:
      return place::violation;
    default:
      return place::nowhere;
  }
}

}  // namespace sluice::provider
