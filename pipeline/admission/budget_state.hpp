// What stands in the file of a shared budget, and its form on disk. Pure.
//
// All numbers are little-endian; instants and durations are nanoseconds in 64 bits, instants on the
// boot clock of the boot that the file names.
//
//     offset  bytes  what
//          0      8  "SLUICEBG"
//          8      4  version of the format: 2 with calls under way, else 1
//         12      4  length of the file
//         16      4  calls in flight over all jobs, 0: no limit
//         20      .  boot ID: 2 bytes of length, then the text
//          .      .  ring: not before, smooth until, cut at, grants (8 bytes each)
//          .      .  limits: 2 bytes of count, then for each
//                      unit (1), amount (8), window (8), guard (8), last grant (8), its cost (8),
//                      rate (8, a double's bits), eased at (8), 4 bytes of count, then for each
//                      grant its number (8), instant (8) and cost (8)
//          .      .  planned turns: 2 bytes of count, then for each
//                      process (4), client (8), instant (8), tokens (8), pace (1), job (2 + text)
//          .      .  version 2: calls under way: 4 bytes of count, then for each
//                      grant (8), client (8), instant (8), longest time (8)
//     length-8    8  CRC-64/XZ of everything before it
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pipeline/admission/ring.hpp"

namespace sluice::pipeline {

/// What belongs to the budget rather than to those who share it.
struct budget_settings {
  std::vector<limit> limits;
  std::uint32_t max_in_flight = 0;  ///< over all jobs; 0: no limit

  bool operator==(const budget_settings&) const = default;
};

/// A turn that a job has been promised. At most one per process, so that shares are even between
/// jobs whatever their numbers of workers.
struct planned_turn {
  std::uint32_t process = 0;  ///< its process ID, for people
  std::uint64_t client = 0;   ///< tells it from all others that share the budget
  instant at{};
  call_cost cost;
  pace shape = pace::smooth;
  std::string job;  ///< its name, for people; at most 64 bytes are kept

  bool operator==(const planned_turn& other) const {
    return process == other.process && client == other.client && at == other.at &&
           cost.tokens == other.cost.tokens && shape == other.shape && job == other.job;
  }
};

/// A call that a gate has admitted and that has not been reported ended. (Of a file, the kernel
/// knows which calls are under way.)
struct call_under_way {
  std::uint64_t number = 0;  ///< of its grant
  std::uint64_t client = 0;  ///< who asked, and for which attempt
  instant at{};              ///< when it was granted
  duration longest{};        ///< it is over by then, whether or not anybody says so

  bool operator==(const call_under_way&) const = default;
};

struct budget_state {
  budget_settings settings;
  std::string boot_id;
  ring_state record;
  std::vector<planned_turn> line;         ///< in the order of their turns
  std::vector<call_under_way> under_way;  ///< a gate's, in the order of their grants

  bool operator==(const budget_state&) const = default;
};

/// A budget of which nothing was spent.
budget_state fresh_budget(budget_settings settings, std::string boot_id);

/// A budget of which nobody knows what was spent before `now`: all of it, to be safe.
budget_state used_up_budget(budget_settings settings, std::string boot_id, instant now);

/// Whether its instants can be compared with `now`: the machine was not started anew since.
bool of_this_boot(const budget_state& state, std::string_view boot_id, instant now);

/// Whether both allow the same, in whichever order.
bool same_limits(const std::vector<limit>& a, const std::vector<limit>& b);

/// For people: "10/60s and 1000/1d", or "none".
std::string in_words(const std::vector<limit>& limits);

/// The file's bytes.
std::string serialise(const budget_state& state);

/// Whether bytes begin as those of a budget do, whole or not.
bool begins_like_budget(std::string_view bytes);

/// Why bytes are no budget, in a few words.
struct unusable {
  std::string why;
};

/// The state that the bytes say, or why they cannot be used. Finds every flipped bit and every
/// missing end; never trusts a count.
std::variant<budget_state, unusable> parse_budget(std::string_view bytes);

}  // namespace sluice::pipeline
