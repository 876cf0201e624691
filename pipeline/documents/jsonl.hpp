// One line of a JSONL batch: {"id" or "custom_id", "text" or "body": {"messages": [...]}}. Pure;
// the reader adds file and line number.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

namespace sluice::pipeline {

/// The longest line and the longest text file that are read.
inline constexpr std::size_t longest_document = std::size_t{16} << 20U;
/// The longest ID, in bytes.
inline constexpr std::size_t longest_id = 1024;
/// The deepest nesting of a line.
inline constexpr int deepest_line = 64;

/// What a good line holds. Exactly one of `text` and `messages` stands there; a text may be blank.
struct jsonl_entry {
  std::string id;
  std::string text;
  std::string messages;  ///< the array as compact JSON
  bool has_messages = false;
};

/// Why a line cannot be used: one line for people.
struct jsonl_error {
  std::string cause;
};

/// Reads one line, without its line end. Other fields are passed over. An integer ID is taken as
/// its decimal text; null counts as absent; of a field that stands twice the last counts.
std::variant<jsonl_entry, jsonl_error> parse_jsonl(std::string_view line);

/// A document as one such line, without a line end; parse_jsonl gives back the same. `messages` is
/// JSON or empty.
std::string jsonl_line(std::string_view id, std::string_view text, std::string_view messages);

}  // namespace sluice::pipeline
