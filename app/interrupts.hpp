// SIGINT and SIGTERM: the first drains the run, the second ends it at once.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

namespace sluice::app {

class interrupts {
 public:
  /// Calls `first` with the number of the first signal, on the I/O thread. The second signal ends
  /// the process with 128 + its number.
  interrupts(boost::asio::io_context& context, std::function<void(int)> first);
  ~interrupts();
  interrupts(const interrupts&) = delete;
  interrupts& operator=(const interrupts&) = delete;

  /// Number of the first signal, or 0.
  int received() const;
  /// Stops listening, so that the I/O thread can come to its end.
  void stop();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace sluice::app
