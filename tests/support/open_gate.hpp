// A gate on a thread of its own, its state in memory.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/gate/listener.hpp"
#include "app/gate/state_file.hpp"
#include "app/gate/upstream.hpp"
#include "fixtures/simulation/memory_budget.hpp"
#include "pipeline/real_clock.hpp"

namespace sluice::testing {

class open_gate : public ::testing::Test {
 protected:
  void open(app::listener_options options = {}, std::vector<pipeline::limit> limits = {},
            std::optional<app::upstream_options> to = {}, std::uint32_t max_in_flight = 0) {
    options.port = 0;
    options.rules.hosts = {"localhost", "127.0.0.1"};
    pipeline::budget_settings settings;
    settings.limits = std::move(limits);
    settings.max_in_flight = max_in_flight;
    keeper = std::make_unique<pipeline::gate_keeper>(time, pipeline::fresh_budget(settings, "boot"),
                                                     store);
    answers = std::make_unique<app::routes>(time, *keeper);
    if (to) calls = std::make_unique<app::upstream>(context.get_executor(), time, *keeper, *to);
    door = std::make_unique<app::listener>(context, options, *answers, calls.get());
    boost::asio::co_spawn(context, keeper->run(), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
    const std::string url = door->url();
    port = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
    thread = std::thread([this] { context.run(); });
  }
  void stop() {
    if (!thread.joinable()) return;
    boost::asio::post(context, [this] {
      keeper->stop();
      door->stop();
      if (calls) calls->stop();
    });
    thread.join();
    EXPECT_EQ(door->connections(), 0U);
  }
  void TearDown() override { stop(); }

  boost::asio::io_context context{1};
  pipeline::real_clock time{context.get_executor()};
  std::shared_ptr<fixtures::memory_budget> kept = std::make_shared<fixtures::memory_budget>();
  fixtures::memory_medium medium{kept};
  app::state_file store{context.get_executor(), time, medium};
  std::unique_ptr<pipeline::gate_keeper> keeper;
  std::unique_ptr<app::routes> answers;
  std::unique_ptr<app::upstream> calls;
  std::unique_ptr<app::listener> door;
  std::thread thread;
  std::uint16_t port = 0;
};

}  // namespace sluice::testing
