// The endpoint as the pipeline sees it: make sure of a connection, then send one call on it. The
// real one speaks HTTP (http_endpoint.hpp); the simulation and the tests bring their own.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "provider/slot.hpp"
#include "retry/signal.hpp"

namespace sluice::provider {

namespace asio = boost::asio;

/// A connection that was made sure of, lent to one call. Destroying it unused gives it back.
class connection {
 public:
  virtual ~connection() = default;
};

/// What is sent: the request body, and what the fake endpoint wants to know of it.
struct call {
  std::string body;         ///< the serialised JSON request
  std::string document_id;  ///< for logs only; never sent
  unsigned attempt = 0;     ///< from 1, for logs only

  call() = default;
  call(std::string request_body, std::string id, unsigned n)
      : body(std::move(request_body)), document_id(std::move(id)), attempt(n) {}
};

/// Tokens as the endpoint counted them. Unknown is unknown, never 0.
struct usage {
  std::optional<std::int64_t> prompt_tokens;
  std::optional<std::int64_t> completion_tokens;
};

/// How long the parts of an attempt took. A part that did not happen is absent.
struct timings {
  std::optional<duration> connect;
  std::optional<duration> tls;
  std::optional<duration> first_byte;
  duration total{};
};

/// Everything one attempt brought back.
struct attempt_report {
  retry::signal signal;
  std::string text;           ///< the answer, or what there was of it
  std::string finish_reason;  ///< as received
  std::string request_id;     ///< x-request-id or its kin, as received
  std::string hints;          ///< the waiting hints as received, e.g. "retry-after=52"
  std::string detail;         ///< one line for people, at most 200 bytes, key removed
  std::string raw_body;       ///< only when bodies are kept, key removed
  usage tokens;
  timings took;
  /// A reused connection was closed with nothing answered: resend once with a slot of its own, free
  /// of charge to the document.
  bool stale_connection = false;
  /// The slot was burnt before anything was written: nothing was sent, ask for another.
  bool slot_burnt = false;
  /// 307/308 to the same host: call again, with a slot of its own; the endpoint has noted the
  /// target.
  bool redirected = false;
};

/// A connection, or why there is none (nothing was sent: no slot is spent on that).
using readiness = std::variant<std::unique_ptr<connection>, attempt_report>;

/// One OpenAI-compatible endpoint. All methods run on the one I/O thread.
class endpoint {
 public:
  virtual ~endpoint() = default;

  /// Makes sure of a connection: takes a live idle one or opens a new one. Bounded by the connect
  /// timeout. Expected failures come back as a report, never as an exception.
  virtual asio::awaitable<readiness> make_ready() = 0;

  /// True when the connection is still open as far as can be seen without sending.
  virtual bool alive(connection& c) = 0;

  /// Sends one call and reads its answer. Spends the slot. Never throws for what a server or a
  /// network can do. Always ends within the total timeout.
  virtual asio::awaitable<attempt_report> send(slot turn, std::unique_ptr<connection> on,
                                               const call& what) = 0;

  /// Closes what is in flight; pending sends come back soon as `interrupted`.
  virtual void abort() = 0;
};

}  // namespace sluice::provider
