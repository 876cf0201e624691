// How long an answer asks us to wait: every form of Retry-After, reset headers, details in the body
// and the message's own words, ranked, and range-checked before any arithmetic.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "retry/time.hpp"

namespace sluice::provider {

/// Header fields, or fields of a body, in the order received; header names in lower case.
using field_list = std::vector<std::pair<std::string, std::string>>;

/// The value of the first header of that name, or nothing.
std::optional<std::string_view> header_value(const field_list& headers, std::string_view name);

/// What a number without a unit counts.
enum class bare_number { seconds, milliseconds, seconds_or_epoch };

/// One wait as a decimal number, a sequence of numbers with units ("1m26.4s"), an HTTP-date or an
/// ISO 8601 time, the last two relative to `now`. Zero or less is zero; beyond any clock, infinite
/// and not-a-number are retry::longest_hint; anything else is nothing.
std::optional<duration> parse_wait(std::string_view text, wall_time now, bare_number unit);

/// The longest wait that a message names in so many words: "Please try again in 4.25s".
std::optional<duration> wait_in_words(std::string_view message);

/// Where hints can be found in one answer.
struct hint_sources {
  const field_list& headers;
  const field_list&
      inner_headers;  ///< of the provider behind a router, from the body; names in lower case
  const field_list& details;  ///< fields of the body that name a wait
  std::string_view words;     ///< the message
  wall_time received{};       ///< stands in for a missing Date header
  bool resets = false;        ///< the answer is a refusal for rate, so resets speak of now
};

/// The wait of the best rank, and what it was chosen from, as received.
struct hint {
  std::optional<duration> wait;
  std::string raw;
};

/// Ranks: Retry-After and its millisecond forms; the reset of the exhausted bucket; details in the
/// body; words. Within a rank the longest.
hint find_hint(const hint_sources& from);

}  // namespace sluice::provider
