// One event as a logfmt line. Values are quoted so that no document ID or server message can look
// like a field of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "retry/time.hpp"

namespace sluice::app {

/// Builds `event=NAME key=value ...`.
class event_line {
 public:
  explicit event_line(std::string_view name) : text_("event=" + std::string(name)) {}

  /// A text; quoted when it holds anything but the plainest characters.
  event_line& add(std::string_view key, std::string_view value);
  event_line& add(std::string_view key, std::uint64_t value);
  /// Seconds, to the millisecond.
  event_line& add(std::string_view key, duration value);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Seconds as a decimal with three places.
std::string seconds_text(duration d);

}  // namespace sluice::app
