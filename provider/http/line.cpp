#include "provider/http/line.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace sluice::provider {
namespace {

io_result of_system_call(ssize_t n, io_result::what would_block) {
  io_result out;
  if (n >= 0) {
    out.bytes = static_cast<std::size_t>(n);
  } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
    out.ended = would_block;
  } else {
    out.ended = io_result::what::failed;
    out.error = errno;
  }
  return out;
}

}  // namespace

bool waits(io_result::what ended) {
  return ended == io_result::what::want_read || ended == io_result::what::want_write;
}

asio::ip::tcp::socket::wait_type awaited(io_result::what ended) {
  return ended == io_result::what::want_write ? asio::ip::tcp::socket::wait_write
                                              : asio::ip::tcp::socket::wait_read;
}

std::string why_ended(const io_result& r) {
  switch (r.ended) {
    case io_result::what::closed:
      return "closed by the server";
    case io_result::what::truncated:
      return "cut without a TLS goodbye";
    default:
      return r.error != 0 ? std::strerror(r.error) : "TLS error";
  }
}

line::~line() {
  if (tls && socket.is_open()) tls->goodbye();
}

io_result line::read(void* to, std::size_t size) {
  if (!socket.is_open()) return io_result{io_result::what::failed, 0, EBADF};
  if (tls) return tls->read(to, size);
  ssize_t n = -1;
  do {
    n = ::recv(socket.native_handle(), to, size, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  io_result out = of_system_call(n, io_result::what::want_read);
  if (n == 0) out.ended = io_result::what::closed;
  return out;
}

io_result line::write(std::span<const iovec> parts, std::size_t skip) {
  if (!socket.is_open()) return io_result{io_result::what::failed, 0, EBADF};
  if (tls) {
    if (skip == 0) {
      joined_.clear();
      for (const iovec& part : parts)
        joined_.append(static_cast<const char*>(part.iov_base), part.iov_len);
    }
    return tls->write(joined_.data() + skip, joined_.size() - skip);
  }
  std::array<iovec, 4> rest{};
  std::size_t count = 0;
  for (const iovec& part : parts) {
    if (skip >= part.iov_len) {
      skip -= part.iov_len;
      continue;
    }
    rest.at(count++) = iovec{static_cast<char*>(part.iov_base) + skip, part.iov_len - skip};
    skip = 0;
  }
  msghdr message{};
  message.msg_iov = rest.data();
  message.msg_iovlen = count;
  ssize_t n = -1;
  do {
    n = ::sendmsg(socket.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  return of_system_call(n, io_result::what::want_write);
}

bool line::alive() {
  if (!socket.is_open() || in.size() > 0) return false;
  if (tls) return tls->peek().ended == io_result::what::want_read;
  char one = 0;
  ssize_t n = -1;
  do {
    n = ::recv(socket.native_handle(), &one, 1, MSG_PEEK | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

std::unique_ptr<line> line_pool::take(instant now) {
  while (!idle_.empty()) {
    std::unique_ptr<line> last = std::move(idle_.back());
    idle_.pop_back();
    if (now - last->idle_since >= longest_idle) {
      // All others have been idle for longer.
      idle_.clear();
      return nullptr;
    }
    if (last->alive()) return last;
  }
  return nullptr;
}

void line_pool::give(std::unique_ptr<line> back, instant now) {
  if (most_ == 0) return;
  back->idle_since = now;
  back->reused = true;
  idle_.push_back(std::move(back));
  if (idle_.size() > most_) idle_.pop_front();
}

bool line_pool::drop_oldest() {
  if (idle_.empty()) return false;
  idle_.pop_front();
  return true;
}

}  // namespace sluice::provider
