// One service spoken to in JSON over HTTP, beside the endpoint: a request at a time, on a
// connection that is kept. Used for the gate.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <string>

#include "provider/base_url.hpp"
#include "retry/time.hpp"

namespace sluice::provider {

namespace asio = boost::asio;

/// Where requests go.
struct poster_options {
  base_url url;         ///< its `/chat/completions` is left out
  std::string token;    ///< sent as X-Sluice-Token; empty: none is sent
  std::string ca_file;  ///< PEM certificates to trust besides the system's
  duration connect_timeout = std::chrono::seconds(10);
  std::function<instant()> now;  ///< the pipeline's clock; required
};

/// What a request came to.
struct post_result {
  enum class how {
    answered,
    failed,    ///< no connection, or no whole answer: it may be tried again
    mistaken,  ///< trying again changes nothing: the certificate, or it is not HTTP
    aborted,
  };
  how ended = how::failed;
  int status = 0;
  std::string body;
  std::string cause;     ///< for people, unless answered
  bool reached = false;  ///< a connection stood that had the request, until it was lost

  post_result() = default;
};

class poster {
 public:
  /// Throws std::invalid_argument for a CA file or a token that cannot be used; the token is not
  /// repeated.
  poster(asio::any_io_executor executor, poster_options options);
  ~poster();
  poster(const poster&) = delete;
  poster& operator=(const poster&) = delete;

  /// Sends one request, GET when there is no body. Ends `within` after the connection is made, and
  /// is sent a second time if a kept connection turns out to have been closed.
  asio::awaitable<post_result> send(std::string path, std::string body, duration within);
  /// What is under way comes back as `aborted`.
  void abort();

 private:
  struct core;
  std::shared_ptr<core> core_;
};

}  // namespace sluice::provider
