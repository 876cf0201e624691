// The calendar times an answer can hold: the three HTTP-dates (RFC 9110, 5.6.7) and ISO 8601 (RFC
// 3339).
#include "provider/dates.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace sluice::provider {
namespace {

using namespace std::chrono;

// What is beyond four digits of year is as good as never.
constexpr int last_year = 9999;

// Reads a text from left to right; once something is missing, it stays failed.
class reader {
 public:
  explicit reader(std::string_view text) : rest_(text) {}

  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }
  bool sees(char c) const { return !rest_.empty() && rest_.front() == c; }

  bool take(char c) {
    if (!sees(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(std::string_view text) {
    ok_ = ok_ && rest_.starts_with(text);
    if (ok_) rest_.remove_prefix(text.size());
  }

  // Digits, at least and at most so many.
  int number(std::size_t least, std::size_t most) {
    const auto end = std::ranges::find_if(rest_, [](char c) { return c < '0' || c > '9'; });
    const auto count = static_cast<std::size_t>(end - rest_.begin());
    int value = 0;
    ok_ = ok_ && count >= least && count <= most;
    if (ok_) std::from_chars(rest_.data(), rest_.data() + count, value);
    if (ok_) rest_.remove_prefix(count);
    return value;
  }

  std::string_view word() {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    const auto end = std::ranges::find_if_not(rest_, letter);
    const auto count = static_cast<std::size_t>(end - rest_.begin());
    const std::string_view found = rest_.substr(0, count);
    ok_ = ok_ && count > 0;
    rest_.remove_prefix(count);
    return found;
  }

  unsigned month_name() {
    static constexpr std::array<std::string_view, 12> names = {
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const auto found = std::ranges::find(names, word());
    ok_ = ok_ && found != names.end();
    return static_cast<unsigned>(found - names.begin()) + 1;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

struct clock_time {
  int hour = 0;
  int minute = 0;
  int second = 0;
};

clock_time read_clock(reader& in) {
  clock_time at;
  at.hour = in.number(2, 2);
  in.expect(":");
  at.minute = in.number(2, 2);
  in.expect(":");
  at.second = in.number(2, 2);
  return at;
}

std::optional<wall_time> join(int year_number, unsigned month_number, int day_number,
                              const clock_time& at) {
  if (at.hour > 23 || at.minute > 59 || at.second > 60) return std::nullopt;
  const year_month_day date(year(std::min(year_number, last_year)), month(month_number),
                            day(static_cast<unsigned>(day_number)));
  if (!date.ok()) return std::nullopt;
  return wall_time(sys_days(date)) + hours(at.hour) + minutes(at.minute) + seconds(at.second);
}

// Two digits that would lie more than 50 years ahead mean the past (RFC 9110, 5.6.7).
int full_year(int two_digits, wall_time near) {
  const int now = static_cast<int>(year_month_day(floor<days>(near)).year());
  const int candidate = now - now % 100 + two_digits;
  return candidate > now + 50 ? candidate - 100 : candidate;
}

}  // namespace

std::optional<wall_time> parse_http_date(std::string_view text, wall_time near) {
  reader in(text);
  in.word();
  int year_number = 0;
  unsigned month_number = 0;
  int day_number = 0;
  clock_time at;
  if (in.take(',')) {
    in.expect(" ");
    day_number = in.number(1, 2);
    if (in.take('-')) {  // Sunday, 06-Nov-94 08:49:37 GMT
      month_number = in.month_name();
      in.expect("-");
      year_number = full_year(in.number(2, 2), near);
    } else {  // Sun, 06 Nov 1994 08:49:37 GMT
      in.expect(" ");
      month_number = in.month_name();
      in.expect(" ");
      year_number = in.number(4, 9);
    }
    in.expect(" ");
    at = read_clock(in);
    in.expect(" ");
    const std::string_view zone = in.word();
    if (zone != "GMT" && zone != "UTC") return std::nullopt;
  } else {  // Sun Nov  6 08:49:37 1994
    in.expect(" ");
    month_number = in.month_name();
    in.expect(" ");
    in.take(' ');
    day_number = in.number(1, 2);
    in.expect(" ");
    at = read_clock(in);
    in.expect(" ");
    year_number = in.number(4, 9);
  }
  if (!in.done()) return std::nullopt;
  return join(year_number, month_number, day_number, at);
}

std::optional<wall_time> parse_iso_time(std::string_view text) {
  reader in(text);
  const int year_number = in.number(4, 4);
  in.expect("-");
  const int month_number = in.number(2, 2);
  in.expect("-");
  const int day_number = in.number(2, 2);
  if (!in.take('T') && !in.take('t') && !in.take(' ')) return std::nullopt;
  const clock_time at = read_clock(in);
  if (in.take('.')) in.number(1, 9);  // a fraction of a second is less than the jitter on top
  minutes offset{};
  if (!in.take('Z') && !in.take('z')) {
    const bool east = in.sees('+');
    if (!in.take('+') && !in.take('-')) return std::nullopt;
    offset = hours(in.number(2, 2));
    in.expect(":");
    offset += minutes(in.number(2, 2));
    if (!east) offset = -offset;
  }
  if (!in.done()) return std::nullopt;
  const auto local = join(year_number, static_cast<unsigned>(month_number), day_number, at);
  if (!local) return std::nullopt;
  return *local - offset;
}

}  // namespace sluice::provider
