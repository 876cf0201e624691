// Host names to addresses, bounded. getaddrinfo blocks for as long as resolv.conf says and cannot
// be cancelled, so it runs on a thread of its own that nobody has to wait for.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "provider/http/watchdog.hpp"

namespace sluice::provider {

/// What a lookup found: addresses in the order to try them, or why there are none.
struct found_addresses {
  enum class how { found, failed, expired, aborted };
  how ended = how::failed;
  std::vector<asio::ip::address> addresses;
  std::string error;

  found_addresses() = default;
};

/// Blocks and looks a name up: addresses as text, or throws std::runtime_error saying why not.
using blocking_lookup = std::function<std::vector<std::string>(const std::string& host)>;

/// Looks one host up. Those who ask while a lookup is under way share its result; it is not kept.
class name_lookup {
 public:
  /// An empty `by` is the system's (getaddrinfo).
  name_lookup(asio::any_io_executor executor, std::string host, blocking_lookup by);
  ~name_lookup();

  /// Ends at `deadline` at the latest, even when the system does not answer.
  asio::awaitable<found_addresses> find(steady::time_point deadline);

  /// Everybody waiting returns at once.
  void abort();

 private:
  struct job;
  void start();
  void listen();

  asio::any_io_executor executor_;
  std::string host_;
  blocking_lookup by_;
  std::shared_ptr<job> job_;
};

}  // namespace sluice::provider
