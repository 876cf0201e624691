#include "app/gate/state_file.hpp"

#include <boost/asio/post.hpp>
#include <exception>

namespace sluice::app {

namespace asio = boost::asio;

state_file::state_file(asio::any_io_executor executor, pipeline::clock& time,
                       pipeline::budget_medium& to)
    : executor_(std::move(executor)), clock_(time), to_(to) {}

state_file::~state_file() {
  writer_.join();
}

asio::awaitable<void> state_file::write(std::string bytes) {
  struct job {
    std::string bytes;
    std::exception_ptr failure;
    std::unique_ptr<pipeline::alarm> bell;
    bool done = false;
  };
  const auto mine = std::make_shared<job>();
  mine->bytes = std::move(bytes);
  mine->bell = clock_.make_alarm();
  asio::post(writer_, [this, mine] {
    try {
      to_.write(mine->bytes);
    } catch (...) {
      mine->failure = std::current_exception();
    }
    asio::post(executor_, [mine] {
      mine->done = true;
      mine->bell->ring();
    });
  });
  while (!mine->done) co_await mine->bell->wait_until(instant::max());
  if (mine->failure) std::rethrow_exception(mine->failure);
}

}  // namespace sluice::app
