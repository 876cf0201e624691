// The answers that a batch is expected to give, from a fixture file.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "pipeline/answers/difference.hpp"

namespace sluice::pipeline {

/// Found by the document's ID; of several answers to one document the last counts. The file is read
/// once from beginning to end, then line by line as answers come: only places are kept in memory.
class expected_answers {
 public:
  /// Throws input_failure that names the file, the line, the cause and the remedy.
  expected_answers(std::string path, comparison how);

  /// Why nothing is expected of that document; nothing when something is.
  std::optional<std::string> missing(std::string_view id);
  /// How an answer differs from the one expected, in one line; nothing when it does not.
  std::optional<std::string> differs(std::string_view id, std::string_view answer);

 private:
  std::optional<std::string> text_of(std::string_view id);

  std::string path_;
  comparison how_;
  std::ifstream file_;
  std::unordered_map<std::string, std::streamoff> places_;
};

}  // namespace sluice::pipeline
