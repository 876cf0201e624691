// Prints what a rate limit costs each kind of client, as a Markdown table. Simulated time, so that
// twenty batches of several minutes take seconds; Sluice's rows run its real admission and retry.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "fixtures/simulation/simulation.hpp"

namespace {

using namespace sluice;
using namespace std::chrono_literals;

struct client {
  const char* name;
  fixtures::sim_client kind;
  pipeline::pace shape;
  unsigned concurrency;
};

constexpr client clients[] = {
    {"all at once, SDK defaults", fixtures::sim_client::sdk_defaults, pipeline::pace::smooth, 8},
    {"semaphore 8, sleep Retry-After + U(0,2), 5 attempts", fixtures::sim_client::usual_fix,
     pipeline::pace::smooth, 8},
    {"Sluice, `--pace smooth`", fixtures::sim_client::sluice, pipeline::pace::smooth, 8},
    {"Sluice, `--pace burst --concurrency 16`", fixtures::sim_client::sluice, pipeline::pace::burst,
     16},
};

constexpr unsigned documents_per_job = 50;
constexpr unsigned calls_per_window = 10;
constexpr duration window = 60s;

// With no call refused, the last window's worth is let in after all the others.
constexpr duration minimum(unsigned documents) {
  return ((documents + calls_per_window - 1) / calls_per_window - 1) * window;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

void print_row(const client& who, unsigned jobs, unsigned seeds) {
  std::vector<double> succeeded;
  std::vector<double> calls;
  std::vector<double> refused;
  std::vector<double> seconds;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    fixtures::sim_setup setup;
    setup.server.limit =
        fixtures::server_limit{calls_per_window, window, fixtures::window_kind::rolling, false};
    setup.server.answer_min = 200ms;
    setup.server.answer_max = 200ms;
    setup.server.spread = 50ms;
    setup.jobs = jobs;
    setup.documents = documents_per_job;
    setup.options.limits.push_back(pipeline::limit{calls_per_window, window});
    setup.options.shape = who.shape;
    setup.options.concurrency = who.concurrency;
    setup.client = who.kind;
    setup.seed = seed;
    const fixtures::sim_result result = fixtures::simulate(setup);
    succeeded.push_back(static_cast<double>(result.succeeded()));
    calls.push_back(static_cast<double>(result.arrivals.size()));
    refused.push_back(static_cast<double>(result.refused()));
    seconds.push_back(to_seconds(result.ended));
  }
  const unsigned documents = jobs * documents_per_job;
  const bool all = median(succeeded) >= documents;
  const double over = median(seconds) - to_seconds(minimum(documents));
  // A client that loses documents is through early; that is nothing to be praised for.
  const std::string excess = all ? std::to_string(static_cast<long>(over + 0.5)) : "-";
  std::printf("| %s | %u | %u | %.0f (%.0f %%) | %.0f | %.0f | %.0f | %s |\n", who.name, jobs,
              documents, median(succeeded), 100 * median(succeeded) / documents, median(calls),
              median(refused), median(seconds), excess.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned seeds = argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 20;
  if (seeds == 0) {
    std::fprintf(stderr, "usage: schedule_benchmark [SEEDS]   (at least one; 20 if not given)\n");
    return 64;
  }
  try {
    std::printf(
        "| client | processes | documents | succeeded | calls | 429s | seconds |"
        " over the minimum |\n|---|---|---|---|---|---|---|---|\n");
    for (const unsigned jobs : {1U, 3U})
      for (const client& who : clients) print_row(who, jobs, seeds);
    std::printf(
        "\nMedians of %u seeds. The server lets in 10 calls in any 60 s and answers in 0.2 s;"
        "\ncalls arrive up to 50 ms after they were sent. Three processes share nothing but"
        "\nthe key. The minimum is %.0f s for %u documents and %.0f s for %u.\n",
        seeds, to_seconds(minimum(documents_per_job)), documents_per_job,
        to_seconds(minimum(3 * documents_per_job)), 3 * documents_per_job);
  } catch (const std::exception& broken) {
    std::fprintf(stderr, "schedule_benchmark: %s\n", broken.what());
    return 70;
  }
  return 0;
}
