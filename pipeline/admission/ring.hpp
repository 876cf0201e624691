// The one pure function of admission: when may the next call be sent? It keeps the last grants and
// forecasts without changing anything; a grant is written down by its own call. Every backend (in
// process, budget file, gate) keeps one of these; none of them decides anything else.
//
//     s = max(now, ring[N back] + W + G, last + m, not_before)
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "pipeline/admission/limit.hpp"
#include "retry/time.hpp"

namespace sluice::pipeline {

/// How turns are spread. smooth: evenly, (W+G)/N apart. burst: as early as the window allows.
enum class pace { smooth, burst };

/// What one call costs.
struct call_cost {
  std::int64_t tokens = 0;  ///< estimate; every call costs one request besides
};

/// Everything a ring remembers, for whoever keeps it outside the process.
struct ring_state {
  struct entry {
    std::uint64_t number = 0;
    instant at{};
    std::int64_t cost = 0;
    bool operator==(const entry&) const = default;
  };
  /// One limit's memory.
  struct track {
    duration guard{};
    std::vector<entry> entries;  ///< as granted, the oldest first
    instant last_at{};
    std::int64_t last_cost = 0;  ///< 0: nothing was granted yet
    double rate = 0;             ///< calls per window after the last cut
    instant eased_at{};
    bool operator==(const track&) const = default;
  };
  std::vector<track> tracks;  ///< one per limit, in their order
  instant not_before = instant::min();
  instant smooth_until = instant::min();
  instant cut_at = instant::min();
  std::uint64_t granted = 0;
  bool operator==(const ring_state&) const = default;
};

/// Admission's memory.
class ring {
 public:
  /// No limits means no waiting but for a cool-down.
  ring(std::vector<limit> limits, pace shape, std::optional<duration> guard = std::nullopt);

  /// A ring that goes on where another left off. Throws std::invalid_argument when the state has
  /// not one track per limit.
  ring(std::vector<limit> limits, pace shape, const ring_state& from);
  ring_state save() const;

  /// When a call of that cost may be sent, if nothing else happens. Nothing: never, it costs more
  /// than a limit allows at all.
  std::optional<instant> forecast(instant now, call_cost cost) const;

  /// Writes a grant down. Returns its number, from 1.
  std::uint64_t grant(instant now, call_cost cost);

  /// Nothing is known of what was sent up to `now`: every limit counts as just used up. Those that
  /// pace are waited out as a cool-down.
  void use_up(instant now);

  /// The shape that forecasts follow from now on.
  void follow(pace shape) { shape_ = shape; }

  /// Corrects the tokens of a grant when the endpoint has counted them.
  void settle(std::uint64_t number, std::int64_t tokens);

  /// Nobody is sent before `until`; afterwards one window is smooth.
  void cool_down(instant until);

  /// A 429 to the call granted at `granted` that our own record does not explain: others use the
  /// key. Slows the pace: r <- max(N/10, 0.7 r), once per cut.
  void unexplained_refusal(instant granted, instant now);

  /// A slot must be used within this after its grant.
  duration use_within() const;

  instant not_before() const { return not_before_; }
  std::uint64_t granted() const { return granted_; }
  const std::vector<limit>& limits() const { return limits_; }

  /// The guard of a limit: its thirtieth, at least 50 ms.
  static duration default_guard(const limit& l);

 private:
  using entry = ring_state::entry;
  struct track {
    limit what;
    duration guard;
    std::deque<entry> entries;
    std::int64_t in_window = 0;
    instant last_at{};
    std::int64_t last_cost = 0;
    // Slow-down, in calls per window; only for request limits that pace.
    double rate = 0;
    double full_rate = 0;
    instant eased_at{};

    duration span() const { return what.window + guard; }
    void guard_by(duration g);
    bool paces() const;
    std::int64_t cost_of(call_cost cost) const;
    void expire(instant now);
    duration gap(bool smooth, instant now) const;
    double rate_at(instant now) const;
  };

  std::vector<limit> limits_;
  std::vector<track> tracks_;
  pace shape_;
  instant not_before_ = instant::min();
  instant smooth_until_ = instant::min();
  instant cut_at_ = instant::min();
  std::uint64_t granted_ = 0;
};

}  // namespace sluice::pipeline
