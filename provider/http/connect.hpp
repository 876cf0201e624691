// Opening a connection: look the name up, try its addresses in turn, ask a proxy for a tunnel,
// shake hands. Each step is bounded, and each failure says in one line what it was.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "provider/base_url.hpp"
#include "provider/http/line.hpp"
#include "provider/http/name_lookup.hpp"
#include "provider/proxy.hpp"
#include "retry/reason.hpp"

namespace sluice::provider {

/// Why there is no connection. Nothing was sent.
struct no_line {
  retry::reason why;
  std::string cause;

  no_line(retry::reason r, std::string text) : why(r), cause(std::move(text)) {}
};

using line_or_reason = std::variant<std::unique_ptr<line>, no_line>;

/// Opens connections to one base URL.
class connector {
 public:
  /// `idle` gives up connections when the process runs out of descriptors. References must outlive
  /// the connector and its coroutines. Throws std::invalid_argument for a bad file.
  connector(asio::any_io_executor executor, const base_url& to, const std::optional<proxy>& via,
            const tls_files& files, blocking_lookup lookup, duration timeout, watchdog& deadlines,
            line_pool& idle);

  asio::awaitable<line_or_reason> open();
  void abort() { lookup_.abort(); }

 private:
  asio::awaitable<line_or_reason> connect(std::vector<asio::ip::address> addresses);
  asio::awaitable<std::optional<no_line>> ask_for_tunnel(line& on);
  asio::awaitable<std::optional<no_line>> shake_hands(line& on);
  boost::system::error_code open_socket(asio::ip::tcp::socket& socket,
                                        const asio::ip::tcp::endpoint& to);
  no_line failure(retry::reason why, const char* step, const std::string& cause) const;
  no_line end_failure(retry::reason why, const char* step, const std::string& cause) const;

  asio::any_io_executor executor_;
  const base_url& url_;
  const std::optional<proxy>& via_;
  std::optional<tls_context> tls_;
  name_lookup lookup_;
  duration timeout_;
  watchdog& deadlines_;
  line_pool& idle_;
};

/// A duration for people: "10 s", "0.05 s".
std::string seconds_text(duration d);

}  // namespace sluice::provider
