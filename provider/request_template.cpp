#include "provider/request_template.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace sluice::provider {
namespace {

using json = nlohmann::json;

constexpr std::string_view text_mark = "{text}";
constexpr std::string_view id_mark = "{id}";
// More is no estimate: it would only overflow the budget's arithmetic.
constexpr std::uint64_t most_answer_tokens = 1'000'000'000;

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument(why);
}

// The inside of a JSON string: escaped, without the quotes. Bytes that are no UTF-8 become U+FFFD.
std::string escaped(std::string_view text) {
  std::string quoted = json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  quoted.pop_back();
  quoted.erase(0, 1);
  return quoted;
}

// The same for what comes from the command line or the configuration: there it is a mistake.
std::string escaped_option(std::string_view text, const char* what) {
  try {
    json(text).dump();
    return escaped(text);
  } catch (const json::exception&) {
    refuse(std::string(what) + " is not valid UTF-8: convert it, e.g. with iconv -t utf-8");
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view space = " \t\r\n";
  const auto first = text.find_first_not_of(space);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(space) - first + 1);
}

json read_extra(const std::string& text) {
  if (text.empty()) return json::object();
  json extra = json::parse(text, nullptr, false);
  if (!extra.is_object())
    refuse("the extra parameters are not a JSON object: write them as {\"top_p\": 0.9}");
  for (const char* name : {"messages", "model"})
    if (extra.contains(name))
      refuse(std::string("the extra parameters must not hold \"") + name +
             "\": use the options for model and prompt");
  if (const auto stream = extra.find("stream"); stream != extra.end()) {
    if (*stream != false)
      refuse("the extra parameters must not ask for a stream: take \"stream\" out of them");
    extra.erase(stream);
  }
  return extra;
}

bool positive(const nlohmann::json& number) {
  return number.is_number_unsigned() ||
         (number.is_number_integer() && number.get<std::int64_t>() > 0);
}

}  // namespace

request_template::request_template(request_options options) : options_(std::move(options)) {
  if (options_.model.empty()) refuse("no model is named: set --model");
  if (options_.prompt.find(text_mark) == std::string::npos)
    refuse("the prompt has no {text}: write {text} where the document belongs");
  if (options_.max_tokens && *options_.max_tokens <= 0)
    refuse("max_tokens must be at least 1: raise it or leave it out");
  if (options_.temperature && !std::isfinite(*options_.temperature))
    refuse("the temperature is not a number: give one such as 0.2");

  json extra = read_extra(options_.extra_json);
  const auto set = [&](const char* name, json value) {
    if (extra.contains(name))
      refuse(std::string("\"") + name +
             "\" is given twice, as an option and in the extra parameters: take one out");
    extra[name] = std::move(value);
  };
  if (options_.max_tokens) set("max_tokens", *options_.max_tokens);
  if (options_.temperature) set("temperature", *options_.temperature);

  for (const char* name : {"max_tokens", "max_completion_tokens"})
    if (const auto most = extra.find(name); most != extra.end() && positive(*most))
      answer_tokens_ = std::min(most->get<std::uint64_t>(), most_answer_tokens);

  // Object keys are sorted by nlohmann's default map, so the text is canonical.
  try {
    parameters_ = extra.dump();
  } catch (const json::exception&) {
    refuse("the extra parameters are not valid UTF-8: convert them, e.g. with iconv -t utf-8");
  }
  head_ =
      R"({"model":")" + escaped_option(options_.model, "the model's name") + R"(","messages":[)";
  tail_ = extra.empty() ? "]}" : "]," + parameters_.substr(1);
  if (!options_.system_prompt.empty())
    system_ = R"({"role":"system","content":")" +
              escaped_option(options_.system_prompt, "the system prompt") + "\"},";
  prompt_ = cut(options_.prompt);
}

std::vector<request_template::piece> request_template::cut(std::string_view prompt) {
  std::vector<piece> pieces;
  while (!prompt.empty()) {
    const auto text = prompt.find(text_mark);
    const auto id = prompt.find(id_mark);
    const auto at = std::min(text, id);
    piece next;
    next.fixed = escaped_option(prompt.substr(0, at), "the prompt");
    if (at == std::string_view::npos) {
      prompt = {};
    } else {
      next.then = text < id ? piece::filler::text : piece::filler::id;
      prompt.remove_prefix(at + (text < id ? text_mark.size() : id_mark.size()));
    }
    pieces.push_back(std::move(next));
  }
  return pieces;
}

void request_template::append(std::string& out, const std::vector<piece>& pieces,
                              const std::string& id, const std::string& text) {
  for (const piece& p : pieces) {
    out += p.fixed;
    if (p.then == piece::filler::text) out += text;
    if (p.then == piece::filler::id) out += id;
  }
}

std::string request_template::render(std::string_view id, std::string_view text,
                                     std::string_view messages) const {
  if (text.empty() == messages.empty())
    refuse("a document has either a text or messages: give exactly one of them");
  const std::string safe_id = escaped(id);
  const std::string safe_text = escaped(text);

  std::string out;
  out.reserve(head_.size() + system_.size() + options_.prompt.size() + safe_text.size() +
              messages.size() + tail_.size() + 256);
  out += head_;
  out += system_;
  if (messages.empty()) {
    out += R"({"role":"user","content":")";
    append(out, prompt_, safe_id, safe_text);
    out += "\"}";
  } else {
    // Checked without being built, then sent as it is: order and spelling are the document's.
    const std::string_view list = trim(messages);
    const bool array = list.starts_with('[') && json::accept(list);
    const std::string_view inside = array ? trim(list.substr(1, list.size() - 2)) : list;
    if (!array || inside.empty())
      refuse("the document's messages are not a JSON array with something in it");
    out += inside;
  }
  out += tail_;
  return out;
}

std::string request_template::parameters() const {
  return parameters_;
}

std::string request_template::prompt_text() const {
  return json::array({options_.system_prompt, options_.prompt}).dump();
}

std::int64_t request_template::estimate_tokens(std::string_view body) const {
  return static_cast<std::int64_t>(body.size() / 4 + answer_tokens_);
}

}  // namespace sluice::provider
