// One answer read by the real code, for tests of what answers mean.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "provider/answer.hpp"

namespace sluice::retry {
inline void PrintTo(reason r, std::ostream* out) {
  *out << name(r);
}
}  // namespace sluice::retry

namespace sluice::provider {

/// The key that must not be seen anywhere.
inline constexpr std::string_view secret = "sk-secret-0123456789";

/// When the answers of the tests are received: 2026-03-03T02:00:00Z, 1772503200 s since 1970.
inline constexpr wall_time two_o_clock =
    wall_time(std::chrono::sys_days(std::chrono::year(2026) / 3 / 3)) + std::chrono::hours(2);

using headers = std::vector<std::pair<std::string, std::string>>;

inline attempt_report read(int status, std::string body, headers with = {}) {
  http_answer a;
  a.status = status;
  a.headers = std::move(with);
  a.body = std::move(body);
  a.received = two_o_clock;
  attempt_report out;
  interpret(a, secret, out);
  return out;
}

/// Its reason alone.
inline retry::reason why(int status, std::string body, headers with = {}) {
  return read(status, std::move(body), std::move(with)).signal.why;
}

/// A completion whose message and finish reason are these JSON texts.
inline std::string answer_with(std::string_view message, std::string_view finish = "\"stop\"") {
  return R"({"id":"r1","choices":[{"index":0,"finish_reason":)" + std::string(finish) +
         R"(,"message":)" + std::string(message) +
         R"(}],"usage":{"prompt_tokens":12,"completion_tokens":14}})";
}

/// A completion whose content is this JSON text.
inline std::string saying(std::string_view content, std::string_view finish = "\"stop\"") {
  return answer_with(R"({"role":"assistant","content":)" + std::string(content) + "}", finish);
}

/// An error body with this code.
inline std::string error_with(std::string_view code, std::string_view message = "m") {
  return R"({"error":{"message":")" + std::string(message) + R"(","type":null,"code":")" +
         std::string(code) + "\"}}";
}

}  // namespace sluice::provider
