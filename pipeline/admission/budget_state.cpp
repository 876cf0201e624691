#include "pipeline/admission/budget_state.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <type_traits>

namespace sluice::pipeline {
namespace {

constexpr std::string_view magic = "SLUICEBG";
constexpr std::uint32_t plain_version = 1;
constexpr std::uint32_t gate_version = 2;
constexpr std::size_t checksum_bytes = 8;
constexpr std::size_t longest_text = 64;

// CRC-64/XZ, a byte at a time.
constexpr auto crc_table = [] {
  std::array<std::uint64_t, 256> table{};
  for (std::uint64_t i = 0; i < table.size(); ++i) {
    std::uint64_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = (value >> 1U) ^ ((value & 1U) != 0 ? 0xC96C5795D7870F42ULL : 0);
    table[i] = value;
  }
  return table;
}();

std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t crc = ~std::uint64_t{0};
  for (const char c : bytes)
    crc = crc_table[(crc ^ static_cast<unsigned char>(c)) & 0xFFU] ^ (crc >> 8U);
  return ~crc;
}

class writer {
 public:
  template <class Number>
  void number(Number value) {
    auto bits = static_cast<std::make_unsigned_t<Number>>(value);
    for (std::size_t i = 0; i < sizeof(Number); ++i) {
      bytes_ += static_cast<char>(bits & 0xFFU);
      if constexpr (sizeof(Number) > 1) bits = static_cast<decltype(bits)>(bits >> 8U);
    }
  }
  void time(instant t) { number(std::int64_t{t.time_since_epoch().count()}); }
  void span(duration d) { number(std::int64_t{d.count()}); }
  void text(std::string_view t) {
    t = t.substr(0, longest_text);
    number(static_cast<std::uint16_t>(t.size()));
    bytes_ += t;
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

// Reads as long as there is something to read; afterwards everything is zero.
class scanner {
 public:
  explicit scanner(std::string_view bytes) : rest_(bytes) {}

  template <class Number>
  Number number() {
    if (rest_.size() < sizeof(Number)) return run_dry<Number>();
    std::make_unsigned_t<Number> bits = 0;
    for (std::size_t i = 0; i < sizeof(Number); ++i)
      bits = static_cast<decltype(bits)>(
          bits | (static_cast<decltype(bits)>(static_cast<unsigned char>(rest_[i])) << (8 * i)));
    rest_.remove_prefix(sizeof(Number));
    return static_cast<Number>(bits);
  }
  instant time() { return instant(duration(number<std::int64_t>())); }
  duration span() { return duration(number<std::int64_t>()); }
  std::string text() {
    const std::size_t length = number<std::uint16_t>();
    if (rest_.size() < length || length > longest_text) return run_dry<std::string>();
    std::string result(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return result;
  }
  /// Whether so many items of so many bytes can be there at all.
  bool holds(std::size_t count, std::size_t each) {
    if (rest_.size() / each >= count) return true;
    good_ = false;
    return false;
  }
  bool ended_well() const { return good_ && rest_.empty(); }
  bool good() const { return good_; }

 private:
  template <class T>
  T run_dry() {
    good_ = false;
    rest_ = {};
    return T{};
  }

  std::string_view rest_;
  bool good_ = true;
};

constexpr std::size_t entry_bytes = 24;
constexpr std::size_t call_bytes = 32;
// An instant further ahead than that was not read on this machine's clock since it started.
constexpr duration clock_slack = std::chrono::seconds(1);
constexpr duration longest_window = std::chrono::hours(24 * 366);

void write_limit(writer& to, const limit& l, const ring_state::track& t) {
  to.number(static_cast<std::uint8_t>(l.unit));
  to.number(l.amount);
  to.span(l.window);
  to.span(t.guard);
  to.time(t.last_at);
  to.number(t.last_cost);
  to.number(std::bit_cast<std::uint64_t>(t.rate));
  to.time(t.eased_at);
  to.number(static_cast<std::uint32_t>(t.entries.size()));
  for (const ring_state::entry& e : t.entries) {
    to.number(e.number);
    to.time(e.at);
    to.number(e.cost);
  }
}

bool read_limit(scanner& from, limit& l, ring_state::track& t) {
  const auto unit = from.number<std::uint8_t>();
  l.unit = unit == 0 ? limit_unit::requests : limit_unit::tokens;
  l.amount = from.number<std::int64_t>();
  l.window = from.span();
  t.guard = from.span();
  t.last_at = from.time();
  t.last_cost = from.number<std::int64_t>();
  t.rate = std::bit_cast<double>(from.number<std::uint64_t>());
  t.eased_at = from.time();
  const std::size_t count = from.number<std::uint32_t>();
  if (!from.holds(count, entry_bytes)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    ring_state::entry e;
    e.number = from.number<std::uint64_t>();
    e.at = from.time();
    e.cost = from.number<std::int64_t>();
    t.entries.push_back(e);
  }
  const bool paces_somehow = l.unit == limit_unit::tokens || t.rate > 0;
  return unit <= 1 && l.amount > 0 && l.window > duration::zero() && l.window <= longest_window &&
         t.guard >= duration::zero() && t.guard <= longest_window && t.last_cost >= 0 &&
         std::isfinite(t.rate) && paces_somehow;
}

}  // namespace

budget_state fresh_budget(budget_settings settings, std::string boot_id) {
  budget_state s;
  s.record = ring(settings.limits, pace::smooth).save();
  s.settings = std::move(settings);
  s.boot_id = std::move(boot_id);
  return s;
}

budget_state used_up_budget(budget_settings settings, std::string boot_id, instant now) {
  ring record(settings.limits, pace::smooth);
  record.use_up(now);
  budget_state s;
  s.record = record.save();
  s.settings = std::move(settings);
  s.boot_id = std::move(boot_id);
  return s;
}

bool of_this_boot(const budget_state& state, std::string_view boot_id, instant now) {
  const auto& tracks = state.record.tracks;
  return state.boot_id == boot_id && std::all_of(tracks.begin(), tracks.end(), [&](const auto& t) {
           return t.last_at <= now + clock_slack;
         });
}

bool same_limits(const std::vector<limit>& a, const std::vector<limit>& b) {
  return a.size() == b.size() && std::is_permutation(a.begin(), a.end(), b.begin());
}

std::string in_words(const std::vector<limit>& limits) {
  std::string text;
  for (const limit& l : limits) text += (text.empty() ? "" : " and ") + to_string(l);
  return text.empty() ? "none" : text;
}

std::string serialise(const budget_state& state) {
  writer to;
  to.bytes() += magic;
  to.number(state.under_way.empty() ? plain_version : gate_version);
  to.number(std::uint32_t{0});
  to.number(state.settings.max_in_flight);
  to.text(state.boot_id);
  const ring_state& r = state.record;
  to.time(r.not_before);
  to.time(r.smooth_until);
  to.time(r.cut_at);
  to.number(r.granted);
  to.number(static_cast<std::uint16_t>(r.tracks.size()));
  for (std::size_t i = 0; i < r.tracks.size(); ++i)
    write_limit(to, state.settings.limits[i], r.tracks[i]);
  to.number(static_cast<std::uint16_t>(state.line.size()));
  for (const planned_turn& p : state.line) {
    to.number(p.process);
    to.number(p.client);
    to.time(p.at);
    to.number(p.cost.tokens);
    to.number(static_cast<std::uint8_t>(p.shape));
    to.text(p.job);
  }
  if (!state.under_way.empty()) to.number(static_cast<std::uint32_t>(state.under_way.size()));
  for (const call_under_way& c : state.under_way) {
    to.number(c.number);
    to.number(c.client);
    to.time(c.at);
    to.span(c.longest);
  }
  std::string& bytes = to.bytes();
  writer length;
  length.number(static_cast<std::uint32_t>(bytes.size() + checksum_bytes));
  bytes.replace(magic.size() + sizeof plain_version, length.bytes().size(), length.bytes());
  to.number(checksum(bytes));
  return std::move(bytes);
}

bool begins_like_budget(std::string_view bytes) {
  return bytes.starts_with(magic);
}

std::variant<budget_state, unusable> parse_budget(std::string_view bytes) {
  if (bytes.empty()) return unusable{"is empty"};
  scanner header(bytes.substr(std::min(bytes.size(), magic.size())));
  const auto its_version = header.number<std::uint32_t>();
  const auto its_length = header.number<std::uint32_t>();
  if (!bytes.starts_with(magic) || !header.good()) return unusable{"is no budget file"};
  if (bytes.size() < checksum_bytes || its_length > bytes.size()) return unusable{"ends too early"};
  const std::string_view body = bytes.substr(0, bytes.size() - checksum_bytes);
  scanner tail(bytes.substr(body.size()));
  if (tail.number<std::uint64_t>() != checksum(body)) return unusable{"is damaged (checksum)"};
  if (its_version != plain_version && its_version != gate_version)
    return unusable{"is of another version (" + std::to_string(its_version) + ")"};
  if (its_length != bytes.size()) return unusable{"is damaged (length)"};

  // The checksum holds: what follows guards against a writer that was broken.
  scanner from(body.substr(magic.size() + 2 * sizeof(std::uint32_t)));
  const unusable broken{"makes no sense"};
  budget_state s;
  s.settings.max_in_flight = from.number<std::uint32_t>();
  s.boot_id = from.text();
  s.record.not_before = from.time();
  s.record.smooth_until = from.time();
  s.record.cut_at = from.time();
  s.record.granted = from.number<std::uint64_t>();
  const std::size_t limits = from.number<std::uint16_t>();
  for (std::size_t i = 0; i < limits && from.good(); ++i) {
    limit l;
    ring_state::track t;
    if (!read_limit(from, l, t)) return broken;
    s.settings.limits.push_back(l);
    s.record.tracks.push_back(std::move(t));
  }
  const std::size_t planned = from.number<std::uint16_t>();
  for (std::size_t i = 0; i < planned && from.good(); ++i) {
    planned_turn p;
    p.process = from.number<std::uint32_t>();
    p.client = from.number<std::uint64_t>();
    p.at = from.time();
    p.cost.tokens = from.number<std::int64_t>();
    p.shape = from.number<std::uint8_t>() == 0 ? pace::smooth : pace::burst;
    p.job = from.text();
    s.line.push_back(std::move(p));
  }
  const std::size_t calls = its_version == gate_version ? from.number<std::uint32_t>() : 0;
  if (!from.holds(calls, call_bytes)) return broken;
  for (std::size_t i = 0; i < calls; ++i) {
    call_under_way c;
    c.number = from.number<std::uint64_t>();
    c.client = from.number<std::uint64_t>();
    c.at = from.time();
    c.longest = from.span();
    if (c.longest < duration::zero() || c.longest > longest_window) return broken;
    s.under_way.push_back(c);
  }
  if (!from.ended_well()) return broken;
  return s;
}

}  // namespace sluice::pipeline
