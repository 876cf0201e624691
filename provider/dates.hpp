// The calendar times an answer can hold.
#pragma once

#include <optional>
#include <string_view>

#include "retry/time.hpp"

namespace sluice::provider {

/// The three forms of an HTTP-date: IMF-fixdate, RFC 850, asctime (RFC 9110, 5.6.7). `near` places
/// years of two digits. A year beyond 9999 counts as 9999.
std::optional<wall_time> parse_http_date(std::string_view text, wall_time near);

/// A time of ISO 8601 with its zone, as RFC 3339 has it: "2026-03-03T02:01:00Z". Whole seconds.
std::optional<wall_time> parse_iso_time(std::string_view text);

}  // namespace sluice::provider
