// The body of an answer, taken apart in one pass: only what an outcome needs is kept, nothing is
// built for the rest.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "provider/endpoint.hpp"
#include "provider/hints.hpp"

namespace sluice::provider {

/// What an endpoint says of an error, wherever in the body it says it.
struct error_words {
  bool present = false;            ///< the body holds an error, not just a field that could be one
  int code = 0;                    ///< a number, as HTTP has them; 0 when there is none
  std::vector<std::string> codes;  ///< code, type, status, reason: words of a fixed vocabulary
  std::string message;             ///< the endpoint's words, cut at 4 KB
  std::string raw;                 ///< words of the provider behind a router, cut at 4 KB
  std::string quota_ids;           ///< Google's and OpenRouter's names for the limit that was hit
  bool flagged_input = false;      ///< OpenRouter: a moderation flagged the document
  std::string sizes;               ///< llama.cpp: " n_prompt_tokens=… n_ctx=…"
};

/// A chat completion, or what there was of it.
struct completion {
  enum class defect { none, syntax, too_deep };
  defect broken = defect::none;
  bool names_choices = false;  ///< the key "choices" is there, whatever its value
  bool has_choice = false;
  bool has_message = false;
  std::string text;
  std::string refusal;
  std::string finish_reason;
  std::string request_id;
  bool reasoned = false;      ///< a reasoning field that is not empty
  bool called_tools = false;  ///< a call of a tool or function
  usage tokens;
  error_words error;
  field_list inner_headers;  ///< error.metadata.headers, names in lower case
  field_list waits;          ///< fields that name a wait, as received
};

/// The deepest nesting that is read; what lies deeper is refused, whatever its length.
inline constexpr int deepest_nesting = 64;

/// Takes one JSON text apart. Never throws; invalid UTF-8 and whatever else is no JSON is
/// `defect::syntax`.
completion read_completion(std::string_view body);

/// Cuts a byte order mark and white space from the front.
std::string_view skip_preamble(std::string_view body);

}  // namespace sluice::provider
