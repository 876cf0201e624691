// The gate's HTTP listener: connections with bounds on everything, requests one after the other,
// answers from the routes.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "app/gate/caller_checks.hpp"
#include "app/gate/routes.hpp"
#include "app/gate/upstream.hpp"

namespace sluice::app {

struct listener_options {
  std::string host = "127.0.0.1";  ///< an address
  std::uint16_t port = 8788;       ///< 0: any free one
  std::string tls_cert;            ///< PEM chain; empty: plain HTTP
  std::string tls_key;
  caller_rules rules;
  std::size_t most_connections = 2048;
  std::chrono::nanoseconds header_time = std::chrono::seconds(5);
  std::chrono::nanoseconds body_time = std::chrono::seconds(5);
  std::chrono::nanoseconds call_body_time = std::chrono::seconds(60);  ///< of calls passed on
  std::size_t most_held = std::size_t{256} << 20U;  ///< bytes of such bodies at once
  /// Between two requests, the next one's header included.
  std::chrono::nanoseconds idle_time = std::chrono::seconds(60);
};

/// Bodies of requests have at most so many bytes.
constexpr std::size_t most_body = 4096;
/// Those of calls that are passed on.
constexpr std::size_t most_call_body = std::size_t{16} << 20U;

class listener {
 public:
  /// Throws settings_error 78 that names cause and remedy when it cannot listen, or the certificate
  /// cannot be used. References must outlive it; it must outlive the context's run. Without
  /// `calls_to`, no calls are passed on.
  listener(asio::io_context& context, listener_options options, routes& to,
           upstream* calls_to = nullptr);
  ~listener();
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;

  /// http://127.0.0.1:PORT
  std::string url() const;
  std::size_t connections() const;
  /// Takes no more connections and ends those that wait for a request. Those with an answer under
  /// way end after it.
  void stop();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace sluice::app
