#include "pipeline/admission/limit.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace sluice::pipeline {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::pair<std::string_view, duration>, 6> units{{
    {"ms", 1ms},
    {"s", 1s},
    {"m", 1min},
    {"min", 1min},
    {"h", 1h},
    {"d", 24h},
}};

constexpr duration longest = 366 * 24h;

[[noreturn]] void refuse(std::string_view what, std::string_view text, std::string_view cause,
                         std::string_view remedy) {
  throw std::invalid_argument(std::string(what) + " '" + std::string(text) +
                              "': " + std::string(cause) + "; " + std::string(remedy));
}

}  // namespace

duration parse_duration_option(std::string_view text) {
  constexpr std::string_view remedy = "write a number and a unit, such as 90s, 250ms or 15m";
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) refuse("duration", text, "does not begin with a number", remedy);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  duration scale = 1s;
  if (!unit.empty()) {
    bool known = false;
    for (const auto& [name, value] : units) {
      if (name != unit) continue;
      scale = value;
      known = true;
    }
    if (!known) refuse("duration", text, "has an unknown unit", remedy);
  }
  // Checked as a double before it becomes ticks: no overflow on the way.
  const double ticks = number * static_cast<double>(scale.count());
  if (!std::isfinite(ticks) || ticks < 0 || ticks > static_cast<double>(longest.count()))
    refuse("duration", text, "is out of range", remedy);
  return duration(static_cast<duration::rep>(std::llround(ticks)));
}

limit parse_limit(std::string_view text) {
  constexpr std::string_view remedy = "write it like 10/60s, 200000tok/60s or 1000/1d";
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) refuse("limit", text, "has no '/'", remedy);
  limit result;
  std::string_view amount = text.substr(0, slash);
  if (amount.ends_with("tok")) {
    result.unit = limit_unit::tokens;
    amount.remove_suffix(3);
  }
  const auto [end, error] =
      std::from_chars(amount.data(), amount.data() + amount.size(), result.amount);
  if (error != std::errc{} || end != amount.data() + amount.size())
    refuse("limit", text, "does not begin with a whole number", remedy);
  if (result.amount < 1 || result.amount > 1'000'000'000)
    refuse("limit", text, "must allow between 1 and 1000000000", remedy);
  std::string window(text.substr(slash + 1));
  // "10/s" and "10/min" are what people say.
  if (!window.empty() && (window[0] < '0' || window[0] > '9') && window[0] != '.' &&
      window[0] != '-')
    window.insert(0, "1");
  try {
    result.window = parse_duration_option(window);
  } catch (const std::invalid_argument&) {
    refuse("limit", text, "has no usable window after the '/'", remedy);
  }
  if (result.window < 1ms) refuse("limit", text, "has a window under one millisecond", remedy);
  // It is kept and compared as text, and a longer window allows no call too many.
  result.window = std::chrono::ceil<std::chrono::milliseconds>(result.window);
  return result;
}

std::string to_string(const limit& l) {
  std::string text = std::to_string(l.amount);
  if (l.unit == limit_unit::tokens) text += "tok";
  text += '/';
  const auto count = l.window.count();
  for (auto it = units.rbegin(); it != units.rend(); ++it) {
    if (it->first == "min" || it->first == "m" || count % it->second.count() != 0) continue;
    return text + std::to_string(count / it->second.count()) + std::string(it->first);
  }
  return text + std::to_string(count / 1'000'000) + "ms";
}

}  // namespace sluice::pipeline
