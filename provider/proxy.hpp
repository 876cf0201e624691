// Which proxy, if any, stands between here and the endpoint: from the variables that curl and
// others read, or as the user says.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "provider/base_url.hpp"

namespace sluice::provider {

/// An HTTP proxy. A plain endpoint is asked for through it, a tunnel (CONNECT) leads to one with
/// TLS: then it sees neither the key nor a document.
struct proxy {
  std::string host;  ///< lower case; an IPv6 literal has no brackets
  std::uint16_t port = 0;
  std::string authorization;  ///< value of Proxy-Authorization; empty: no credentials. A secret
  std::string password;       ///< a secret, kept to be removed from what the proxy says
  std::string source;         ///< what named it, for people: "HTTPS_PROXY", "--proxy"

  bool address() const;
  /// host:port, without credentials.
  std::string host_and_port() const;
};

/// Reads one variable; nothing when it is not set.
using variable = std::function<std::optional<std::string>(const char* name)>;

/// The proxy for this endpoint. `wanted` is the user's own word: a URL, which then holds for any
/// endpoint; "none"; or empty, and then the variables decide: https_proxy or http_proxy by the
/// endpoint's scheme, else all_proxy, each in lower case before upper case; no_proxy names hosts
/// that are reached directly (suffixes, addresses, CIDR blocks, each with a port or without, or
/// "*"). A loopback endpoint is proxied on the user's own word only.
/// Throws std::invalid_argument naming source, cause and remedy; credentials are never repeated.
std::optional<proxy> proxy_for(const base_url& url, std::string_view wanted, const variable& get);

/// True when `list`, as in NO_PROXY, names this host and port.
bool named_by_no_proxy(std::string_view list, std::string_view host, std::uint16_t port);

}  // namespace sluice::provider
