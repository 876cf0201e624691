// The real endpoint: HTTP/1.1 over TCP or TLS, with kept-alive connections. The wire itself is in
// provider/http/; what an answer means is in answer.hpp.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "provider/base_url.hpp"
#include "provider/endpoint.hpp"
#include "provider/proxy.hpp"

namespace sluice::provider {

/// How the key is sent.
enum class key_header {
  authorization,  ///< Authorization: Bearer KEY
  api_key,        ///< api-key: KEY, as Azure wants it
};

/// Where calls go, and within which bounds.
struct http_options {
  base_url url;
  std::string api_key;  ///< sent as `key_goes` says, and to no other host; empty: none is sent
  key_header key_goes = key_header::authorization;
  std::optional<proxy> via;
  std::string ca_file;      ///< PEM certificates to trust besides the system's
  std::string client_cert;  ///< PEM file with the client's certificate and its chain
  std::string client_key;   ///< PEM file with its key; empty: the same file
  std::string job;          ///< sent as X-Sluice-Job, to loopback only
  duration connect_timeout = std::chrono::seconds(10);  ///< for each of look-up, connect, handshake
  duration idle_timeout = std::chrono::seconds(60);     ///< between two signs of life
  duration timeout = std::chrono::seconds(120);         ///< for a whole send
  std::size_t max_response = std::size_t{2} << 20U;     ///< bytes of an answer's body
  bool keep_bodies = false;                             ///< fill attempt_report::raw_body
  std::size_t max_idle = 64;                            ///< connections kept open
  std::function<instant()> now;                         ///< the pipeline's clock; required
  /// Blocks and looks a name up, on a thread of its own: addresses as text, or throws
  /// std::runtime_error. Empty: the system's.
  std::function<std::vector<std::string>(const std::string& host)> lookup;
};

/// Must not outlive the executor's context.
class http_endpoint final : public endpoint {
 public:
  /// Throws std::invalid_argument, with cause and remedy, for a file that cannot be used and for a
  /// key or job that cannot stand in a header; the key is not repeated.
  http_endpoint(asio::any_io_executor executor, http_options options);
  ~http_endpoint() override;

  asio::awaitable<readiness> make_ready() override;
  bool alive(connection& c) override;
  /// Throws std::logic_error for a connection that is not from this kind of endpoint.
  asio::awaitable<attempt_report> send(slot turn, std::unique_ptr<connection> on,
                                       const call& what) override;
  void abort() override;

 private:
  struct core;
  std::shared_ptr<core> core_;
};

}  // namespace sluice::provider
