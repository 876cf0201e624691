// What tells that a document would be analysed anew: a hash of everything that shapes the answer.
#pragma once

#include <memory>
#include <string_view>

#include "pipeline/outcomes/records.hpp"

namespace sluice::pipeline {

/// Hashes the run's part once and each document's part on top of it. One thread at a time.
class fingerprinter {
 public:
  /// The endpoint's origin (scheme, host, port), the model, its parameters and the prompt, each in
  /// whatever fixed spelling the caller has for it. Throws std::runtime_error without SHA-256.
  fingerprinter(std::string_view origin, std::string_view model, std::string_view parameters,
                std::string_view prompt);
  ~fingerprinter();
  fingerprinter(fingerprinter&&) noexcept;
  fingerprinter& operator=(fingerprinter&&) noexcept;

  /// The ID is no part of it: what is asked is the same under another name.
  fingerprint of(const document& d) const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace sluice::pipeline
