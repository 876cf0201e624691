// Documents whose answers are hostile, among others: those keep their pace.
#include "tests/support/hostile_answers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "fixtures/fake_endpoint.hpp"
#include "tests/support/sockets_world.hpp"

namespace sluice::testing {
namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

constexpr unsigned good = 1500;

// How long the good documents take, in real time, with these among them.
duration time_for_the_good(const std::vector<hostile>& bad) {
  fixtures::fake_options options;
  options.limit.reset();
  options.latency_min = options.latency_max = 20ms;
  options.script = [&bad](unsigned, const std::string& text) {
    std::optional<fixtures::scripted_answer> out;
    for (const hostile& h : bad)
      if (text == h.name) out.emplace().steps = h.steps;
    return out;
  };
  const fixtures::fake_endpoint server(options);
  socket_setup setup;
  setup.http.url = provider::parse_base_url(server.url());
  setup.batch.concurrency = 8;
  for (unsigned i = 0; i < good; ++i) {
    // Spread evenly, so that all of them are under way among the good ones.
    const std::size_t every = good / std::max<std::size_t>(bad.size(), 1);
    if (i % every == 0 && i / every < bad.size())
      setup.documents.emplace_back(bad[i / every].name, bad[i / every].name);
    setup.documents.emplace_back("d" + std::to_string(i), "document");
  }
  const steady::time_point began = steady::now();
  const socket_run run = run_over_sockets(setup);
  EXPECT_EQ(run.result.succeeded, good);
  return steady::now() - began;
}

TEST(HostileAnswers, LeaveTheOthersNineTenthsOfTheirThroughput) {
  const std::vector<hostile> bad = hostile_answers();
  std::array<double, 5> ratios{};
  for (double& ratio : ratios) {
    const duration alone = time_for_the_good({});
    const duration among = time_for_the_good(bad);
    ratio = to_seconds(alone) / to_seconds(among);
  }
  std::ranges::sort(ratios);
  EXPECT_GE(ratios[2], 0.9) << ratios[0] << " to " << ratios[4];
}

}  // namespace
}  // namespace sluice::testing
