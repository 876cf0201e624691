#include "provider/proxy.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <boost/url/pct_string_view.hpp>
#include <charconv>
#include <stdexcept>
#include <vector>

#include "provider/text.hpp"

namespace sluice::provider {
namespace {

namespace ip = boost::asio::ip;

// As curl has it, for a proxy that is named without a port.
constexpr std::uint16_t usual_port = 1080;

[[noreturn]] void refuse(const std::string& source, const std::string& cause) {
  throw std::invalid_argument(
      source + " " + cause + "; say http://HOST:PORT, or add the endpoint's " + "host to NO_PROXY");
}

std::string base64(std::string_view text) {
  std::string out((text.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

std::string percent_decoded(std::string_view text, const std::string& source) {
  const auto checked = boost::urls::make_pct_string_view(text);
  if (checked.has_error()) refuse(source, "has credentials with a '%' that encodes nothing");
  std::string out = checked->decode();
  const bool control = std::ranges::any_of(
      out, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (control) refuse(source, "has credentials with a control character");
  return out;
}

bool plain_host(std::string_view host) {
  return !host.empty() && host.size() < 255 && std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
  });
}

std::uint16_t port_of(std::string_view text, const std::string& source) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0)
    refuse(source, "has no valid port");
  return port;
}

void read_credentials(std::string_view text, proxy& into) {
  const auto colon = text.find(':');
  const std::string user = percent_decoded(text.substr(0, colon), into.source);
  // The first colon ends the name (RFC 7617, section 2).
  if (user.find(':') != std::string::npos) refuse(into.source, "has a user name with a colon");
  if (colon != std::string_view::npos)
    into.password = percent_decoded(text.substr(colon + 1), into.source);
  into.authorization = "Basic " + base64(user + ':' + into.password);
}

proxy parse_proxy(std::string_view text, std::string source) {
  proxy out;
  out.source = std::move(source);
  if (const auto scheme = text.find("://"); scheme != std::string_view::npos) {
    if (!equal_ignoring_case(text.substr(0, scheme), "http"))
      refuse(out.source, "names a proxy of a kind that is not spoken here");
    text.remove_prefix(scheme + 3);
  }
  // Up to the last one, for a password with a slash or an @ that is not encoded.
  if (const auto at = text.rfind('@'); at != std::string_view::npos) {
    read_credentials(text.substr(0, at), out);
    text.remove_prefix(at + 1);
  }
  text = text.substr(0, text.find_first_of("/?#"));
  std::string_view port;
  const auto bracket = text.rfind(']');
  const auto colon = text.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    port = text.substr(colon + 1);
    text = text.substr(0, colon);
  }
  out.host = lower_case(text);
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']') {
    boost::system::error_code error;
    out.host = ip::make_address_v6(out.host.substr(1, out.host.size() - 2), error).to_string();
    if (error) refuse(out.source, "has an IPv6 address that cannot be read");
  } else if (!plain_host(out.host)) {
    refuse(out.source, "names no host that can exist");
  }
  out.port = port.empty() ? usual_port : port_of(port, out.source);
  return out;
}

bool in_network(std::string_view block, const ip::address& address) {
  boost::system::error_code error;
  if (address.is_v4()) {
    const auto network = ip::make_network_v4(std::string(block), error);
    if (error) return false;
    const auto mask = network.netmask().to_uint();
    return (network.address().to_uint() & mask) == (address.to_v4().to_uint() & mask);
  }
  const auto network = ip::make_network_v6(std::string(block), error);
  if (error) return false;
  const ip::network_v6 own(address.to_v6(), network.prefix_length());
  return own.canonical() == network.canonical();
}

// One entry of NO_PROXY, in lower case.
bool names(std::string_view entry, std::string_view host, std::uint16_t port) {
  if (entry == "*") return true;
  boost::system::error_code no_address;
  const ip::address address = ip::make_address(std::string(host), no_address);
  if (!no_address && entry.find('/') != std::string_view::npos) return in_network(entry, address);
  // A port: after the bracket of an IPv6 address, or after the only colon.
  const auto bracket = entry.rfind(']');
  const auto colon = entry.rfind(':');
  const bool has_port =
      colon != std::string_view::npos &&
      (bracket != std::string_view::npos ? colon > bracket : entry.find(':') == colon);
  if (has_port) {
    if (entry.substr(colon + 1) != std::to_string(port)) return false;
    entry = entry.substr(0, colon);
  }
  if (entry.size() > 2 && entry.front() == '[' && entry.back() == ']')
    entry = entry.substr(1, entry.size() - 2);
  if (!no_address) {
    boost::system::error_code error;
    return ip::make_address(std::string(entry), error) == address && !error;
  }
  if (entry.starts_with("*.")) entry.remove_prefix(1);
  if (entry.starts_with('.')) entry.remove_prefix(1);
  if (entry.ends_with('.')) entry.remove_suffix(1);
  if (host.ends_with('.')) host.remove_suffix(1);
  if (entry.empty() || !host.ends_with(entry)) return false;
  return host.size() == entry.size() || host[host.size() - entry.size() - 1] == '.';
}

struct found {
  std::string name;
  std::string value;
};

// Lower case first, as curl does. A variable that is set and empty means no proxy.
std::optional<found> first_set(std::initializer_list<const char*> variables, const variable& get) {
  for (const char* name : variables)
    if (const auto value = get(name)) return found{name, *value};
  return std::nullopt;
}

}  // namespace

bool proxy::address() const {
  boost::system::error_code error;
  ip::make_address(host, error);
  return !error;
}

std::string proxy::host_and_port() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? '[' + host + ']' : host) + ':' + std::to_string(port);
}

bool named_by_no_proxy(std::string_view list, std::string_view host, std::uint16_t port) {
  const std::string lower = lower_case(list);
  constexpr std::string_view between = ", \t";
  for (std::size_t from = lower.find_first_not_of(between); from != std::string::npos;) {
    const std::size_t end = std::min(lower.find_first_of(between, from), lower.size());
    if (names(std::string_view(lower).substr(from, end - from), host, port)) return true;
    from = lower.find_first_not_of(between, end);
  }
  return false;
}

std::optional<proxy> proxy_for(const base_url& url, std::string_view wanted, const variable& get) {
  if (wanted == "none") return std::nullopt;
  if (!wanted.empty()) return parse_proxy(wanted, "--proxy");
  if (url.loopback()) return std::nullopt;
  auto named = url.tls ? first_set({"https_proxy", "HTTPS_PROXY"}, get)
                       : first_set({"http_proxy", "HTTP_PROXY"}, get);
  if (!named) named = first_set({"all_proxy", "ALL_PROXY"}, get);
  if (!named || blank(named->value)) return std::nullopt;
  const auto direct = first_set({"no_proxy", "NO_PROXY"}, get);
  if (direct && named_by_no_proxy(direct->value, url.host, url.port)) return std::nullopt;
  std::string_view text = named->value;
  while (!text.empty() && blank(text.substr(0, 1))) text.remove_prefix(1);
  while (!text.empty() && blank(text.substr(text.size() - 1))) text.remove_suffix(1);
  return parse_proxy(text, named->name);
}

}  // namespace sluice::provider
