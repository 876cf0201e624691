#include "provider/hints.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "provider/dates.hpp"
#include "provider/text.hpp"
#include "retry/signal.hpp"

namespace sluice::provider {
namespace {

constexpr double nanoseconds_per_second = 1e9;

struct unit {
  std::string_view name;
  double nanoseconds;
};
constexpr unit units[] = {
    {"s", 1e9},           {"sec", 1e9},          {"secs", 1e9},
    {"second", 1e9},      {"seconds", 1e9},      {"m", 60e9},
    {"min", 60e9},        {"mins", 60e9},        {"minute", 60e9},
    {"minutes", 60e9},    {"h", 3600e9},         {"hr", 3600e9},
    {"hrs", 3600e9},      {"hour", 3600e9},      {"hours", 3600e9},
    {"d", 86400e9},       {"day", 86400e9},      {"days", 86400e9},
    {"ms", 1e6},          {"msec", 1e6},         {"millis", 1e6},
    {"millisecond", 1e6}, {"milliseconds", 1e6}, {"us", 1e3},
    {"\xC2\xB5s", 1e3},   {"\xCE\xBCs", 1e3},    {"ns", 1},
};

// Retry-After and what says the same (rank 1).
struct wait_header {
  std::string_view name;
  bare_number unit;
};
constexpr wait_header wait_headers[] = {
    {"retry-after", bare_number::seconds},
    {"retry-after-ms", bare_number::milliseconds},
    {"x-ms-retry-after-ms", bare_number::milliseconds},
    {"x-retry-after-ms", bare_number::milliseconds},
    {"x-retry-after", bare_number::seconds},
};

// What messages write before the wait, in lower case.
constexpr std::string_view phrases[] = {
    "try again in", "try again after", "retry in",    "retry after",  "retry-after:",
    "retry_after:", "resets in",       "reset in",    "resets after", "reset after",
    "wait",         "available in",    "retrying in",
};

bool digit(char c) {
  return c >= '0' && c <= '9';
}
bool letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0;
}

std::string_view trim_left(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  return text;
}

std::string_view trim(std::string_view text) {
  text = trim_left(text);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Range-checked before it becomes an integer: the conversion of anything larger is undefined.
duration clamp_nanoseconds(double nanoseconds) {
  constexpr auto most = static_cast<double>(retry::longest_hint.count());
  if (std::isnan(nanoseconds) || nanoseconds >= most) return retry::longest_hint;
  if (nanoseconds <= 0) return duration::zero();
  return duration(std::llround(nanoseconds));
}

// Calendar times differ by less than 2^63 ms here: dates.cpp knows no year beyond 9999.
duration until(wall_time then, wall_time now) {
  const double milliseconds = static_cast<double>(then.time_since_epoch().count()) -
                              static_cast<double>(now.time_since_epoch().count());
  return clamp_nanoseconds(milliseconds * 1e6);
}

// A number without sign at the front of `text`, which is cut off. Too large is infinite.
std::optional<double> take_number(std::string_view& text) {
  const bool begins =
      !text.empty() && (digit(text[0]) || (text[0] == '.' && text.size() > 1 && digit(text[1])));
  if (!begins) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<std::size_t>(end - text.data());
  if (error == std::errc::result_out_of_range) {
    const bool tiny = text.substr(0, length).find("e-") != std::string_view::npos ||
                      text.substr(0, length).find("E-") != std::string_view::npos;
    value = tiny ? 0 : std::numeric_limits<double>::infinity();
  } else if (error != std::errc{}) {
    return std::nullopt;
  }
  text.remove_prefix(length);
  return value;
}

const unit* take_unit(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && letter(text[length])) ++length;
  const std::string_view word = text.substr(0, length);
  const auto* found =
      std::ranges::find_if(units, [&](const unit& u) { return equal_ignoring_case(u.name, word); });
  if (found == std::end(units)) return nullptr;
  text.remove_prefix(length);
  return found;
}

// "1m26.4s", "45 seconds", "1 hour 5 minutes" at the front of `text`, which is cut off.
std::optional<double> take_units(std::string_view& text) {
  std::optional<double> sum;
  for (;;) {
    std::string_view rest = trim_left(text);
    if (sum && rest.starts_with("and ")) rest = trim_left(rest.substr(4));
    const auto value = take_number(rest);
    if (!value) return sum;
    rest = trim_left(rest);
    const unit* of = take_unit(rest);
    if (of == nullptr) return sum;
    sum = sum.value_or(0) + *value * of->nanoseconds;
    text = rest;
  }
}

// "PT1M30.5S" (ISO 8601), without months and years, whose lengths differ.
std::optional<double> read_iso_duration(std::string_view text) {
  if (text.empty() || (text[0] != 'P' && text[0] != 'p')) return std::nullopt;
  text.remove_prefix(1);
  std::string_view time;
  if (const auto t = text.find_first_of("Tt"); t != std::string_view::npos) {
    time = text.substr(t + 1);
    text = text.substr(0, t);
  }
  const bool days_only =
      text.empty() || text.back() == 'D' || text.back() == 'd' || text.back() == 'W';
  if (!days_only || (text.empty() && time.empty())) return std::nullopt;
  double sum = 0;
  for (std::string_view part : {text, time}) {
    if (part.empty()) continue;
    const auto length = take_units(part);
    if (!length || !part.empty()) return std::nullopt;
    sum += *length;
  }
  return sum;
}

duration from_bare(double value, wall_time now, bare_number unit) {
  if (unit == bare_number::milliseconds) return clamp_nanoseconds(value * 1e6);
  if (unit == bare_number::seconds_or_epoch && value >= 1e9) {
    // Ten digits are seconds since 1970, thirteen are milliseconds.
    const double milliseconds = value >= 1e11 ? value : value * 1e3;
    return clamp_nanoseconds((milliseconds - static_cast<double>(now.time_since_epoch().count())) *
                             1e6);
  }
  return clamp_nanoseconds(value * nanoseconds_per_second);
}

// The longest wait of a rank.
struct collection {
  std::optional<duration> wait;

  void add(std::optional<duration> another) {
    if (another && (!wait || *another > *wait)) wait = another;
  }
};

// One bucket as the rate-limit headers tell of it.
struct bucket {
  std::string_view name;
  std::optional<bool> exhausted;
  std::optional<duration> reset;
};

struct bucket_header {
  std::string_view bucket;
  bool reset = false;
};

// Both spellings, with the kind before or after the bucket: x-ratelimit-reset-tokens,
// x-rate-limit-reset-tokens, ratelimit-reset, anthropic-ratelimit-tokens-reset.
std::optional<bucket_header> read_bucket_header(std::string_view name) {
  for (const std::string_view stem : {"ratelimit-", "rate-limit-"}) {
    const auto at = name.find(stem);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = name.substr(at + stem.size());
    for (const auto& [kind, reset] : {std::pair<std::string_view, bool>{"reset", true},
                                      std::pair<std::string_view, bool>{"remaining", false}}) {
      if (rest == kind) return bucket_header{{}, reset};
      if (rest.starts_with(kind) && rest[kind.size()] == '-')
        return bucket_header{rest.substr(kind.size() + 1), reset};
      if (rest.ends_with(kind) && rest[rest.size() - kind.size() - 1] == '-')
        return bucket_header{rest.substr(0, rest.size() - kind.size() - 1), reset};
    }
  }
  return std::nullopt;
}

bucket& bucket_named(std::vector<bucket>& buckets, std::string_view name) {
  for (bucket& b : buckets)
    if (b.name == name) return b;
  buckets.emplace_back();
  buckets.back().name = name;
  return buckets.back();
}

// The field of the IETF's drafts: "limit=10, remaining=0, reset=7" before the eighth, and since
// then "name";r=0;t=7 for each bucket.
void read_ratelimit(std::string_view value, std::vector<bucket>& into) {
  into.emplace_back();
  while (!value.empty()) {
    const auto end = value.find_first_of(";,");
    std::string_view part = trim(value.substr(0, end));
    value = end == std::string_view::npos ? std::string_view() : value.substr(end + 1);
    if (part.starts_with('"') || part.find('=') == std::string_view::npos) {
      into.emplace_back();
      continue;
    }
    const std::string_view name = part.substr(0, part.find('='));
    part.remove_prefix(name.size() + 1);
    const auto number = take_number(part);
    if (!number) continue;
    if (name == "r" || name == "remaining") into.back().exhausted = *number <= 0;
    if (name == "t" || name == "reset")
      into.back().reset = clamp_nanoseconds(*number * nanoseconds_per_second);
  }
}

// What a set of headers says.
struct header_waits {
  std::optional<duration> wait;         ///< of ranks one and two
  std::optional<duration> last_resort;  ///< of buckets that are said not to be exhausted
};

// The reset of the exhausted bucket or, when none is said to be, of those that may be. A reset of
// the others often speaks of a full refill, so it only counts when nothing else does.
void choose_reset(const std::vector<bucket>& buckets, header_waits& into) {
  collection exhausted;
  collection unknown;
  collection denied;
  for (const bucket& b : buckets)
    (!b.exhausted ? unknown : *b.exhausted ? exhausted : denied).add(b.reset);
  into.wait = exhausted.wait ? exhausted.wait : unknown.wait;
  into.last_resort = denied.wait;
}

void note(std::string& raw, std::string_view name, std::string_view value) {
  constexpr std::size_t most = 400;
  if (raw.size() > most) return;
  if (!raw.empty()) raw += ' ';
  raw.append(name.substr(0, most)).append("=").append(value.substr(0, most));
}

header_waits wait_in_headers(const field_list& headers, wall_time now, bool resets,
                             std::string& raw) {
  collection after;
  std::vector<bucket> buckets;
  std::vector<bucket> plain;  // without names
  for (const auto& [name, value] : headers) {
    const auto* direct = std::ranges::find_if(
        wait_headers, [&field = name](const wait_header& w) { return w.name == field; });
    if (direct != std::end(wait_headers)) {
      note(raw, name, value);
      after.add(parse_wait(value, now, direct->unit));
      // A field that came twice, joined by a proxy (RFC 9110, section 5.3).
      if (!after.wait)
        for (std::size_t from = 0; from < value.size();) {
          const std::size_t end = std::min(value.find(", ", from), value.size());
          if (end - from < value.size())
            after.add(
                parse_wait(std::string_view(value).substr(from, end - from), now, direct->unit));
          from = end + 2;
        }
      continue;
    }
    if (!resets) continue;
    if (name == "ratelimit") {
      note(raw, name, value);
      read_ratelimit(value, plain);
      continue;
    }
    const auto header = read_bucket_header(name);
    if (!header) continue;
    bucket& b = bucket_named(buckets, header->bucket);
    if (header->reset) {
      note(raw, name, value);
      b.reset = parse_wait(value, now, bare_number::seconds_or_epoch);
    } else {
      std::string_view left = trim(value);
      const bool negative = left.starts_with('-');
      if (negative) left.remove_prefix(1);
      if (const auto count = take_number(left)) b.exhausted = negative || *count <= 0;
    }
  }
  buckets.insert(buckets.end(), plain.begin(), plain.end());
  header_waits out;
  choose_reset(buckets, out);
  if (after.wait) out.wait = after.wait;
  return out;
}

}  // namespace

std::optional<std::string_view> header_value(const field_list& headers, std::string_view name) {
  for (const auto& [field, value] : headers)
    if (field == name) return value;
  return std::nullopt;
}

std::optional<duration> parse_wait(std::string_view text, wall_time now, bare_number unit) {
  text = trim(text);
  const bool negative = text.starts_with('-');
  std::string_view rest = text;
  if (negative || text.starts_with('+')) rest.remove_prefix(1);
  for (const std::string_view endless : {"inf", "infinity", "nan"})
    if (equal_ignoring_case(rest, endless))
      return negative ? duration::zero() : retry::longest_hint;

  std::string_view number = rest;
  if (const auto value = take_number(number)) {
    if (number.empty()) return negative ? duration::zero() : from_bare(*value, now, unit);
    std::string_view sequence = rest;
    const auto sum = take_units(sequence);
    if (sum && trim(sequence).empty()) return negative ? duration::zero() : clamp_nanoseconds(*sum);
  }
  if (const auto length = read_iso_duration(text)) return clamp_nanoseconds(*length);
  if (const auto date = parse_http_date(text, now)) return until(*date, now);
  if (const auto time = parse_iso_time(text)) return until(*time, now);
  return std::nullopt;
}

std::optional<duration> wait_in_words(std::string_view message) {
  const std::string lower = lower_case(message);
  collection found;
  for (const std::string_view phrase : phrases) {
    for (auto at = lower.find(phrase); at != std::string::npos; at = lower.find(phrase, at + 1)) {
      std::string_view rest = std::string_view(lower).substr(at + phrase.size());
      while (!rest.empty() && (rest[0] == ' ' || rest[0] == ':' || rest[0] == '~'))
        rest.remove_prefix(1);
      std::string_view bare = rest;
      if (const auto sum = take_units(rest)) {
        found.add(clamp_nanoseconds(*sum));
      } else if (const auto value = take_number(bare)) {
        // A bare number counts seconds, unless it goes on to count something else.
        const bool ends = bare.empty() || std::string_view(".,;)!").find(bare[0]) != bare.npos;
        if (ends) found.add(clamp_nanoseconds(*value * nanoseconds_per_second));
      }
    }
  }
  return found.wait;
}

hint find_hint(const hint_sources& from) {
  hint out;
  wall_time now = from.received;
  if (const auto date = header_value(from.headers, "date"))
    if (const auto at = parse_http_date(trim(*date), now)) now = *at;

  const header_waits outer = wait_in_headers(from.headers, now, from.resets, out.raw);
  out.wait = outer.wait;

  collection details;
  const header_waits inner = wait_in_headers(from.inner_headers, now, from.resets, out.raw);
  details.add(inner.wait);
  for (const auto& [name, value] : from.details) {
    note(out.raw, name, value);
    const bool thousandths = name.ends_with("_ms") || name.ends_with("Ms");
    details.add(parse_wait(
        value, now, thousandths ? bare_number::milliseconds : bare_number::seconds_or_epoch));
  }
  if (!out.wait) out.wait = details.wait;

  if (const auto words = wait_in_words(from.words)) {
    note(out.raw, "text", std::to_string(to_seconds(*words)) + "s");
    if (!out.wait) out.wait = words;
  }
  if (!out.wait) out.wait = std::max(outer.last_resort, inner.last_resort);
  return out;
}

}  // namespace sluice::provider
