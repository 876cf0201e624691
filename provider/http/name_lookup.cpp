#include "provider/http/name_lookup.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace sluice::provider {
namespace {

std::vector<std::string> ask_the_system(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(host.c_str(), nullptr, &wanted, &list);
  if (code == EAI_SYSTEM) throw std::runtime_error(std::strerror(errno));
  if (code != 0) throw std::runtime_error(gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  std::vector<std::string> out;
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(a->ai_addr, a->ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0)
      out.emplace_back(text.data());
  }
  return out;
}

// What the looking thread and the I/O thread share. Each has an end of its own, so that neither
// needs the other to be alive.
struct shared_result {
  shared_result() : event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~shared_result() {
    if (event >= 0) ::close(event);
  }
  shared_result(const shared_result&) = delete;
  shared_result& operator=(const shared_result&) = delete;

  int event;
  std::atomic<bool> ready{false};
  std::vector<std::string> addresses;  // written before `ready`
  std::string error;                   // written before `ready`
};

// Signals are the I/O thread's business.
class signals_blocked {
 public:
  signals_blocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~signals_blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

struct name_lookup::job {
  explicit job(const asio::any_io_executor& executor) : done(executor) {}

  std::shared_ptr<shared_result> result = std::make_shared<shared_result>();
  asio::posix::stream_descriptor done;
  bool listening = false;
  struct waiter {
    asio::steady_timer bell;
    bool aborted = false;
  };
  std::vector<waiter*> waiters;

  // A waiter's place, for as long as its frame lives.
  class seat {
   public:
    seat(job& at, waiter& mine) : at_(at), mine_(mine) { at_.waiters.push_back(&mine_); }
    ~seat() { std::erase(at_.waiters, &mine_); }
    seat(const seat&) = delete;
    seat& operator=(const seat&) = delete;

   private:
    job& at_;
    waiter& mine_;
  };

  void wake_all() {
    for (waiter* w : waiters) w->bell.cancel();
  }
};

name_lookup::name_lookup(asio::any_io_executor executor, std::string host, blocking_lookup by)
    : executor_(std::move(executor)), host_(std::move(host)), by_(std::move(by)) {
  if (!by_) by_ = ask_the_system;
}

name_lookup::~name_lookup() = default;

// Throws std::runtime_error when the machine has no thread or descriptor left.
void name_lookup::start() {
  auto fresh = std::make_shared<job>(executor_);
  const auto result = fresh->result;
  const int own = result->event < 0 ? -1 : fcntl(result->event, F_DUPFD_CLOEXEC, 0);
  if (own < 0) throw std::runtime_error(std::strerror(errno));
  fresh->done.assign(own);
  const signals_blocked guard;
  std::thread([result, host = host_, by = by_] {
    try {
      result->addresses = by(host);
    } catch (const std::exception& e) {
      result->error = e.what();
    }
    result->ready.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(result->event, &one, sizeof(one));
  }).detach();
  job_ = std::move(fresh);
}

void name_lookup::listen() {
  if (job_->listening) return;
  job_->listening = true;
  job_->done.async_wait(asio::posix::stream_descriptor::wait_read,
                        [weak = std::weak_ptr<job>(job_)](const boost::system::error_code&) {
                          const auto self = weak.lock();
                          if (!self) return;
                          self->listening = false;
                          self->wake_all();
                        });
}

asio::awaitable<found_addresses> name_lookup::find(steady::time_point deadline) {
  found_addresses out;
  try {
    if (!job_ || job_->result->ready.load(std::memory_order_acquire)) start();
  } catch (const std::exception& e) {
    out.error = e.what();
    co_return out;
  }
  const std::shared_ptr<job> mine = job_;
  job::waiter me{asio::steady_timer(executor_, deadline)};
  const job::seat taken(*mine, me);
  const auto ready = [&mine] { return mine->result->ready.load(std::memory_order_acquire); };
  while (!ready() && !me.aborted && steady::now() < deadline) {
    listen();
    // Whatever ended the wait, the state is looked at again.
    co_await me.bell.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  // The last one out leaves nothing behind that keeps the context from ending.
  if (mine->waiters.size() == 1 && mine->listening) mine->done.cancel();
  if (me.aborted) {
    out.ended = found_addresses::how::aborted;
  } else if (!ready()) {
    out.ended = found_addresses::how::expired;
  } else {
    out.error = mine->result->error;
    for (const std::string& text : mine->result->addresses) {
      boost::system::error_code bad;
      const auto address = asio::ip::make_address(text, bad);
      const bool known =
          std::find(out.addresses.begin(), out.addresses.end(), address) != out.addresses.end();
      if (!bad && !known) out.addresses.push_back(address);
    }
    if (!out.addresses.empty()) out.ended = found_addresses::how::found;
    if (out.addresses.empty() && out.error.empty()) out.error = "the name has no address";
  }
  co_return out;
}

void name_lookup::abort() {
  if (!job_) return;
  for (job::waiter* w : job_->waiters) w->aborted = true;
  job_->wake_all();
}

}  // namespace sluice::provider
