// The real pipeline over real sockets, with all waiting between calls on simulated time: a
// Retry-After of hours takes milliseconds, and is kept to the tick.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/batch.hpp"
#include "provider/http_endpoint.hpp"

namespace sluice::testing {

/// What a batch over sockets came to.
struct socket_run {
  std::vector<std::pair<pipeline::attempt_record, retry::decision>> attempts;
  std::vector<pipeline::outcome_record> outcomes;
  pipeline::batch_result result;
  duration elapsed{};  ///< of simulated time
};

/// How it is run. `http.now` is filled in, and `batch.limits` are the client's own.
struct socket_setup {
  provider::http_options http;
  pipeline::batch_options batch;
  std::vector<std::pair<std::string, std::string>> documents;  ///< ID and text
};

/// Runs it to the end. Throws what the batch throws, and std::logic_error for a deadlock.
socket_run run_over_sockets(const socket_setup& setup);

}  // namespace sluice::testing
