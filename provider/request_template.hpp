// The request body, made ready once and filled in per document.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::provider {

/// What is the same for all requests of a run.
struct request_options {
  std::string model;
  std::string system_prompt;      ///< sent as it is; empty for none
  std::string prompt = "{text}";  ///< the user's message; {text} and {id} are filled in
  std::optional<std::int64_t> max_tokens;
  std::optional<double> temperature;
  std::string extra_json;  ///< further members of the request, as a JSON object, or empty
};

/// Renders bodies for POST /chat/completions. Never asks for a stream.
class request_template {
 public:
  /// Throws std::invalid_argument, with cause and remedy, for options that make no valid request.
  explicit request_template(request_options options);

  /// The JSON body. {text} and {id} in the user's prompt are filled in; in the document they are
  /// data, and bytes that are no UTF-8 become U+FFFD. Messages (a JSON array as text) are sent as
  /// they are, after the system prompt. Throws std::invalid_argument unless exactly one of text and
  /// messages is not empty, and when messages is no JSON array with something in it.
  std::string render(std::string_view id, std::string_view text, std::string_view messages) const;

  /// Canonical text of what shapes the answer beside model and prompts, for fingerprints.
  std::string parameters() const;

  /// System prompt and user template without ambiguity, for fingerprints.
  std::string prompt_text() const;

  /// Bytes of the body / 4 + max_tokens, from wherever it was given; 0 for it when unset.
  std::int64_t estimate_tokens(std::string_view body) const;

 private:
  /// A stretch of a JSON string that is fixed, then what follows it.
  struct piece {
    enum class filler { nothing, text, id };
    std::string fixed;
    filler then = filler::nothing;
  };

  static std::vector<piece> cut(std::string_view prompt);
  static void append(std::string& out, const std::vector<piece>& pieces, const std::string& id,
                     const std::string& text);

  request_options options_;
  std::string head_;  ///< up to the messages
  std::string tail_;  ///< after them
  std::string parameters_;
  std::string system_;  ///< the system message and a comma, or nothing
  std::vector<piece> prompt_;
  std::uint64_t answer_tokens_ = 0;
};

}  // namespace sluice::provider
