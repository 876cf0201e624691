// Well-formedness of UTF-8, by the table in RFC 3629, section 4.
#include "pipeline/documents/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace sluice::pipeline {
namespace {

// What a lead byte asks for: how many bytes follow, and the bounds of the first of them.
struct lead {
  unsigned char from;
  unsigned char to;
  unsigned char follow;
  unsigned char low;
  unsigned char high;
};

constexpr lead leads[] = {
    {0xC2, 0xDF, 1, 0x80, 0xBF}, {0xE0, 0xE0, 2, 0xA0, 0xBF}, {0xE1, 0xEC, 2, 0x80, 0xBF},
    {0xED, 0xED, 2, 0x80, 0x9F}, {0xEE, 0xEF, 2, 0x80, 0xBF}, {0xF0, 0xF0, 3, 0x90, 0xBF},
    {0xF1, 0xF3, 3, 0x80, 0xBF}, {0xF4, 0xF4, 3, 0x80, 0x8F},
};

// The length of the well-formed sequence at the start of `s`, or 0.
std::size_t sequence(std::string_view s) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  if (at(0) < 0x80) return 1;
  for (const lead& l : leads) {
    if (at(0) < l.from || at(0) > l.to) continue;
    if (s.size() <= l.follow || at(1) < l.low || at(1) > l.high) return 0;
    for (std::size_t i = 2; i <= l.follow; ++i)
      if (at(i) < 0x80 || at(i) > 0xBF) return 0;
    return std::size_t{l.follow} + 1;
  }
  return 0;
}

// White space beyond ASCII, and what is not seen at all, in UTF-8.
constexpr std::string_view wide_spaces[] = {
    "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81", "\xE2\x80\x82",
    "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86", "\xE2\x80\x87", "\xE2\x80\x88",
    "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\x8B", "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF",
    "\xE2\x81\x9F", "\xE2\x81\xA0", "\xE3\x80\x80", "\xEF\xBB\xBF",
};

}  // namespace

std::optional<std::size_t> first_invalid_utf8(std::string_view bytes) {
  std::size_t i = 0;
  while (i < bytes.size()) {
    // Most text is ASCII for long stretches: eight bytes at a time.
    std::uint64_t word = 0;
    if (bytes.size() - i >= sizeof word) {
      std::memcpy(&word, bytes.data() + i, sizeof word);
      if ((word & 0x8080808080808080ULL) == 0) {
        i += sizeof word;
        continue;
      }
    }
    const std::size_t n = sequence(bytes.substr(i));
    if (n == 0) return i;
    i += n;
  }
  return std::nullopt;
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  while (true) {
    const auto bad = first_invalid_utf8(bytes);
    out.append(bytes.substr(0, bad.value_or(bytes.size())));
    if (!bad) return out;
    out.append("\xEF\xBF\xBD");
    bytes.remove_prefix(*bad + 1);
  }
}

std::string printable(std::string_view bytes, std::size_t most) {
  std::string out = to_valid_utf8(bytes.substr(0, most + 4));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  if (out.size() <= most) return out;
  while (most > 0 && (static_cast<unsigned char>(out[most]) & 0xC0U) == 0x80U) --most;
  out.resize(most);
  return out + "...";
}

bool blank(std::string_view text) {
  while (!text.empty()) {
    const char c = text.front();
    if (c == ' ' || (c >= '\t' && c <= '\r')) {
      text.remove_prefix(1);
      continue;
    }
    bool space = false;
    for (const std::string_view wide : wide_spaces) {
      if (!text.starts_with(wide)) continue;
      text.remove_prefix(wide.size());
      space = true;
      break;
    }
    if (!space) return false;
  }
  return true;
}

}  // namespace sluice::pipeline
