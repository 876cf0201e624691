// The gate as a proxy: a call is admitted as any other, and passed on to the endpoint with the
// caller's own key. Told by the listener, which has read the request and hands the answer on.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <optional>
#include <string>

#include "app/gate/routes.hpp"
#include "provider/base_url.hpp"
#include "provider/http/relay.hpp"
#include "provider/http/tls.hpp"
#include "provider/proxy.hpp"

namespace sluice::app {

struct upstream_options {
  provider::base_url url;
  provider::tls_files files;
  std::optional<provider::proxy> via;  ///< on the way to it
  duration admission_timeout = std::chrono::seconds(90);
  duration connect_timeout = std::chrono::seconds(10);
  duration longest_call = std::chrono::minutes(10);  ///< as long as the official clients wait
  duration grace = std::chrono::seconds(8);          ///< for what is under way when the gate stops
};

/// A call to pass on.
struct upstream_call {
  std::string target;  ///< as asked for, with its query
  provider::header_fields fields;
  std::string body;
  std::string client;  ///< its address: the job, unless it names one
};

/// What became of it.
struct upstream_outcome {
  std::optional<gate_response> own;  ///< nothing was passed on: this is the answer
  bool whole = false;                ///< the endpoint's answer was passed on to its end

  upstream_outcome() = default;
};

/// The path that is passed on.
constexpr std::string_view completions_path = "/v1/chat/completions";
/// Whether a target is that path, whatever its query.
bool is_completions(std::string_view target);

/// An answer that says what is wrong, in the shape of OpenAI's errors. `again`: the caller may try
/// by itself; otherwise its client library is told not to.
gate_response openai_problem(int status, const std::string& code, const std::string& message,
                             bool again);

class upstream {
 public:
  /// References must outlive it and its coroutines. Throws std::invalid_argument for a file that
  /// cannot be used.
  upstream(asio::any_io_executor executor, pipeline::clock& time, pipeline::gate_keeper& keeper,
           upstream_options options);
  ~upstream();
  upstream(const upstream&) = delete;
  upstream& operator=(const upstream&) = delete;

  /// Waits for a turn, passes the call on and its answer back. The place in flight is held until
  /// the answer has ended. A caller that hangs up leaves the line, or ends the call.
  asio::awaitable<upstream_outcome> pass(const upstream_call& call, caller_watch& watch,
                                         provider::answer_sink& to);
  /// Ends what is still under way after the grace.
  void stop();

 private:
  struct core;
  std::unique_ptr<core> core_;
};

}  // namespace sluice::app
