#include "app/logfmt.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::app {
namespace {

bool plain(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '_' || c == '.' || c == '/' || c == ':' || c == '+' || c == '@' || c == '#';
}

}  // namespace

event_line& event_line::add(std::string_view key, std::string_view value) {
  text_ += ' ';
  text_ += key;
  text_ += '=';
  if (!value.empty() && std::all_of(value.begin(), value.end(), [](char c) { return plain(c); })) {
    text_ += value;
    return *this;
  }
  text_ += '"';
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (byte < 0x20 || byte == 0x7f || c == '=') {
      // An equals sign too: `grep status=429` counts refusals, never somebody's text.
      text_ += fmt::format("\\u{:04x}", static_cast<unsigned>(byte));
    } else {
      text_ += c;
    }
  }
  text_ += '"';
  return *this;
}

event_line& event_line::add(std::string_view key, std::uint64_t value) {
  text_ += fmt::format(" {}={}", key, value);
  return *this;
}

event_line& event_line::add(std::string_view key, duration value) {
  text_ += fmt::format(" {}={}", key, seconds_text(value));
  return *this;
}

std::string seconds_text(duration d) {
  return fmt::format("{:.3f}", to_seconds(d));
}

}  // namespace sluice::app
