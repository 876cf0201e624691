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
  std::string system_prompt;      ///< empty for none
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

  /// The JSON body. Exactly one of text and messages (a JSON array as text) is not empty; else, or
  /// when messages is no array or the text is no UTF-8, throws std::invalid_argument. {text} and
  /// {id} in the prompts are filled in; in the document they are data. Messages are sent as they
  /// are, after the system prompt if there is one.
  std::string render(std::string_view id, std::string_view text, std::string_view messages) const;

  /// Canonical text of what shapes the answer beside model and prompts, for fingerprints.
  std::string parameters() const;

  /// System prompt and user template without ambiguity, for fingerprints.
  std::string prompt_text() const;

  /// Bytes of the body / 4 + max_tokens, or 0 when that is unset.
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
  std::vector<piece> system_;
  std::vector<piece> prompt_;
};

}  // namespace sluice::provider
