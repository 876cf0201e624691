// Real jobs at a real gate, before an endpoint that judges them.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "fixtures/fake_endpoint.hpp"
#include "tests/support/program.hpp"
#include "tests/support/scratch_folder.hpp"

namespace sluice::testing {

class gate_trial : public ::testing::Test {
 protected:
  using arguments = std::vector<std::string>;

  void serve(std::size_t calls, duration window, unsigned first_429 = 0) {
    fixtures::fake_options options;
    options.limit = fixtures::server_limit{calls, window};
    options.latency_min = std::chrono::milliseconds(5);
    options.latency_max = std::chrono::milliseconds(40);
    options.first_429 = first_429;
    endpoint = std::make_unique<fixtures::fake_endpoint>(options);
    limit =
        std::to_string(calls) + "/" + std::to_string(window / std::chrono::milliseconds(1)) + "ms";
  }

  /// Starts a gate; the port stays the same when it is started again.
  program open_gate(const arguments& more = {}) {
    const std::string log = folder.at("gate" + std::to_string(++gates) + ".log");
    arguments words{"gate", "--listen", "127.0.0.1:" + port, "--limit", limit, "--state", state};
    words.insert(words.end(), more.begin(), more.end());
    program gate(words, log);
    gate_url = gate.says("listening on ");
    port = gate_url.substr(gate_url.rfind(':') + 1);
    return gate;
  }
  /// Says that nothing was sent lately, so that the gate need not wait.
  void nothing_was_sent() {
    EXPECT_EQ(
        program({"budget", "init", state, "--limit", limit}, folder.at("init.log")).exit_code(), 0);
  }

  program start(const std::string& name, int documents, const arguments& more = {}) {
    std::string lines;
    for (int i = 1; i <= documents; ++i)
      lines += R"({"id": "d)" + std::to_string(i) + R"(", "text": "document )" + std::to_string(i) +
               " of " + name + "\"}\n";
    const std::string batch = folder.write(name + ".jsonl", lines);
    arguments words{"run",     batch,   "--endpoint", endpoint->url(),
                    "--model", "any",   "--store",    folder.at(name + ".db"),
                    "--gate",  gate_url};
    words.insert(words.end(), more.begin(), more.end());
    return program(words, folder.at(name + ".log"));
  }

  /// Waits until the endpoint has had so many calls, at most about so long; whether it has.
  bool calls_reach(int count, std::chrono::milliseconds bound = std::chrono::seconds(10)) const {
    for (auto looks = bound / std::chrono::milliseconds(10); looks > 0 && calls() < count; --looks)
      ::poll(nullptr, 0, 10);
    return calls() >= count;
  }
  int calls() const { return stats()["calls"].get<int>(); }
  nlohmann::json stats() const { return nlohmann::json::parse(endpoint->stats_json()); }
  nlohmann::json grade() const { return nlohmann::json::parse(endpoint->grade_json()); }

  scratch_folder folder;
  std::string state = folder.at("gate.state");
  std::string limit;
  std::string port = "0";
  std::string gate_url;
  unsigned gates = 0;
  std::unique_ptr<fixtures::fake_endpoint> endpoint;
};

}  // namespace sluice::testing
