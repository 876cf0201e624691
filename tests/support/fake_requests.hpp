// What tests of the fake endpoint ask it, and the options they start from.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "fixtures/fake_endpoint.hpp"

namespace sluice::testing {
using fixtures::fake_options;
using fixtures::scripted_answer;
using fixtures::server_limit;

inline constexpr const char* chat = "/v1/chat/completions";

/// A chat-completions request for one document.
inline std::string ask(const std::string& document, const std::string& model = "m") {
  nlohmann::json j;
  j["model"] = model;
  j["messages"] = nlohmann::json::array();
  j["messages"].push_back({{"role", "system"}, {"content", "Summarise."}});
  j["messages"].push_back({{"role", "user"}, {"content", document}});
  return j.dump();
}

inline fake_options unlimited() {
  fake_options options;
  options.limit = std::nullopt;
  return options;
}

inline fake_options limited(std::size_t calls) {
  fake_options options;
  options.limit =
      server_limit{calls, std::chrono::minutes(10), fixtures::window_kind::rolling, false};
  return options;
}

inline fake_options scripted(scripted_answer answer) {
  fake_options options = unlimited();
  options.script = [answer](unsigned, const std::string&) { return answer; };
  return options;
}

}  // namespace sluice::testing
