#include "pipeline/admission/gate_protocol.hpp"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace sluice::pipeline {
namespace {

using json = nlohmann::json;
using std::chrono::milliseconds;

constexpr std::size_t longest_name = 200;
constexpr std::int64_t longest_ms = std::int64_t{1000} * 60 * 60 * 24;
constexpr std::int64_t longest_lease_ms = std::int64_t{1000} * 60 * 60 * 4;
constexpr std::int64_t most_tokens = 1'000'000'000;
constexpr std::size_t most_limits = 16;

std::int64_t ms_of(duration d) {
  return std::chrono::floor<milliseconds>(d).count();
}

std::string text_of(const json& j) {
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

json texts_of(const std::vector<limit>& limits) {
  json texts = json::array();
  for (const limit& l : limits) texts.push_back(to_string(l));
  return texts;
}

// Each throws std::invalid_argument that says which field, and what is wrong.
[[noreturn]] void wrong(const char* field, const char* what) {
  throw std::invalid_argument(std::string(field) + ' ' + what);
}

std::optional<std::int64_t> whole(const json& j, const char* field, std::int64_t most) {
  const auto it = j.find(field);
  if (it == j.end() || it->is_null()) return std::nullopt;
  if (!it->is_number_integer()) wrong(field, "is not a whole number");
  if (it->is_number_unsigned() && it->get<std::uint64_t>() > static_cast<std::uint64_t>(most))
    wrong(field, "is too large");
  const auto value = it->get<std::int64_t>();
  if (value < 0) wrong(field, "is negative");
  if (value > most) wrong(field, "is too large");
  return value;
}

std::optional<duration> span(const json& j, const char* field, std::int64_t most = longest_ms) {
  const auto value = whole(j, field, most);
  if (!value) return std::nullopt;
  return milliseconds(*value);
}

bool yes(const json& j, const char* field, bool otherwise) {
  const auto it = j.find(field);
  if (it == j.end() || it->is_null()) return otherwise;
  if (!it->is_boolean()) wrong(field, "is neither true nor false");
  return it->get<bool>();
}

std::string name_in(const json& j, const char* field) {
  const auto it = j.find(field);
  if (it == j.end()) wrong(field, "is missing");
  std::string text;
  if (it->is_string())
    text = it->get<std::string>();
  else if (it->is_number_integer())
    text = it->dump();
  else
    wrong(field, "is neither text nor a whole number");
  if (text.empty()) wrong(field, "is empty");
  if (text.size() > longest_name) wrong(field, "is over 200 bytes");
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      wrong(field, "holds a control character");
  return text;
}

std::vector<limit> limits_in(const json& texts) {
  std::vector<limit> limits;
  if (texts.is_string()) {
    if (texts != "none") limits.push_back(parse_limit(texts.get_ref<const std::string&>()));
    return limits;
  }
  if (!texts.is_array() || texts.size() > most_limits) wrong("limit", "is no list of limits");
  for (const json& text : texts) {
    if (!text.is_string()) wrong("limit", "is no list of limits");
    limits.push_back(parse_limit(text.get_ref<const std::string&>()));
  }
  return limits;
}

json object_in(std::string_view body) {
  // Nothing said is nothing asked for by name.
  json j = body.empty() ? json::object() : json::parse(body, nullptr, false);
  if (!j.is_object()) throw std::invalid_argument("the body is not a JSON object");
  return j;
}

}  // namespace

std::string to_json(const slot_question& q) {
  json j;
  j["job"] = q.what.job;
  j["attempt"] = q.what.attempt;
  j["cost"] = q.what.cost.tokens;
  if (q.what.waited > duration::zero()) j["waited_ms"] = ms_of(q.what.waited);
  j["max_wait_ms"] = ms_of(q.what.max_wait);
  j["lease_ms"] = ms_of(q.what.longest);
  j["pace"] = q.what.shape == pace::smooth ? "smooth" : "burst";
  if (q.what.priority) j["priority"] = true;
  if (!q.what.ready) j["ready"] = false;
  if (q.poll) j["poll_ms"] = ms_of(*q.poll);
  if (q.limits) j["limit"] = texts_of(*q.limits);
  return text_of(j);
}

std::variant<slot_question, bad_question> parse_question(std::string_view body) {
  try {
    const json j = object_in(body);
    slot_question q;
    q.what.job = name_in(j, "job");
    q.what.attempt = name_in(j, "attempt");
    q.what.cost.tokens = whole(j, "cost", most_tokens).value_or(0);
    q.what.waited = span(j, "waited_ms").value_or(duration::zero());
    q.what.max_wait = span(j, "max_wait_ms").value_or(q.what.max_wait);
    q.what.longest = span(j, "lease_ms", longest_lease_ms).value_or(q.what.longest);
    q.what.ready = yes(j, "ready", true);
    q.what.priority = yes(j, "priority", false);
    q.poll = span(j, "poll_ms");
    if (const auto it = j.find("pace"); it != j.end()) {
      if (*it != "smooth" && *it != "burst") wrong("pace", "is neither smooth nor burst");
      if (*it == "burst") q.what.shape = pace::burst;
    }
    if (const auto it = j.find("limit"); it != j.end() && !it->is_null()) q.limits = limits_in(*it);
    return q;
  } catch (const std::invalid_argument& e) {
    return bad_question{e.what()};
  }
}

std::string to_json(const call_report& r) {
  json j = json::object();
  if (r.status) j["status"] = *r.status;
  if (r.retry_after) j["retry_after_ms"] = ms_of(*r.retry_after);
  if (r.tokens) j["tokens"] = *r.tokens;
  return text_of(j);
}

std::variant<call_report, bad_question> parse_report(std::string_view body) {
  try {
    const json j = object_in(body);
    call_report r;
    if (const auto status = whole(j, "status", 999)) r.status = static_cast<int>(*status);
    r.retry_after = span(j, "retry_after_ms");
    r.tokens = whole(j, "tokens", most_tokens);
    return r;
  } catch (const std::invalid_argument& e) {
    return bad_question{e.what()};
  }
}

std::string to_json(const budget_settings& s) {
  json j;
  j["limit"] = texts_of(s.limits);
  j["max_in_flight"] = s.max_in_flight;
  return text_of(j);
}

std::optional<budget_settings> parse_settings(std::string_view body) {
  try {
    const json j = object_in(body);
    budget_settings s;
    s.limits = limits_in(j.at("limit"));
    s.max_in_flight = static_cast<std::uint32_t>(whole(j, "max_in_flight", 1'000'000).value_or(0));
    return s;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string slot_id(std::uint64_t number, std::uint64_t client) {
  std::array<char, 20> hex{};
  const auto end = std::to_chars(hex.data(), hex.data() + hex.size(), client, 16).ptr;
  return std::to_string(number) + '-' + std::string(hex.data(), end);
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> parse_slot_id(std::string_view id) {
  const auto dash = id.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  std::pair<std::uint64_t, std::uint64_t> result;
  const auto read = [](std::string_view text, std::uint64_t& to, int base) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to, base);
    return !text.empty() && error == std::errc{} && end == text.data() + text.size();
  };
  if (!read(id.substr(0, dash), result.first, 10) || !read(id.substr(dash + 1), result.second, 16))
    return std::nullopt;
  return result;
}

std::string to_json(const slot_answer& a) {
  json j = json::object();
  if (a.status == 200) {
    j["slot"] = a.slot;
    j["use_within_ms"] = ms_of(a.use_within);
    j["waited_ms"] = ms_of(a.waited);
    return text_of(j);
  }
  if (a.status == 202) {
    j["waiting"] = true;
    j["turn_in_ms"] = ms_of(a.turn_in);
    j["cool_down_ms"] = ms_of(a.cool_down);
    return text_of(j);
  }
  j["error"] = a.error;
  j["message"] = a.message;
  if (a.retry_in > duration::zero()) j["retry_in_ms"] = ms_of(a.retry_in);
  if (a.error == "another_limit") j["limit"] = texts_of(a.limits);
  return text_of(j);
}

std::optional<slot_answer> parse_slot_answer(int status, std::string_view body) {
  try {
    const json j = object_in(body);
    slot_answer a;
    a.status = status;
    if (status == 200) {
      a.slot = name_in(j, "slot");
      a.use_within = span(j, "use_within_ms").value_or(duration::zero());
      a.waited = span(j, "waited_ms", 7 * longest_ms).value_or(duration::zero());
      return a;
    }
    a.turn_in = span(j, "turn_in_ms", 366 * longest_ms).value_or(duration::zero());
    a.cool_down = span(j, "cool_down_ms", 366 * longest_ms).value_or(duration::zero());
    a.retry_in = span(j, "retry_in_ms", 366 * longest_ms).value_or(duration::zero());
    if (status == 202) return a;
    a.error = name_in(j, "error");
    if (const auto it = j.find("message"); it != j.end() && it->is_string())
      a.message = it->get<std::string>();
    if (const auto it = j.find("limit"); it != j.end()) a.limits = limits_in(*it);
    return a;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace sluice::pipeline
