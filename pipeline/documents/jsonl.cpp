// One pass over the line without building a tree: only what is wanted is kept, and nesting costs
// nothing. The conversation is written out again as it goes by.
#include "pipeline/documents/jsonl.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "pipeline/documents/utf8.hpp"

namespace sluice::pipeline {
namespace {

using nlohmann::json;

enum class shape { absent, null, string, integer, object, array, other };

constexpr const char* spoken(shape s) {
  switch (s) {
    case shape::absent:
      return "absent";
    case shape::null:
      return "null";
    case shape::string:
      return "a string";
    case shape::integer:
      return "a number";
    case shape::object:
      return "an object";
    case shape::array:
      return "an array";
    case shape::other:
      break;
  }
  return "a number or a truth value";
}

struct field {
  shape is = shape::absent;
  std::string text;
  bool given() const { return is != shape::absent && is != shape::null; }
};

class line_handler final : public nlohmann::json_sax<json> {
 public:
  field id, custom_id, text, body, messages;
  std::size_t message_count = 0;
  bool message_not_object = false;
  std::string cause;

  bool null() override { return scalar(shape::null, "null", std::string()); }
  bool boolean(bool v) override {
    return scalar(shape::other, v ? "true" : "false", std::string());
  }
  bool number_integer(number_integer_t v) override {
    return scalar(shape::integer, std::to_string(v), std::to_string(v));
  }
  bool number_unsigned(number_unsigned_t v) override {
    return scalar(shape::integer, std::to_string(v), std::to_string(v));
  }
  bool number_float(number_float_t, const string_t& as_written) override {
    return scalar(shape::other, as_written, std::string());
  }
  bool string(string_t& v) override {
    if (capturing()) return scalar(shape::string, json(std::move(v)).dump(), std::string());
    return scalar(shape::string, std::string(), std::move(v));
  }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open('{', shape::object); }
  bool end_object() override { return close('}'); }
  bool start_array(std::size_t) override { return open('[', shape::array); }
  bool end_array() override { return close(']'); }

  bool key(string_t& v) override {
    if (capturing()) {
      separate();
      messages.text += json(std::move(v)).dump();
      messages.text += ':';
    } else if (depth_ == 1) {
      key_ = std::move(v);
    } else if (depth_ == 2 && in_body_) {
      body_key_ = std::move(v);
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    const std::string_view what = e.what();
    if (what.find("surrogate") != std::string_view::npos)
      cause = "half of a surrogate pair at byte " + std::to_string(position) +
              " (the text was cut inside a character)";
    else if (what.find("unexpected end of input") != std::string_view::npos ||
             what.find("missing closing quote") != std::string_view::npos)
      cause = "not JSON: the line is cut off";
    else
      cause = "not JSON at byte " + std::to_string(position);
    return false;
  }

 private:
  bool capturing() const { return capture_depth_ > 0; }

  void separate() {
    const char last = messages.text.empty() ? '[' : messages.text.back();
    if (last != '[' && last != '{' && last != ':') messages.text += ',';
  }

  // The field that a value at this place belongs to, or none.
  field* wanted() {
    if (depth_ == 1) {
      const std::pair<const char*, field*> names[] = {
          {"id", &id}, {"custom_id", &custom_id}, {"text", &text}, {"body", &body}};
      for (const auto& [name, f] : names)
        if (key_ == name) return f;
    }
    if (depth_ == 2 && in_body_ && body_key_ == "messages") return &messages;
    return nullptr;
  }

  bool scalar(shape is, const std::string& written, std::string value) {
    if (depth_ == 0) return not_an_object();
    if (capturing()) {
      note_element(is);
      separate();
      messages.text += written;
    } else if (field* f = wanted()) {
      f->is = is;
      f->text = std::move(value);
    }
    return true;
  }

  bool open(char bracket, shape is) {
    if (depth_ == 0 && is != shape::object) return not_an_object();
    if (depth_ == deepest_line) {
      cause = "nested deeper than " + std::to_string(deepest_line) + " levels";
      return false;
    }
    if (capturing()) {
      note_element(is);
      separate();
      messages.text += bracket;
    } else if (field* f = wanted()) {
      f->is = is;
      f->text.clear();
      if (f == &body) {
        in_body_ = is == shape::object;
        messages = field();
      }
      if (f == &messages && is == shape::array) {
        messages.text.assign(1, '[');
        message_count = 0;
        message_not_object = false;
        capture_depth_ = depth_ + 1;
      }
    }
    ++depth_;
    return true;
  }

  bool close(char bracket) {
    if (capturing()) {
      messages.text += bracket;
      if (depth_ == capture_depth_) capture_depth_ = 0;
    }
    --depth_;
    if (depth_ == 1) in_body_ = false;
    return true;
  }

  void note_element(shape is) {
    if (depth_ != capture_depth_) return;
    ++message_count;
    message_not_object = message_not_object || is != shape::object;
  }

  bool not_an_object() {
    cause = "not a JSON object";
    return false;
  }

  int depth_ = 0;
  int capture_depth_ = 0;
  bool in_body_ = false;
  std::string key_;
  std::string body_key_;
};

std::optional<std::string> fault_of_id(const line_handler& h, const field& id, const char* name) {
  if (!h.id.given() && !h.custom_id.given()) return "no \"id\" and no \"custom_id\"";
  if (id.is != shape::string && id.is != shape::integer)
    return std::string("\"") + name + "\" is " + spoken(id.is) + ", it must be a string";
  if (id.text.empty()) return std::string("\"") + name + "\" is empty";
  if (id.text.size() > longest_id)
    return std::string("\"") + name + "\" has " + std::to_string(id.text.size()) +
           " bytes, the most are " + std::to_string(longest_id);
  if (id.text.find('\0') != std::string::npos)
    return std::string("\"") + name + "\" contains a NUL character";
  return std::nullopt;
}

std::optional<std::string> fault_of_content(const line_handler& h) {
  if (h.body.given() && h.body.is != shape::object)
    return std::string("\"body\" is ") + spoken(h.body.is) + ", it must be an object";
  if (h.text.given() && h.messages.given())
    return "both \"text\" and \"body.messages\": which one is meant?";
  if (h.text.given()) {
    if (h.text.is != shape::string)
      return std::string("\"text\" is ") + spoken(h.text.is) + ", it must be a string";
    if (h.text.text.find('\0') != std::string::npos) return "\"text\" contains a NUL character";
    return std::nullopt;
  }
  if (!h.messages.given()) return "no \"text\" and no \"body.messages\"";
  if (h.messages.is != shape::array)
    return std::string("\"body.messages\" is ") + spoken(h.messages.is) + ", it must be an array";
  if (h.message_count == 0) return "\"body.messages\" is empty";
  if (h.message_not_object) return "\"body.messages\" holds something that is no object";
  return std::nullopt;
}

}  // namespace

std::variant<jsonl_entry, jsonl_error> parse_jsonl(std::string_view line) {
  if (const auto bad = first_invalid_utf8(line)) {
    std::string cause = "not UTF-8 at byte " + std::to_string(*bad + 1);
    if (line.starts_with("\xFF\xFE") || line.starts_with("\xFE\xFF"))
      cause = "UTF-16: convert the file with iconv -f UTF-16 -t UTF-8";
    return jsonl_error{std::move(cause)};
  }
  line_handler h;
  if (!json::sax_parse(line.begin(), line.end(), &h)) return jsonl_error{std::move(h.cause)};

  const bool own = h.id.given();
  field& id = own ? h.id : h.custom_id;
  if (auto fault = fault_of_id(h, id, own ? "id" : "custom_id"))
    return jsonl_error{std::move(*fault)};
  if (auto fault = fault_of_content(h)) return jsonl_error{std::move(*fault)};

  jsonl_entry entry;
  entry.id = std::move(id.text);
  entry.has_messages = h.messages.given();
  entry.text = std::move(h.text.text);
  if (entry.has_messages) entry.messages = std::move(h.messages.text);
  return entry;
}

std::string jsonl_line(std::string_view id, std::string_view text, std::string_view messages) {
  const auto quoted = [](std::string_view s) {
    return json(s).dump(-1, ' ', false, json::error_handler_t::replace);
  };
  // The conversation goes in as it is: through a tree, its keys would come out in another order.
  std::string line = "{\"id\":" + quoted(id);
  if (messages.empty())
    line += ",\"text\":" + quoted(text) + "}";
  else
    line.append(",\"body\":{\"messages\":").append(messages).append("}}");
  return line;
}

}  // namespace sluice::pipeline
