// One line of a fixture file: what was asked, and what was answered. `--record` writes such lines,
// `--expect` and `fake-endpoint --replay` read them.
//
//   {"id": "letters/07.txt",        the document
//    "request": {...},              the body of the request, as sent
//    "status": 200,
//    "text": "invoice",             the answer's text; absent where the call gave none
//    "body": "{\"id\":...}"}        the body of the answer, as received, the key removed
#pragma once

#include <string>
#include <string_view>
#include <variant>

namespace sluice::pipeline {

struct recorded_answer {
  std::string id;
  std::string request;  ///< JSON with its members sorted, so that equal requests are equal texts
  int status = 0;
  bool has_text = false;
  std::string text;
  std::string body;
};

/// Why a line is no recorded answer: one line for people.
struct recorded_answer_error {
  std::string cause;
};

/// Reads one line, without its line end. Never throws for what is in it.
std::variant<recorded_answer, recorded_answer_error> parse_recorded_answer(std::string_view line);

/// The line, without a line end. `request` may be any spelling of the JSON.
std::string recorded_answer_line(const recorded_answer& a);

/// A request in the spelling of recorded_answer::request; empty when it is no JSON object.
std::string canonical_request(std::string_view body);

}  // namespace sluice::pipeline
