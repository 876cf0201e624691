#include "provider/text.hpp"

#include <algorithm>
#include <array>

#include "provider/answer.hpp"

namespace sluice::provider {
namespace {

constexpr std::string_view key_mark = "[key]";
constexpr std::size_t least_secret = 4;
constexpr std::string_view placeholders[] = {
    "none",   "null",      "empty",  "test",       "dummy",
    "ollama", "lm-studio", "no-key", "not-needed", "sk-no-key-required",
};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

unsigned byte_at(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
}

// Length of the well-formed UTF-8 sequence at `i`, or 0 (Unicode 15, table 3-7).
std::size_t sequence_length(std::string_view text, std::size_t i) {
  const unsigned a = byte_at(text, i);
  const unsigned b = byte_at(text, i + 1);
  const auto follows = [&](std::size_t n) { return (byte_at(text, i + n) & 0xC0U) == 0x80U; };
  if (a < 0x80) return 1;
  if (a >= 0xC2 && a <= 0xDF) return follows(1) ? 2 : 0;
  if (a >= 0xE0 && a <= 0xEF) {
    const bool fits = (a != 0xE0 || b >= 0xA0) && (a != 0xED || b <= 0x9F);
    return fits && follows(1) && follows(2) ? 3 : 0;
  }
  if (a >= 0xF0 && a <= 0xF4) {
    const bool fits = (a != 0xF0 || b >= 0x90) && (a != 0xF4 || b <= 0x8F);
    return fits && follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

// Control characters of ASCII and of Latin-1, and the two Unicode line ends.
bool is_control(std::string_view sequence) {
  const unsigned a = byte_at(sequence, 0);
  const unsigned b = byte_at(sequence, 1);
  if (sequence.size() == 1) return a < 0x20 || a == 0x7F;
  if (sequence.size() == 2) return a == 0xC2 && b < 0xA0;
  return sequence == "\xE2\x80\xA8" || sequence == "\xE2\x80\xA9";
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return lower(x) == lower(y); });
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), lower);
  return out;
}

bool blank(std::string_view text) {
  static constexpr std::string_view wide[] = {"\xC2\xA0",     "\xE3\x80\x80", "\xE2\x80\x8B",
                                              "\xE2\x80\xA8", "\xE2\x80\xA9", "\xEF\xBB\xBF"};
  while (!text.empty()) {
    if (is_control(text.substr(0, 1)) || text.front() == ' ') {
      text.remove_prefix(1);
      continue;
    }
    const auto* space =
        std::ranges::find_if(wide, [&](std::string_view w) { return text.starts_with(w); });
    if (space == std::end(wide)) return false;
    text.remove_prefix(space->size());
  }
  return true;
}

bool is_secret(std::string_view key) {
  return key.size() >= least_secret && std::ranges::none_of(placeholders, [&](std::string_view p) {
           return equal_ignoring_case(p, key);
         });
}

void remove_key(std::string& text, std::string_view key) {
  if (!is_secret(key)) return;
  auto at = text.find(key);
  if (at == std::string::npos) return;
  std::string out;
  std::size_t from = 0;
  for (; at != std::string::npos; at = text.find(key, from)) {
    out.append(text, from, at - from).append(key_mark);
    from = at + key.size();
  }
  out.append(text, from);
  text = std::move(out);
}

std::string one_line(std::string_view text, std::string_view key, std::size_t most) {
  const bool secret = is_secret(key);
  std::string out;
  for (std::size_t i = 0; i < text.size() && out.size() < most;) {
    std::string_view piece;
    std::size_t length = 0;
    if (secret && text.substr(i).starts_with(key)) {
      piece = key_mark;
      length = key.size();
    } else if (length = sequence_length(text, i); length == 0) {
      piece = "?";
      length = 1;
    } else {
      piece = text.substr(i, length);
      if (is_control(piece)) piece = " ";
    }
    if (out.size() + piece.size() > most) break;
    out += piece;
    i += length;
  }
  return out;
}

}  // namespace sluice::provider
