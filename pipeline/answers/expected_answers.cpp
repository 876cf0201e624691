#include "pipeline/answers/expected_answers.hpp"

#include "pipeline/answers/recorded_answer.hpp"
#include "pipeline/documents/document.hpp"

namespace sluice::pipeline {

expected_answers::expected_answers(std::string path, comparison how)
    : path_(std::move(path)), how_(how), file_(path_, std::ios::binary) {
  if (!file_)
    throw input_failure("--expect " + path_ +
                        ": cannot be read; check the path and its permissions");
  std::uint64_t number = 0;
  std::streamoff at = 0;
  for (std::string line; std::getline(file_, line);) {
    ++number;
    const auto size = static_cast<std::streamoff>(line.size()) + 1;
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      auto parsed = parse_recorded_answer(line);
      if (const auto* e = std::get_if<recorded_answer_error>(&parsed))
        throw input_failure("--expect " + path_ + ":" + std::to_string(number) + ": " + e->cause +
                            "; record the answers anew with --record");
      auto& answer = std::get<recorded_answer>(parsed);
      if (answer.has_text) places_[std::move(answer.id)] = at;
    }
    at += size;
  }
  if (file_.bad()) throw input_failure("--expect " + path_ + ": reading failed; check the disk");
}

std::optional<std::string> expected_answers::missing(std::string_view id) {
  if (places_.contains(std::string(id))) return std::nullopt;
  return path_ + " holds no answer to this document; add one with --record";
}

std::optional<std::string> expected_answers::text_of(std::string_view id) {
  const auto place = places_.find(std::string(id));
  if (place == places_.end()) return std::nullopt;
  file_.clear();
  file_.seekg(place->second);
  std::string line;
  if (!std::getline(file_, line)) return std::nullopt;
  auto parsed = parse_recorded_answer(line);
  auto* answer = std::get_if<recorded_answer>(&parsed);
  if (answer == nullptr || answer->id != id) return std::nullopt;
  return std::move(answer->text);
}

std::optional<std::string> expected_answers::differs(std::string_view id, std::string_view answer) {
  if (auto reason = missing(id)) return reason;
  const auto expected = text_of(id);
  if (!expected) return path_ + " was changed while the batch ran; run again";
  return difference(*expected, answer, how_);
}

}  // namespace sluice::pipeline
