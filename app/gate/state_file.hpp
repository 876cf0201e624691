// The gate's state on disk, written on a thread of its own: the network's thread does not wait for
// the disk.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>

#include "pipeline/admission/gate_keeper.hpp"

namespace sluice::app {

class state_file final : public pipeline::gate_store {
 public:
  /// The medium's lock must be held; no one else writes there.
  state_file(boost::asio::any_io_executor executor, pipeline::clock& time,
             pipeline::budget_medium& to);
  ~state_file() override;

  boost::asio::awaitable<void> write(std::string bytes) override;

 private:
  boost::asio::any_io_executor executor_;
  pipeline::clock& clock_;
  pipeline::budget_medium& to_;
  boost::asio::thread_pool writer_{1};
};

}  // namespace sluice::app
