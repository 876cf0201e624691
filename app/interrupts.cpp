#include "app/interrupts.hpp"

#include <unistd.h>

#include <boost/asio/signal_set.hpp>
#include <csignal>

#include "app/exit_codes.hpp"

namespace sluice::app {

struct interrupts::state {
  state(boost::asio::io_context& context, std::function<void(int)> f)
      : signals(context, SIGINT, SIGTERM), first(std::move(f)) {}

  void listen() {
    signals.async_wait([this](const boost::system::error_code& ec, int number) {
      if (ec) return;
      if (received != 0) ::_exit(exit_codes::interrupted_base + number);
      received = number;
      first(number);
      listen();
    });
  }

  boost::asio::signal_set signals;
  std::function<void(int)> first;
  int received = 0;
};

interrupts::interrupts(boost::asio::io_context& context, std::function<void(int)> first)
    : state_(std::make_unique<state>(context, std::move(first))) {
  state_->listen();
}

interrupts::~interrupts() = default;

int interrupts::received() const {
  return state_->received;
}

void interrupts::stop() {
  state_->signals.cancel();
}

}  // namespace sluice::app
