// `sluice gate`: one budget for jobs that share no disk, over HTTP.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::app {

struct gate_command {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8788;
  std::vector<std::string> limits;  ///< empty: the state's, or the default
  std::optional<std::uint32_t> max_in_flight;
  std::string state = "sluice-gate.state";
  std::string token_file;
  std::string tls_cert;
  std::string tls_key;
  std::vector<std::string> allow_hosts;
  std::string upstream;  ///< base URL of the endpoint that calls are passed on to; empty: none are
  std::string admission_timeout = "90s";
  std::string proxy;    ///< on the way to it, as --proxy
  std::string ca_file;  ///< PEM certificates to trust there besides the system's
};

/// Serves until SIGTERM or SIGINT: prints `listening on URL` first, returns 0. Throws
/// settings_error and pipeline::store_error.
int serve_gate(const gate_command& what);

}  // namespace sluice::app
