#include "provider/completion.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "provider/answer_map.hpp"
#include "provider/text.hpp"

namespace sluice::provider {
namespace {

using json = nlohmann::json;

constexpr std::size_t most_words = 4096;
constexpr std::size_t longest_code = 128;
constexpr std::size_t most_fields = 32;
// Nobody is billed for more in one call; a larger count is a mistake, and no count to add up.
constexpr std::int64_t most_tokens = 1'000'000'000'000;
constexpr int number_overflow = 406;  // nlohmann's id for a number beyond double

void keep_words(std::string& into, std::string_view value) {
  if (value.empty() || into.size() >= most_words) return;
  if (!into.empty()) into += "; ";
  into += value.substr(0, most_words);
}

// Receives the parser's events and keeps what has a place.
class reader {
 public:
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  explicit reader(completion& into) : into_(into) {}

  bool null() {
    here();
    return true;
  }

  bool boolean(bool) {
    here();
    return true;
  }

  bool number_integer(number_integer_t value) {
    return number(value, [&] { return std::to_string(value); });
  }

  bool number_unsigned(number_unsigned_t value) {
    const auto count = value > static_cast<number_unsigned_t>(most_tokens)
                           ? most_tokens + 1
                           : static_cast<std::int64_t>(value);
    return number(count, [&] { return std::to_string(value); });
  }

  bool number_float(number_float_t value, const string_t& text) {
    const bool whole =
        std::abs(value) <= static_cast<double>(most_tokens) && value == std::floor(value);
    return number(whole ? static_cast<std::int64_t>(value) : -1, [&] { return text; });
  }

  bool string(string_t& value) {
    switch (here()) {
      case place::content:
        into_.text = std::move(value);
        break;
      case place::part:
        into_.text += value;
        break;
      case place::part_text:
        part_text_ += value;
        break;
      case place::part_type:
        part_reasons_ = value == "thinking" || value == "reasoning";
        break;
      case place::refusal:
        into_.refusal = std::move(value);
        break;
      case place::reasoning:
        into_.reasoned = into_.reasoned || !blank(value);
        break;
      case place::finish:
        into_.finish_reason = std::move(value);
        break;
      case place::request_id:
        into_.request_id = std::move(value);
        break;
      case place::object_kind:
        into_.error.present |= value == "error";
        break;
      case place::error:  // "error": "in plain words"
        into_.error.present |= !value.empty();
        keep_words(into_.error.message, value);
        break;
      case place::words:
      case place::detail:
        keep_words(into_.error.message, value);
        break;
      case place::raw_words:
        keep_words(into_.error.raw, value);
        break;
      case place::code:
      case place::word:
        take_word(value);
        break;
      case place::quota_id:
        keep_words(into_.error.quota_ids, value);
        break;
      case place::header:
        keep_field(into_.inner_headers, lower_case(key_), value);
        break;
      case place::wait:
        keep_field(into_.waits, key_, value);
        break;
      default:
        break;
    }
    return true;
  }

  bool binary(binary_t&) { return true; }

  bool start_object(std::size_t) {
    const place at = here();
    if (at == place::choice) into_.has_choice = true;
    if (at == place::message) {
      into_.has_message = true;
      into_.text.clear();
    }
    if (at == place::tools) into_.called_tools = true;
    if (at == place::part) {
      part_text_.clear();
      part_reasons_ = false;
    }
    return push(at, false);
  }

  bool key(string_t& name) {
    const place from = stack_[depth_ - 1].at;
    pending_ = below(from, name);
    // An error object with something in it is an error; {} and null are none.
    if (from == place::error) into_.error.present = true;
    if (pending_ == place::choices) into_.names_choices = true;
    if (pending_ == place::flagged) into_.error.flagged_input = true;
    if (pending_ == place::wait || pending_ == place::header || pending_ == place::size)
      key_ = std::move(name);
    return true;
  }

  bool end_object() {
    if (stack_[depth_ - 1].at == place::part) {
      if (part_reasons_)
        into_.reasoned |= !part_text_.empty();
      else
        into_.text += part_text_;
    }
    --depth_;
    return true;
  }

  bool start_array(std::size_t) {
    const place at = here();
    if (at == place::reasoning) into_.reasoned = true;
    if (at == place::content) into_.text.clear();
    if (at == place::choices) forget_choice();
    return push(at, true);
  }

  bool end_array() {
    --depth_;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token, const json::exception& fault) {
    overflowed = fault.id == number_overflow;
    broken_at = position;
    broken_token = token;
    return false;
  }

  bool too_deep = false;
  bool overflowed = false;
  std::size_t broken_at = 0;  ///< bytes read when it broke
  std::string broken_token;

 private:
  struct frame {
    place at = place::nowhere;
    bool array = false;
    bool first_seen = false;
  };

  // The place of the value that begins now. Called once per value.
  place here() {
    if (depth_ == 0) return place::root;
    frame& f = stack_[depth_ - 1];
    if (!f.array) return pending_;
    const bool first = !f.first_seen;
    f.first_seen = true;
    // One choice was asked for; the first is the answer.
    if (f.at == place::choices && !first) return place::nowhere;
    return element_of(f.at);
  }

  bool push(place at, bool array) {
    if (depth_ == stack_.size()) {
      too_deep = true;
      return false;
    }
    stack_[depth_++] = {at, array, false};
    return true;
  }

  // The same key twice: the last one counts.
  void forget_choice() {
    into_.has_choice = false;
    into_.has_message = false;
    into_.text.clear();
    into_.refusal.clear();
    into_.finish_reason.clear();
  }

  template <class Write>
  bool number(std::int64_t count, Write written) {
    switch (here()) {
      case place::code:
        if (count >= 400 && count <= 599)
          into_.error.code = static_cast<int>(count);
        else
          take_word(written());
        break;
      case place::prompt_tokens:
        keep_count(into_.tokens.prompt_tokens, count);
        break;
      case place::completion_tokens:
        keep_count(into_.tokens.completion_tokens, count);
        break;
      case place::wait:
        keep_field(into_.waits, key_, written());
        break;
      case place::header:
        keep_field(into_.inner_headers, lower_case(key_), written());
        break;
      case place::size:
        keep_words(into_.error.sizes, key_ + "=" + written());
        break;
      default:
        break;
    }
    return true;
  }

  static void keep_count(std::optional<std::int64_t>& into, std::int64_t count) {
    into.reset();
    if (count >= 0 && count <= most_tokens) into = count;
  }

  static void keep_field(field_list& into, const std::string& name, const std::string& value) {
    if (into.size() < most_fields) into.emplace_back(name, value);
  }

  void take_word(const std::string& value) {
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    if (value.size() == 3 && (value[0] == '4' || value[0] == '5') && digit(value[1]) &&
        digit(value[2])) {
      // "429" between quotes is a status too.
      into_.error.code = (value[0] - '0') * 100 + (value[1] - '0') * 10 + (value[2] - '0');
      return;
    }
    if (!value.empty() && value.size() <= longest_code && into_.error.codes.size() < most_fields)
      into_.error.codes.push_back(value);
  }

  completion& into_;
  std::array<frame, deepest_nesting> stack_{};
  std::size_t depth_ = 0;
  place pending_ = place::nowhere;
  bool part_reasons_ = false;
  std::string part_text_;
  std::string key_;  // of the field whose name is kept with its value
};

// What one pass over `body` found wrong.
struct pass {
  completion::defect broken = completion::defect::none;
  bool overflowed = false;
  std::size_t broken_at = 0;
  std::size_t token_size = 0;
};

pass read_once(std::string_view body, completion& into) {
  reader sax(into);
  pass result;
  if (json::sax_parse(body.begin(), body.end(), &sax)) return result;
  result.broken = sax.too_deep ? completion::defect::too_deep : completion::defect::syntax;
  result.overflowed = sax.overflowed;
  result.broken_at = sax.broken_at;
  result.token_size = sax.broken_token.size();
  return result;
}

// Writes a large number over the one that ended the pass; it takes no more room. False if it
// cannot.
bool tame_number(std::string& body, const pass& found) {
  constexpr std::string_view large = "1e300";
  const std::size_t size = found.token_size;
  if (found.broken_at > body.size() || size > found.broken_at) return false;
  const std::size_t at = found.broken_at - size;
  std::string instead = (body[at] == '-' ? "-" : "") + std::string(large);
  if (instead.size() > size) return false;
  instead.resize(size, ' ');
  body.replace(at, size, instead);
  return true;
}

}  // namespace

std::string_view skip_preamble(std::string_view body) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  constexpr std::string_view space = " \t\r\n";
  if (body.starts_with(mark)) body.remove_prefix(mark.size());
  while (!body.empty() && space.find(body.front()) != space.npos) body.remove_prefix(1);
  return body;
}

completion read_completion(std::string_view body) {
  body = skip_preamble(body);
  completion out;
  pass result = read_once(body, out);
  // A number beyond double ends the parser, but is no reason to lose a paid answer: read again with
  // a smaller one. Nothing that is kept can be so large, except a wait, which is then clamped.
  constexpr int most_rounds = 8;
  std::string patched;
  for (int round = 0; result.overflowed && round < most_rounds; ++round) {
    if (patched.empty()) patched = body;
    if (!tame_number(patched, result)) break;
    out = completion();
    result = read_once(patched, out);
  }
  out.broken = result.broken;
  return out;
}

}  // namespace sluice::provider
