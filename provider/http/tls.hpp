// TLS over a non-blocking socket: the set-up shared by all connections, and one session. OpenSSL is
// driven directly and not through Asio's stream, because an idle connection must be looked at
// without sending: a TLS 1.3 server sends session tickets after the handshake, which have to be
// told apart from its goodbye.
#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace sluice::provider {

/// What one non-blocking step on a connection came to.
struct io_result {
  enum class what {
    done,        ///< `bytes` were moved, or the handshake is over
    want_read,   ///< again when the socket can be read
    want_write,  ///< again when the socket can be written
    closed,      ///< the peer closed in due form
    truncated,   ///< the TCP connection ended without TLS's goodbye
    failed,      ///< `error`, an errno, or 0 for a TLS error
  };
  what ended = what::done;
  std::size_t bytes = 0;
  int error = 0;
};

/// Files in PEM form; an empty name means none.
struct tls_files {
  std::string ca;           ///< certificates to trust besides the system's
  std::string certificate;  ///< the client's own, with its chain
  std::string key;          ///< of that; empty: in the same file

  bool any() const { return !ca.empty() || !certificate.empty() || !key.empty(); }
};

/// Trust, the client's own certificate, and protocol versions: the system's CAs, the CA file on
/// top, TLS 1.2 or later. There is no way to switch verification off.
class tls_context {
 public:
  /// Throws std::invalid_argument naming file, cause and remedy when a file cannot be used.
  explicit tls_context(const tls_files& files);
  SSL_CTX* get() const { return context_.get(); }

 private:
  struct freed {
    void operator()(SSL_CTX* c) const { SSL_CTX_free(c); }
  };
  std::unique_ptr<SSL_CTX, freed> context_;
};

/// Why a handshake failed.
struct tls_refusal {
  bool lasting = false;  ///< the peer was there, and waiting will not help
  std::string cause;     ///< one line for people, with the remedy where there is one
};

/// The client's end of one TLS connection.
class tls_session {
 public:
  /// `host` is verified, as a name or as an address; a name is also sent (SNI).
  tls_session(const tls_context& context, int socket, const std::string& host, bool address);

  io_result handshake();
  io_result read(void* to, std::size_t size);
  io_result write(const void* from, std::size_t size);
  /// Looks whether the peer has said anything, and takes in what is not application data.
  io_result peek();
  /// Says goodbye without waiting for the answer, if the session is in a state to.
  void goodbye();

  /// After a handshake that failed.
  tls_refusal refusal(const io_result& how) const;
  /// After a read or write that failed: what the server has against the client's certificate, if
  /// that is what ended it. With TLS 1.3 it may say so only after the handshake.
  std::optional<std::string> objection() const;

 private:
  io_result ended(int returned, std::size_t bytes);

  struct freed {
    void operator()(SSL* s) const { SSL_free(s); }
  };
  std::unique_ptr<SSL, freed> ssl_;
  unsigned long tls_error_ = 0;
  bool healthy_ = false;
};

}  // namespace sluice::provider
