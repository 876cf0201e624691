#include "provider/http/connect.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>

#include "provider/http/tunnel.hpp"

namespace sluice::provider {
namespace {

using asio::ip::tcp;
using boost::system::error_code;

bool out_of_descriptors(const error_code& error) {
  return error == boost::system::errc::too_many_files_open ||
         error == boost::system::errc::too_many_files_open_in_system;
}

std::string words_for(const error_code& error) {
  if (out_of_descriptors(error))
    return "too many open files; raise ulimit -n or lower --concurrency";
  return error.message();
}

}  // namespace

std::string seconds_text(duration d) {
  std::array<char, 32> text{};
  const auto whole = std::chrono::round<std::chrono::milliseconds>(d);
  std::snprintf(text.data(), text.size(), "%.10g s", to_seconds(whole));
  return text.data();
}

connector::connector(asio::any_io_executor executor, const base_url& to,
                     const std::optional<proxy>& via, const tls_files& files,
                     blocking_lookup lookup, duration timeout, watchdog& deadlines, line_pool& idle)
    : executor_(executor),
      url_(to),
      via_(via),
      lookup_(executor, via ? via->host : to.host, std::move(lookup)),
      timeout_(timeout),
      deadlines_(deadlines),
      idle_(idle) {
  if (to.tls || files.any()) tls_.emplace(files);
}

// Of a step that the next hop has to do with.
no_line connector::failure(retry::reason why, const char* step, const std::string& cause) const {
  if (!via_) return end_failure(why, step, cause);
  return no_line(why, std::string(step) + " the proxy " + via_->host_and_port() + " (" +
                          via_->source + "): " + cause);
}

no_line connector::end_failure(retry::reason why, const char* step,
                               const std::string& cause) const {
  std::string text = std::string(step) + ' ' + url_.host_and_port();
  if (via_) text += " through the proxy " + via_->host_and_port();
  return no_line(why, text + ": " + cause);
}

asio::awaitable<line_or_reason> connector::open() {
  std::vector<asio::ip::address> addresses;
  if (via_ ? via_->address() : url_.address()) {
    addresses.push_back(asio::ip::make_address(via_ ? via_->host : url_.host));
  } else {
    const found_addresses found = co_await lookup_.find(later(steady::now(), timeout_));
    switch (found.ended) {
      case found_addresses::how::found:
        break;
      case found_addresses::how::aborted:
        co_return failure(retry::reason::interrupted, "look up", "interrupted");
      case found_addresses::how::expired:
        co_return failure(retry::reason::dns_failure, "look up",
                          "no answer within " + seconds_text(timeout_));
      case found_addresses::how::failed:
        co_return failure(retry::reason::dns_failure, "look up", found.error);
    }
    addresses = found.addresses;
  }
  line_or_reason opened = co_await connect(std::move(addresses));
  auto* on = std::get_if<std::unique_ptr<line>>(&opened);
  if (on == nullptr || !url_.tls) co_return opened;
  if (via_) {
    std::optional<no_line> no_tunnel = co_await ask_for_tunnel(**on);
    if (no_tunnel) co_return std::move(*no_tunnel);
  }
  std::optional<no_line> refused = co_await shake_hands(**on);
  if (refused) co_return std::move(*refused);
  co_return opened;
}

error_code connector::open_socket(tcp::socket& socket, const tcp::endpoint& to) {
  error_code error;
  do {
    socket.open(to.protocol(), error);
  } while (out_of_descriptors(error) && idle_.drop_oldest());
  return error;
}

asio::awaitable<line_or_reason> connector::connect(std::vector<asio::ip::address> addresses) {
  auto on = std::make_unique<line>(executor_);
  const steady::time_point start = steady::now();
  const steady::time_point end = later(start, timeout_);
  std::string cause;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const tcp::endpoint to(addresses[i], via_ ? via_->port : url_.port);
    // An address that swallows everything leaves the others their share of the time.
    const steady::time_point now = steady::now();
    const auto share = (end - now) / static_cast<int>(addresses.size() - i);
    watchdog::watch watched(deadlines_, on->socket);
    error_code error = open_socket(on->socket, to);
    if (!error) {
      watched.until(now + share);
      const auto [result] =
          co_await on->socket.async_connect(to, asio::as_tuple(asio::use_awaitable));
      if (watched.aborted() || result == asio::error::operation_aborted)
        if (!watched.expired())
          co_return failure(retry::reason::interrupted, "connect to", "interrupted");
      error = result;
      if (!watched.expired() && !error) {
        on->socket.set_option(tcp::no_delay(true), error);
        on->connecting = steady::now() - start;
        co_return line_or_reason(std::move(on));
      }
    }
    cause = watched.expired() ? "no answer within " + seconds_text(share) : words_for(error);
    on->socket.close(error);
  }
  co_return failure(retry::reason::connect_failure, "connect to", cause);
}

asio::awaitable<std::optional<no_line>> connector::shake_hands(line& on) {
  constexpr const char* step = "TLS handshake with";
  const steady::time_point start = steady::now();
  watchdog::watch watched(deadlines_, on.socket);
  watched.until(later(start, timeout_));
  on.tls.emplace(*tls_, on.socket.native_handle(), url_.host, url_.address());
  while (true) {
    const io_result r = on.tls->handshake();
    if (r.ended == io_result::what::done) {
      on.handshaking = steady::now() - start;
      co_return std::nullopt;
    }
    if (!waits(r.ended)) {
      const tls_refusal why = on.tls->refusal(r);
      co_return end_failure(
          why.lasting ? retry::reason::certificate_refused : retry::reason::tls_failure, step,
          why.cause);
    }
    const auto [error] =
        co_await on.socket.async_wait(awaited(r.ended), asio::as_tuple(asio::use_awaitable));
    if (watched.expired())
      co_return end_failure(retry::reason::tls_failure, step,
                            "no answer within " + seconds_text(timeout_));
    if (watched.aborted() || error)
      co_return end_failure(retry::reason::interrupted, step, "interrupted");
  }
}

// The whole of what a proxy sees of a call with TLS: where to, and its own credentials.
asio::awaitable<std::optional<no_line>> connector::ask_for_tunnel(line& on) {
  constexpr const char* step = "tunnel (CONNECT) by";
  watchdog::watch watched(deadlines_, on.socket);
  watched.until(later(steady::now(), timeout_));
  const std::string to = url_.host_and_port();
  std::string request = "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n";
  if (!via_->authorization.empty())
    request += "Proxy-Authorization: " + via_->authorization + "\r\n";
  request += "User-Agent: sluice\r\n\r\n";
  tunnel_talk talk(std::move(request));
  while (true) {
    const io_result::what wanted = talk.go_on(on);
    if (wanted == io_result::what::done) break;
    const auto [error] =
        co_await on.socket.async_wait(awaited(wanted), asio::as_tuple(asio::use_awaitable));
    if (watched.expired())
      co_return failure(retry::reason::connect_failure, step,
                        "no answer within " + seconds_text(timeout_));
    if (watched.aborted() || error)
      co_return failure(retry::reason::interrupted, step, "interrupted");
  }
  const tunnel_answer said = talk.answer();
  if (said.open) co_return std::nullopt;
  co_return failure(said.why, step, said.cause);
}

}  // namespace sluice::provider
