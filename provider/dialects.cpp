#include "provider/dialects.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>

#include "provider/text.hpp"

namespace sluice::provider {
namespace {

using retry::reason;

// `settled` means that no code or type can make it something else, apart from billing.
struct status_row {
  int first;
  int last;
  reason why;
  bool settled;
};
constexpr status_row statuses[] = {
    {400, 400, reason::bad_request, false},  {401, 401, reason::key_refused, true},
    {402, 402, reason::billing, true},       {403, 403, reason::forbidden, false},
    {404, 404, reason::not_found, false},    {405, 405, reason::method_refused, true},
    {407, 407, reason::proxy_refused, true}, {408, 409, reason::server_error, true},
    {413, 413, reason::too_large, true},     {415, 415, reason::method_refused, true},
    {425, 425, reason::server_error, true},  {429, 429, reason::rate_limited, false},
    {498, 499, reason::server_error, true},  // Groq: no capacity; relays: the client was too slow
    {400, 499, reason::bad_request, false},  // the rest of them
    {500, 599, reason::server_error, true},
};

// A word in code, type, status or reason, whatever its case.
struct code_row {
  std::string_view code;
  reason why;
};
constexpr code_row codes[] = {
    {"insufficient_quota", reason::billing},
    {"insufficient_balance", reason::billing},
    {"insufficient_credits", reason::billing},
    {"insufficient_funds", reason::billing},
    {"billing_hard_limit", reason::billing},
    {"billing_hard_limit_reached", reason::billing},
    {"billing_not_active", reason::billing},
    {"billing_error", reason::billing},  // Anthropic
    {"payment_required", reason::billing},
    {"exceeded_current_quota_error", reason::billing},  // Moonshot
    {"arrearage", reason::billing},                     // DashScope
    {"invalid_api_key", reason::key_refused},
    {"api_key_invalid", reason::key_refused},  // Gemini, with 400
    {"invalidapikey", reason::key_refused},    // DashScope
    {"authentication_error", reason::key_refused},
    {"invalid_authentication_error", reason::key_refused},
    {"account_deactivated", reason::key_refused},
    {"unauthenticated", reason::key_refused},  // Google
    {"permission_denied", reason::forbidden},  // Google
    {"permission_error", reason::forbidden},   // Anthropic
    {"unsupported_country_region_territory", reason::forbidden},
    {"model_not_found", reason::not_found},
    {"not_found_error", reason::not_found},
    {"deploymentnotfound", reason::not_found},  // Azure
    {"unknown_model", reason::not_found},       // GitHub Models
    {"invalid_model", reason::not_found},       // Mistral
    {"context_length_exceeded", reason::too_large},
    {"context_window_exceeded", reason::too_large},
    {"contextwindowexceedederror", reason::too_large},  // LiteLLM
    {"exceed_context_size_error", reason::too_large},   // llama.cpp
    {"string_above_max_length", reason::too_large},
    {"request_too_large", reason::too_large},     // Anthropic
    {"tokens_limit_reached", reason::too_large},  // GitHub Models
    {"content_filter", reason::content_filter},
    {"responsibleaipolicyviolation", reason::content_filter},  // Azure
    {"content_policy_violation", reason::content_filter},
    {"data_inspection_failed", reason::content_filter},  // DashScope
    {"rate_limit_exceeded", reason::rate_limited},
    {"rate_limit_error", reason::rate_limited},
    {"ratelimitexceeded", reason::rate_limited},
    {"too_many_requests", reason::rate_limited},
    {"resource_exhausted", reason::rate_limited},  // Google
    {"overloaded_error", reason::server_error},
    {"engine_overloaded_error", reason::server_error},
    {"server_error", reason::server_error},
    {"internal_server_error", reason::server_error},
    {"internal_error", reason::server_error},
    {"service_unavailable", reason::server_error},
};

// Words of a message that exactly one thing can mean. Only where code and type do not tell it.
struct marker_row {
  std::string_view dialect;
  std::string_view text;  // in lower case
  reason why;
};
constexpr marker_row markers[] = {
    {"gateways", "insufficientquota", reason::billing},
    {"gateways", "insufficient_quota", reason::billing},
    {"DeepSeek", "insufficient balance", reason::billing},
    {"OpenRouter", "insufficient credits", reason::billing},
    {"Anthropic", "credit balance is too low", reason::billing},
    {"OpenAI", "billing hard limit has been reached", reason::billing},
    {"xAI", "used all available credits", reason::billing},
    {"Gemini", "api key not valid", reason::key_refused},
    {"Gemini", "user location is not supported", reason::forbidden},
    {"DeepSeek", "model not exist", reason::not_found},
    {"OpenRouter", "is not a valid model id", reason::not_found},
    {"LiteLLM", "invalid model name passed in", reason::not_found},
    {"DeepSeek", "content exists risk", reason::content_filter},
    {"OpenAI, vLLM, Mistral", "maximum context length", reason::too_large},
    {"vLLM", "context length is only", reason::too_large},
    {"vLLM", "longer than the maximum model length", reason::too_large},
    {"SGLang", "longer than the model's context length", reason::too_large},
    {"llama.cpp", "exceeds the available context size", reason::too_large},
    {"Ollama", "exceeds the context length", reason::too_large},
    {"Ollama", "exceeds maximum context length", reason::too_large},
    {"LM Studio", "when context the overflows", reason::too_large},
    {"Anthropic", "prompt is too long", reason::too_large},
    {"Anthropic", "exceed context limit", reason::too_large},
    {"Gemini", "exceeds the maximum number of tokens allowed", reason::too_large},
    {"xAI", "maximum prompt length", reason::too_large},
    {"TGI", "`inputs` tokens + `max_new_tokens` must be", reason::too_large},
    {"Bedrock", "input is too long for requested model", reason::too_large},
    {"OpenAI, Groq", "request too large for", reason::too_large},
    {"nginx", "plain http request was sent to https port", reason::method_refused},
    {"Apache", "speaking plain http to an ssl-enabled server port", reason::method_refused},
    {"Go", "client sent an http request to an https server", reason::method_refused},
};

// Limits of a day, in a code or in the name of a limit, and in a message.
constexpr std::string_view daily_names[] = {"daily", "per_day", "per-day", "perday"};
constexpr std::string_view daily_markers[] = {
    "per day (rpd)", "per day (tpd)", "on requests per day", "on tokens per day",
    "per day limit", "-per-day",      "daily limit",         "daily quota",
    "daily free",    "per 86400s",    "userbymodelbyday",
};
constexpr std::string_view daily_words[] = {"RPD", "TPD"};

constexpr std::string_view loading_markers[] = {"loading model", "currently loading",
                                                "model is loading", "model loading"};

struct finish_row {
  std::string_view name;
  reason why;
};
constexpr finish_row finishes[] = {
    {"stop", reason::ok},
    {"eos", reason::ok},
    {"eos_token", reason::ok},
    {"end_turn", reason::ok},
    {"stop_sequence", reason::ok},
    {"complete", reason::ok},
    {"completed", reason::ok},
    {"length", reason::truncated},
    {"max_tokens", reason::truncated},
    {"max_output_tokens", reason::truncated},
    {"model_length", reason::truncated},
    {"model_context_window_exceeded", reason::truncated},
    {"content_filter", reason::content_filter},
    {"content_filtered", reason::content_filter},
    {"safety", reason::content_filter},
    {"recitation", reason::content_filter},
    {"blocklist", reason::content_filter},
    {"prohibited_content", reason::content_filter},
    {"spii", reason::content_filter},
    {"sensitive", reason::content_filter},
    {"refusal", reason::refused},
    {"tool_calls", reason::unexpected_tool_call},
    {"tool_use", reason::unexpected_tool_call},
    {"function_call", reason::unexpected_tool_call},
    {"error", reason::server_error},
    {"abort", reason::server_error},
    {"network_error", reason::server_error},
    {"insufficient_system_resource", reason::server_error},  // DeepSeek
};

template <class Texts>
bool contains_any(std::string_view text, const Texts& parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view p) { return text.find(p) != std::string_view::npos; });
}

bool alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool has_word(std::string_view text, std::string_view word) {
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !alphanumeric(text[at - 1])) &&
        (end == text.size() || !alphanumeric(text[end])))
      return true;
  }
  return false;
}

std::optional<reason> meaning_of_codes(const error_words& error) {
  // The table's order is the rank: billing before the key, both before the request.
  for (const code_row& row : codes)
    for (const std::string& code : error.codes)
      if (equal_ignoring_case(code, row.code)) return row.why;
  return std::nullopt;
}

std::optional<reason> meaning_of_markers(std::string_view lower_message) {
  for (const marker_row& row : markers)
    if (lower_message.find(row.text) != std::string_view::npos) return row.why;
  return std::nullopt;
}

bool is_daily(const error_words& error, std::string_view lower_message) {
  for (const std::string& code : error.codes)
    if (contains_any(lower_case(code), daily_names)) return true;
  if (contains_any(lower_case(error.quota_ids), daily_names)) return true;
  return contains_any(lower_message, daily_markers) ||
         std::ranges::any_of(daily_words,
                             [&](std::string_view w) { return has_word(error.message, w); });
}

// A refusal for rate, unless a closer look shows that waiting a little will not help.
reason refine_refusal(const error_words& error, std::string_view lower_message) {
  const auto marked = meaning_of_markers(lower_message);
  if (marked == reason::billing) return reason::billing;
  if (marked == reason::too_large || over_limit_in_words(error.message)) return reason::too_large;
  return is_daily(error, lower_message) ? reason::daily_limit : reason::rate_limited;
}

// The number at or after `text`'s front, past blanks, ':' and '~'; thousands may have commas.
std::optional<std::uint64_t> number_after(std::string_view text) {
  const auto begin = text.find_first_not_of(" :~=");
  if (begin == text.npos) return std::nullopt;
  std::string digits;
  for (const char c : text.substr(begin, 30)) {
    if (c == ',' && !digits.empty()) continue;
    if (c < '0' || c > '9') break;
    digits += c;
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc{}) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> number_after_word(std::string_view text, std::string_view word) {
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1))
    if (const auto value = number_after(text.substr(at + word.size()))) return value;
  return std::nullopt;
}

// "A + B > C" with numbers that bear it out.
bool sum_above(std::string_view text) {
  const auto plus = text.find(" + ");
  if (plus == text.npos) return false;
  const auto above = text.find(" > ", plus);
  if (above == text.npos) return false;
  const auto begin = text.find_last_not_of("0123456789", plus == 0 ? 0 : plus - 1);
  const auto a = number_after(text.substr(begin == text.npos ? 0 : begin + 1));
  const auto b = number_after(text.substr(plus + 3));
  const auto c = number_after(text.substr(above + 3));
  return a && b && c && (*a > *c || *b > *c - *a);
}

}  // namespace

bool over_limit_in_words(std::string_view message) {
  const std::string lower = lower_case(message);
  const auto limit = number_after_word(lower, "limit");
  const auto requested = number_after_word(lower, "requested");
  if (limit && requested && *requested > *limit) return true;
  return sum_above(message);
}

bool tells_enough(int status) {
  const auto* row = std::ranges::find_if(
      statuses, [&](const status_row& r) { return status >= r.first && status <= r.last; });
  return row != std::end(statuses) && (row->settled || row->why == reason::rate_limited);
}

reason classify_error(int status, const error_words& error) {
  const auto said = meaning_of_codes(error);
  if (said == reason::billing) return reason::billing;
  const std::string message = lower_case(error.message);
  if (status == 0) {
    if (said == reason::rate_limited) return refine_refusal(error, message);
    return said.value_or(reason::server_error);
  }
  const auto* row = std::ranges::find_if(
      statuses, [&](const status_row& r) { return status >= r.first && status <= r.last; });
  if (row == std::end(statuses)) return reason::malformed_response;
  if (status == 503 && contains_any(message, loading_markers)) return reason::server_loading;
  if (row->settled) return row->why;
  if (row->why == reason::rate_limited)
    return said == reason::too_large ? reason::too_large : refine_refusal(error, message);

  if (error.flagged_input) return reason::content_filter;
  if (said == reason::rate_limited) return refine_refusal(error, message);
  if (said) return *said;
  if (const auto marked = meaning_of_markers(message)) return *marked;
  if (row->why == reason::bad_request && over_limit_in_words(error.message))
    return reason::too_large;
  return row->why;
}

std::optional<reason> meaning_of_finish(std::string_view finish_reason) {
  if (finish_reason.empty()) return reason::ok;
  for (const finish_row& row : finishes)
    if (equal_ignoring_case(row.name, finish_reason)) return row.why;
  return std::nullopt;
}

}  // namespace sluice::provider
