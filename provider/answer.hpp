// What a complete HTTP answer means: from status, headers and body to one signal, the text, the
// usage and the hints. Pure: no sockets, no clock. Called by the transport, once per answer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "provider/endpoint.hpp"
#include "retry/time.hpp"

namespace sluice::provider {

/// One HTTP answer as it came, complete by framing.
struct http_answer {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  ///< names in lower case
  std::string body;
  wall_time received{};  ///< stands in for a missing Date header
};

/// Turns a complete answer into the signal, text, finish reason, usage, hints, request id and
/// detail of `into`; the rest of it (timings, raw body) is the caller's. `key` is removed from
/// everything that is kept. Never throws for what an answer can hold. A success has a text that is
/// not blank.
void interpret(const http_answer& a, std::string_view key, attempt_report& into);

/// Text with the key replaced by "[key]", control characters made spaces, cut at `most` bytes at a
/// UTF-8 boundary.
std::string one_line(std::string_view text, std::string_view key, std::size_t most = 200);

}  // namespace sluice::provider
