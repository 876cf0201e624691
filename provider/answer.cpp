#include "provider/answer.hpp"

#include <algorithm>
#include <optional>

#include "provider/completion.hpp"
#include "provider/dialects.hpp"
#include "provider/event_stream.hpp"
#include "provider/hints.hpp"
#include "provider/text.hpp"

namespace sluice::provider {
namespace {

using retry::reason;

constexpr std::size_t longest_id = 128;
constexpr std::size_t longest_words = 4096;

// In this order; a proxy's own ID comes last.
constexpr std::string_view request_id_headers[] = {
    "x-request-id",    "request-id",       "apim-request-id",
    "x-ms-request-id", "x-amzn-requestid", "cf-ray",
};

// What kind of thing a body is, by its first bytes: content types are too often wrong.
enum class kind { nothing, json, stream, page, words };

kind kind_of(std::string_view body, std::optional<std::string_view> content_type) {
  if (body.empty()) return kind::nothing;
  if (body.front() == '{' || body.front() == '[') return kind::json;
  if (looks_like_stream(body)) return kind::stream;
  if (content_type && lower_case(*content_type).starts_with("text/event-stream"))
    return kind::stream;
  return body.front() == '<' ? kind::page : kind::words;
}

bool encoded(const http_answer& a, std::string& encoding) {
  for (const auto& [name, value] : a.headers)
    if (name == "content-encoding" && !value.empty() && !equal_ignoring_case(value, "identity")) {
      encoding = value;
      return true;
    }
  return false;
}

void read_headers(const http_answer& a, std::string_view key, attempt_report& into) {
  const auto advice = header_value(a.headers, "x-should-retry");
  if (advice == "true") into.signal.should_retry = true;
  if (advice == "false") into.signal.should_retry = false;
  for (const std::string_view name : request_id_headers)
    if (const auto id = header_value(a.headers, name); id && !id->empty()) {
      into.request_id = one_line(*id, key, longest_id);
      return;
    }
}

void describe(attempt_report& into, std::string_view text, std::string_view key) {
  into.detail = one_line(skip_preamble(text), key);
  while (into.detail.ends_with(' ')) into.detail.pop_back();
}

// The endpoint's own words, or the front of what it sent instead.
void describe_error(const error_words& error, std::string_view body, std::string_view key,
                    attempt_report& into) {
  std::string text = error.message;
  for (const std::string* more : {&error.sizes, &error.raw})
    if (!more->empty()) text.append(text.empty() ? "" : ": ").append(*more);
  describe(into, text.empty() ? body : text, key);
}

void find_hints(const http_answer& a, const completion& found, std::string_view key,
                attempt_report& into) {
  const reason why = into.signal.why;
  std::string words = found.error.message;
  if (!found.error.raw.empty()) words.append(" ").append(found.error.raw);
  hint best = find_hint({.headers = a.headers,
                         .inner_headers = found.inner_headers,
                         .details = found.waits,
                         .words = words,
                         .received = a.received,
                         .resets = why == reason::rate_limited || why == reason::daily_limit});
  into.signal.hint = best.wait;
  into.hints = one_line(best.raw, key);
}

void finish_error(const http_answer& a, int as_status, const completion& found,
                  std::string_view body, std::string_view key, attempt_report& into) {
  into.signal.why = classify_error(as_status, found.error);
  if (into.request_id.empty()) into.request_id = one_line(found.request_id, key, longest_id);
  describe_error(found.error, body, key, into);
  find_hints(a, found, key, into);
}

void interpret_error(const http_answer& a, std::string_view key, attempt_report& into) {
  completion found;
  std::string encoding;
  std::string_view body = skip_preamble(a.body);
  if (encoded(a, encoding)) {
    found.error.message = "the body is encoded: " + encoding;
    body = {};
  }
  switch (kind_of(body, header_value(a.headers, "content-type"))) {
    case kind::json:
      found = read_completion(body);
      break;
    case kind::stream:
      found = read_stream(body).whole;
      break;
    case kind::words:
      found.error.message = body.substr(0, longest_words);
      break;
    case kind::page:
      // For the markers of those who speak in pages only.
      if (a.status == 400) found.error.message = body.substr(0, longest_words);
      break;
    case kind::nothing:
      break;
  }
  finish_error(a, a.status, found, body, key, into);
}

// Nothing but thinking: a <think> block that is never closed, or with nothing after it. Some
// servers leave the opening tag out.
bool only_thinks(std::string_view text) {
  constexpr std::string_view closing = "</think>";
  text = skip_preamble(text);
  const bool opens = text.size() > 6 && equal_ignoring_case(text.substr(0, 6), "<think") &&
                     (text[6] == '>' || text[6] == ' ');
  const auto closed = text.rfind(closing);
  if (closed == text.npos) return opens;
  return blank(text.substr(closed + closing.size())) && (opens || text.find(closing) == closed);
}

struct verdict {
  reason why;
  std::string_view detail;
};

verdict judge(const completion& c) {
  if (!c.has_choice) return {reason::malformed_response, "there are no choices in the answer"};
  const auto finish = meaning_of_finish(c.finish_reason);
  switch (finish.value_or(reason::ok)) {
    case reason::ok:
      break;
    case reason::truncated:
      return {reason::truncated, "the answer hit the token limit"};
    case reason::content_filter:
      return {reason::content_filter, "the content filter cut in"};
    case reason::unexpected_tool_call:
      return {reason::unexpected_tool_call, "the model called a tool that was not offered"};
    case reason::refused:
      return {reason::refused, "the model declined"};
    default:
      return {*finish, "the answer ended with an error"};
  }
  if (!blank(c.refusal)) return {reason::refused, c.refusal};
  if (!c.has_message) return {reason::malformed_response, "the first choice has no message"};
  if (blank(c.text)) {
    if (c.called_tools)
      return {reason::unexpected_tool_call, "the model called a tool that was not offered"};
    if (c.reasoned) return {reason::empty_response, "no answer, only thoughts (reasoning_present)"};
    return {reason::empty_response, "the answer is empty"};
  }
  if (!finish) return {reason::malformed_response, "the finish reason is none that is known"};
  if (only_thinks(c.text))
    return {reason::empty_response, "no answer, only thoughts (reasoning_present)"};
  return {reason::ok, {}};
}

void fail(attempt_report& into, reason why, std::string_view detail, std::string_view key) {
  into.signal.why = why;
  describe(into, detail, key);
}

void finish_success(const http_answer& a, completion&& c, std::string_view key,
                    attempt_report& into) {
  into.tokens = c.tokens;
  into.finish_reason = one_line(c.finish_reason, key, longest_id);
  // Some routers answer {"code": 429, "message": ...} with a 200 and no more.
  const bool bare_error = !c.has_choice && c.error.code != 0;
  if (c.error.present || bare_error) {
    finish_error(a, c.error.code, c, skip_preamble(a.body), key, into);
    remove_key(c.text, key);
    into.text = std::move(c.text);
    return;
  }
  const verdict found = judge(c);
  if (found.why != reason::ok) fail(into, found.why, found.detail, key);
  into.text =
      found.why == reason::refused && blank(c.text) ? std::move(c.refusal) : std::move(c.text);
  remove_key(into.text, key);
}

void interpret_success(const http_answer& a, std::string_view key, attempt_report& into) {
  std::string encoding;
  if (encoded(a, encoding))
    return fail(into, reason::unsupported_encoding, "the body is encoded: " + encoding, key);
  const std::string_view body = skip_preamble(a.body);
  completion found;
  switch (kind_of(body, header_value(a.headers, "content-type"))) {
    case kind::nothing:
      return fail(into, reason::malformed_response, "the answer has no body", key);
    case kind::page:
    case kind::words:
      return fail(into, reason::not_json, body, key);
    case kind::json:
      found = read_completion(body);
      break;
    case kind::stream: {
      streamed events = read_stream(body);
      found = std::move(events.whole);
      // A stream of another API never is one of ours. One of ours without its end was cut off,
      // whatever framing says: most streams last until the connection does.
      if (events.foreign) return fail(into, reason::unexpected_stream, body, key);
      if (found.broken == completion::defect::none && !events.complete)
        return fail(into, reason::connection_lost, "the stream broke off before its end", key);
      break;
    }
  }
  switch (found.broken) {
    case completion::defect::none:
      break;
    case completion::defect::syntax:
      return fail(into, reason::malformed_response, body, key);
    case completion::defect::too_deep:
      return fail(into, reason::malformed_response, "the answer is nested too deep", key);
  }
  finish_success(a, std::move(found), key, into);
}

void interpret_redirect(const http_answer& a, std::string_view key, attempt_report& into) {
  const std::string_view to = header_value(a.headers, "location").value_or("(no location given)");
  fail(into, reason::redirected, "redirects to " + std::string(to), key);
}

}  // namespace

void interpret(const http_answer& a, std::string_view key, attempt_report& into) {
  into.signal = retry::signal(reason::ok, a.status);
  read_headers(a, key, into);
  if (a.status < 100)
    return fail(into, reason::malformed_response, "no such status: " + std::to_string(a.status),
                key);
  if (a.status >= 200 && a.status < 300) {
    interpret_success(a, key, into);
    // Whatever came of it, the model has worked.
    into.signal.may_have_been_billed = into.signal.why != reason::ok;
  } else if (a.status >= 300 && a.status < 400) {
    interpret_redirect(a, key, into);
  } else {
    interpret_error(a, key, into);
  }
}

}  // namespace sluice::provider
