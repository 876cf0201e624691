#include "pipeline/answers/recorded_answer.hpp"

#include <nlohmann/json.hpp>

namespace sluice::pipeline {
namespace {

using nlohmann::json;

std::string text_of(const json& j) {
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::variant<recorded_answer, recorded_answer_error> parse_recorded_answer(std::string_view line) {
  const auto wrong = [](std::string cause) { return recorded_answer_error{std::move(cause)}; };
  const json j = json::parse(line, nullptr, false);
  if (!j.is_object()) return wrong("is not a JSON object");
  const auto id = j.find("id");
  if (id == j.end() || !id->is_string()) return wrong("has no \"id\"");
  const auto request = j.find("request");
  if (request == j.end() || !request->is_object()) return wrong("has no \"request\"");
  const auto status = j.find("status");
  if (status == j.end() || !status->is_number_integer() || *status < 100 || *status > 599)
    return wrong("has no \"status\" between 100 and 599");
  const auto body = j.find("body");
  if (body == j.end() || !body->is_string()) return wrong("has no \"body\"");
  recorded_answer a;
  a.id = id->get<std::string>();
  a.request = text_of(*request);
  a.status = status->get<int>();
  a.body = body->get<std::string>();
  if (const auto text = j.find("text"); text != j.end() && !text->is_null()) {
    if (!text->is_string()) return wrong("has a \"text\" that is no string");
    a.has_text = true;
    a.text = text->get<std::string>();
  }
  return a;
}

std::string recorded_answer_line(const recorded_answer& a) {
  nlohmann::ordered_json j;
  j["id"] = a.id;
  j["request"] = nlohmann::ordered_json::parse(a.request, nullptr, false);
  j["status"] = a.status;
  if (a.has_text) j["text"] = a.text;
  j["body"] = a.body;
  return j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string canonical_request(std::string_view body) {
  const json j = json::parse(body, nullptr, false);
  return j.is_object() ? text_of(j) : std::string();
}

}  // namespace sluice::pipeline
