// What a gate and its clients say to each other: JSON over HTTP. Durations are on the wire, never
// instants: the two ends share no clock. Pure; used by both ends.
// clang-format off
//
//     POST /v1/slots
//         {"job": "nightly", "attempt": "7", "cost": 120, "max_wait_ms": 90000, "lease_ms": 150000,
//          "poll_ms": 15000, "ready": true, "priority": false, "pace": "smooth", "limit": ["10/60s"]}
//       Only job and attempt must be there. cost: tokens, estimated. waited_ms: already, for the
//       order among those who come back to a gate started again. lease_ms: the call is over by
//       then, whether or not anybody says so; longer than the caller's own timeout. poll_ms: how
//       long the answer may be put off; without it, until there is a turn. ready: false keeps the
//       place only, and is answered when it is time to connect.
//     200 {"slot": "12-9c..", "use_within_ms": 950, "waited_ms": 6123}
//     202 {"waiting": true, "turn_in_ms": 6200, "cool_down_ms": 0}     ask again, same attempt
//     409 {"error": "no_turn_in_time", "message": "..", "retry_in_ms": 186000}
//     409 {"error": "another_limit", "message": "..", "limit": ["10/60s"]}
//     422 {"error": "too_costly", "message": ".."}
//
//     POST /v1/slots/ID/done
//         {"status": 429, "retry_after_ms": 52000, "tokens": 180}      all optional
//     200 {"known": true}
//
//     GET /v1/budget
//     200 {"limit": ["10/60s"], "max_in_flight": 8}
//
// clang-format on
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "pipeline/admission/gate_line.hpp"

namespace sluice::pipeline {

/// A question for a turn as it stands on the wire.
struct slot_question {
  turn_request what;
  std::optional<duration> poll;              ///< how long the answer may be put off
  std::optional<std::vector<limit>> limits;  ///< only when asked for by name
};

/// Why a request cannot be used, in a few words.
struct bad_question {
  std::string why;
};

std::string to_json(const slot_question& q);
std::variant<slot_question, bad_question> parse_question(std::string_view body);

std::string to_json(const call_report& r);
std::variant<call_report, bad_question> parse_report(std::string_view body);

std::string to_json(const budget_settings& s);
/// Nothing when it says no such thing.
std::optional<budget_settings> parse_settings(std::string_view body);

/// The ID of a slot: its number, and who it is for, so that nobody ends another's.
std::string slot_id(std::uint64_t number, std::uint64_t client);
std::optional<std::pair<std::uint64_t, std::uint64_t>> parse_slot_id(std::string_view id);

/// A gate's answer to a question for a turn.
struct slot_answer {
  int status = 0;
  std::string slot;           ///< 200
  duration use_within{};      ///< 200
  duration waited{};          ///< 200: from the question's arrival to the answer
  duration turn_in{};         ///< 202
  duration cool_down{};       ///< 202
  duration retry_in{};        ///< 409 and 503
  std::string error;          ///< a fixed snake_case word
  std::string message;        ///< for people
  std::vector<limit> limits;  ///< with another_limit
};

std::string to_json(const slot_answer& a);
/// Nothing when it is not what a gate says with that status.
std::optional<slot_answer> parse_slot_answer(int status, std::string_view body);

}  // namespace sluice::pipeline
