#include "provider/event_stream.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace sluice::provider {
namespace {

constexpr std::string_view end_mark = "[DONE]";

void keep_last(std::optional<std::int64_t>& into, std::optional<std::int64_t> value) {
  if (value) into = value;
}

void append(completion& whole, completion&& chunk) {
  whole.broken = chunk.broken;
  whole.names_choices |= chunk.names_choices;
  whole.has_choice |= chunk.has_choice;
  whole.has_message |= chunk.has_message;
  whole.text += chunk.text;
  whole.refusal += chunk.refusal;
  whole.reasoned |= chunk.reasoned;
  whole.called_tools |= chunk.called_tools;
  if (!chunk.finish_reason.empty()) whole.finish_reason = std::move(chunk.finish_reason);
  if (!chunk.request_id.empty()) whole.request_id = std::move(chunk.request_id);
  keep_last(whole.tokens.prompt_tokens, chunk.tokens.prompt_tokens);
  keep_last(whole.tokens.completion_tokens, chunk.tokens.completion_tokens);
  if (chunk.error.present) {
    whole.error = std::move(chunk.error);
    whole.inner_headers = std::move(chunk.inner_headers);
    whole.waits = std::move(chunk.waits);
  }
}

std::string_view take_line(std::string_view& rest) {
  const auto end = rest.find_first_of("\r\n");
  const std::string_view line = rest.substr(0, end);
  if (end == std::string_view::npos) {
    rest = {};
  } else {
    const bool both = rest.substr(end).starts_with("\r\n");
    rest.remove_prefix(end + (both ? 2 : 1));
  }
  return line;
}

}  // namespace

bool looks_like_stream(std::string_view body) {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"data:", "event:", "id:", "retry:", ":"},
      [&](std::string_view field) { return body.starts_with(field); });
}

streamed read_stream(std::string_view body) {
  streamed out;
  std::string_view rest = skip_preamble(body);
  std::string data;
  bool read_any = false;
  bool ours = false;
  while (!rest.empty()) {
    const std::string_view line = take_line(rest);
    if (line.starts_with("data:")) {
      std::string_view value = line.substr(5);
      if (value.starts_with(' ')) value.remove_prefix(1);
      if (!data.empty()) data += '\n';
      data += value;
    }
    // A blank line ends an event. So does the end of the body: it is complete by its framing.
    if ((!line.empty() && !rest.empty()) || data.empty()) continue;
    if (data == end_mark) {
      out.complete = true;
      break;
    }
    append(out.whole, read_completion(data));
    data.clear();
    read_any = true;
    ours = out.whole.names_choices || out.whole.error.present;
    if (out.whole.broken != completion::defect::none) break;
    if (out.whole.error.present || !out.whole.finish_reason.empty()) out.complete = true;
    if (out.whole.error.present) break;
  }
  out.foreign = read_any && out.whole.broken == completion::defect::none && !ours;
  return out;
}

}  // namespace sluice::provider
