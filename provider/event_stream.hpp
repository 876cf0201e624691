// An answer that came as server-sent events although none were asked for.
#pragma once

#include <string_view>

#include "provider/completion.hpp"

namespace sluice::provider {

/// The chunks of a stream put together as if they had been one answer.
struct streamed {
  completion whole;
  bool complete = false;  ///< ended by [DONE], by a finish reason or by an error
  bool foreign = false;   ///< JSON events, but none of a chat completion
};

/// True when the body begins like a stream of server-sent events (WHATWG HTML, 9.2).
bool looks_like_stream(std::string_view body);

/// Reads all events; comments and unknown fields are skipped, [DONE] ends it.
streamed read_stream(std::string_view body);

}  // namespace sluice::provider
