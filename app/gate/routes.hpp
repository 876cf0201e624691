// What the gate answers to a request that may be answered. Told by the listener, which knows HTTP;
// asks the keeper, which knows turns.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/admission/gate_keeper.hpp"

namespace sluice::app {

namespace asio = boost::asio;

struct gate_request {
  std::string method;
  std::string target;
  std::string body;
};

struct gate_response {
  int status = 200;
  std::string type = "application/json";
  std::string allow;                                         ///< with 405
  std::vector<std::pair<std::string, std::string>> headers;  ///< more of them
  std::string body;
  std::uint64_t granted = 0;  ///< the slot it tells of, if any

  gate_response() = default;
  gate_response(int s, std::string text) : status(s), body(std::move(text)) {}
};

/// An answer that says what is wrong, as all of the gate's do.
gate_response problem(int status, const std::string& error, const std::string& message);

/// Told when the caller of a request under way has hung up.
class caller_watch {
 public:
  void hung_up() {
    gone_ = true;
    if (then_) then_();
  }
  bool gone() const { return gone_; }
  void then(std::function<void()> what) { then_ = std::move(what); }

 private:
  std::function<void()> then_;
  bool gone_ = false;
};

class routes {
 public:
  routes(pipeline::clock& time, pipeline::gate_keeper& keeper) : clock_(time), keeper_(keeper) {}

  /// References must outlive the answer.
  asio::awaitable<gate_response> answer(const gate_request& request, caller_watch& watch);
  /// The response could not be sent.
  void unsent(const gate_response& response);

 private:
  asio::awaitable<gate_response> slots(const gate_request& request, caller_watch& watch);
  gate_response page() const;
  gate_response done(const gate_request& request, std::string_view id);

  pipeline::clock& clock_;
  pipeline::gate_keeper& keeper_;
};

}  // namespace sluice::app
