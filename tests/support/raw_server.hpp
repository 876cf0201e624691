// A server that does what its script says, byte by byte, on threads of its own: for what no decent
// HTTP server would do.
#pragma once

#include <sys/socket.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/certificates.hpp"

namespace sluice::testing {

/// One step of a script.
struct action {
  enum class kind {
    read_request,  ///< a whole request, header and body
    read_some,     ///< whatever comes first
    send,          ///< `bytes`, as they are
    drip,          ///< `bytes` again every few milliseconds, until the client has closed
    wait_closed,   ///< until the client has closed
    wait_told,     ///< until go_on()
    start_tls,     ///< from here on, with the identity of `tls_later`
    close,         ///< in due form: TLS says goodbye first
    cut,           ///< FIN without TLS's goodbye
    reset,         ///< RST
  };
  kind what;
  std::string bytes;
};

using script = std::vector<action>;

inline action read_request() {
  return action{action::kind::read_request, {}};
}
inline action read_some() {
  return action{action::kind::read_some, {}};
}
inline action send_bytes(std::string bytes) {
  return action{action::kind::send, std::move(bytes)};
}
inline action drip(std::string bytes) {
  return action{action::kind::drip, std::move(bytes)};
}
inline action wait_closed() {
  return action{action::kind::wait_closed, {}};
}
inline action wait_told() {
  return action{action::kind::wait_told, {}};
}
inline action start_tls() {
  return action{action::kind::start_tls, {}};
}
inline action close_it() {
  return action{action::kind::close, {}};
}
inline action cut_it() {
  return action{action::kind::cut, {}};
}
inline action reset_it() {
  return action{action::kind::reset, {}};
}

/// How a server is to be reached.
struct raw_server_options {
  const char* address = "127.0.0.1";
  const identity* tls = nullptr;        ///< must outlive the server
  const identity* tls_later = nullptr;  ///< of start_tls; must outlive the server
  const identity* client_ca = nullptr;  ///< asks for a client certificate that this one signed
  bool old_tls_only = false;            ///< TLS 1.1 at most
  bool tls_1_2_only = false;
  bool accept_only = false;  ///< TLS: takes the connection and says nothing
};

class raw_server {
 public:
  /// The n-th connection gets the n-th script; all later ones the last. A script that ends leaves
  /// its connection open until the client closes.
  explicit raw_server(std::vector<script> scripts, raw_server_options options = {});
  ~raw_server();
  raw_server(const raw_server&) = delete;
  raw_server& operator=(const raw_server&) = delete;

  std::uint16_t port() const { return port_; }
  /// scheme://host:port/v1
  std::string url(const std::string& host = "127.0.0.1") const;

  /// Whole requests, in the order they came.
  std::vector<std::string> requests() const;
  /// Waits until that many requests are there.
  void await_requests(std::size_t count) const;
  /// Waits until that many sends are done.
  void await_sent(std::size_t count) const;
  /// Waits until that many connections have been accepted.
  void await_connections(std::size_t count) const;
  /// Waits until that many connections have ended.
  void await_ended(std::size_t count) const;
  /// Everything that came, decrypted where there is TLS.
  std::string received() const;
  std::size_t connections() const;
  /// Lets one wait_told go on.
  void go_on();

 private:
  class peer;
  void accept_all();
  void serve(int socket, std::size_t number);

  std::vector<script> scripts_;
  raw_server_options options_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool stopping_ = false;
  int told_ = 0;
  std::size_t accepted_ = 0;
  std::size_t ended_ = 0;
  std::size_t sent_ = 0;
  std::vector<int> open_;
  std::vector<std::string> requests_;
  std::string received_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace sluice::testing
