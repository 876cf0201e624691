// Notices that a caller is gone while its answer is still being waited for.
#pragma once

#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <memory>

#include "app/gate/routes.hpp"

namespace sluice::app {

/// Whether the other end has closed, seen without taking anything in.
inline bool closed_by_peer(int socket) {
  char byte = 0;
  const auto n = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/// Notices that the caller hangs up while it waits for an answer. A caller that says more has no
/// more patience than one that goes, over TLS: there it may be its goodbye.
class hang_up_watch {
 public:
  hang_up_watch(boost::asio::ip::tcp::socket& socket, bool encrypted)
      : socket_(socket), shared_(std::make_shared<state>()) {
    socket.async_wait(
        boost::asio::ip::tcp::socket::wait_read,
        [=, s = shared_, descriptor = socket.native_handle()](boost::system::error_code ec) {
          if (s->over || ec == boost::asio::error::operation_aborted) return;
          if (ec || encrypted || closed_by_peer(descriptor)) s->watch.hung_up();
        });
  }
  ~hang_up_watch() {
    shared_->over = true;
    boost::system::error_code ignored;
    socket_.cancel(ignored);
  }
  hang_up_watch(const hang_up_watch&) = delete;
  hang_up_watch& operator=(const hang_up_watch&) = delete;
  caller_watch& watch() { return shared_->watch; }

 private:
  struct state {
    caller_watch watch;
    bool over = false;
  };
  boost::asio::ip::tcp::socket& socket_;
  std::shared_ptr<state> shared_;
};

}  // namespace sluice::app
