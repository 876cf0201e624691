#include "pipeline/answers/difference.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace sluice::pipeline {
namespace {

using nlohmann::json;

constexpr std::size_t shown_before = 16;
constexpr std::size_t shown_after = 32;

bool space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

bool inside_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

std::string collapsed(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (!space(c))
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

// What stands around a place, quoted and escaped, with dots where it is cut.
std::string around(std::string_view text, std::size_t at) {
  std::size_t from = at > shown_before ? at - shown_before : 0;
  std::size_t to = std::min(text.size(), at + shown_after);
  while (from > 0 && inside_character(text[from])) --from;
  while (to < text.size() && inside_character(text[to])) --to;
  const std::string quoted =
      json(text.substr(from, to - from)).dump(-1, ' ', false, json::error_handler_t::replace);
  return (from > 0 ? "…" : "") + quoted + (to < text.size() ? "…" : "");
}

std::string first_difference(std::string_view expected, std::string_view got) {
  const auto [a, b] = std::mismatch(expected.begin(), expected.end(), got.begin(), got.end());
  auto at = static_cast<std::size_t>(a - expected.begin());
  while (at > 0 && at < expected.size() && inside_character(expected[at])) --at;
  return "at byte " + std::to_string(at + 1) + ": expected " + around(expected, at) + ", got " +
         around(got, at);
}

}  // namespace

std::optional<std::string> difference(std::string_view expected, std::string_view got,
                                      comparison how) {
  switch (how) {
    case comparison::exact:
      if (expected == got) return std::nullopt;
      return first_difference(expected, got);
    case comparison::whitespace: {
      const std::string one = collapsed(expected);
      const std::string other = collapsed(got);
      if (one == other) return std::nullopt;
      return first_difference(one, other);
    }
    case comparison::json: {
      const json one = json::parse(expected, nullptr, false);
      const json other = json::parse(got, nullptr, false);
      if (one.is_discarded()) return "the expected answer is no JSON: compare it in another way";
      if (other.is_discarded()) return "the answer is no JSON: " + around(got, 0);
      if (one == other) return std::nullopt;
      const json patch = json::diff(one, other);
      std::string text = "as JSON";
      if (!patch.empty()) {
        const json& first = patch.front();
        const std::string path = first.value("path", std::string());
        text += " at \"" + path + "\": " + first.value("op", std::string());
        if (first.contains("value")) text += " " + around(first["value"].dump(), 0);
      }
      if (patch.size() > 1) text += " (and " + std::to_string(patch.size() - 1) + " more)";
      return text;
    }
  }
  return std::nullopt;
}

}  // namespace sluice::pipeline
