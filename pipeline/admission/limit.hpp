// Limits as people write them: 10/60s, 200000tok/60s, 1000/1d.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "retry/time.hpp"

namespace sluice::pipeline {

/// What a limit counts.
enum class limit_unit { requests, tokens };

/// At most `amount` in any `window`.
struct limit {
  std::int64_t amount = 10;
  duration window = std::chrono::seconds(60);
  limit_unit unit = limit_unit::requests;

  bool operator==(const limit&) const = default;
};

/// Parses "10/60s", "200000tok/60s" or "1000/1d" (units ms, s, m or min, h, d). Throws
/// std::invalid_argument that names the text, the cause and an example.
limit parse_limit(std::string_view text);

/// Parses a duration such as "90s", "1.5m", "250ms"; a bare number is seconds. Throws
/// std::invalid_argument.
duration parse_duration_option(std::string_view text);

/// The limit as it would be written.
std::string to_string(const limit& l);

}  // namespace sluice::pipeline
