#include "provider/base_url.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <boost/url/parse.hpp>
#include <boost/url/url.hpp>
#include <charconv>
#include <stdexcept>
#include <variant>

namespace sluice::provider {
namespace {

namespace urls = boost::urls;

constexpr std::string_view call_path = "/chat/completions";
constexpr std::size_t longest = 4096;

struct scheme_row {
  std::string_view name;
  bool tls;
  std::uint16_t port;
};
constexpr std::array<scheme_row, 2> schemes{{{"http", false, 80}, {"https", true, 443}}};

bool blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

[[noreturn]] void refuse(std::string_view text, const std::string& cause,
                         const std::string& remedy) {
  throw std::invalid_argument("endpoint '" + safe_url(text) + "' " + cause + "; " + remedy);
}

// What the user most likely meant by an address without a scheme.
std::string with_scheme(std::string_view text) {
  while (!text.empty() && text.front() == '/') text.remove_prefix(1);
  const std::string rest = safe_url(text);
  const std::string_view name = std::string_view(rest).substr(0, rest.find_first_of(":/?"));
  const bool local = name == "localhost" || name.starts_with("127.") || rest.starts_with("[::1]");
  std::string out = (local ? "http://" : "https://") + rest;
  if (rest.find_first_of("/?") == std::string::npos) out += "/v1";
  return out;
}

// Boost.URL says only that something is wrong; people want to know what. Null: nothing seen.
const char* why_unparsable(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80)
      return "holds characters beyond ASCII; write the host in its xn-- form and encode the rest "
             "with %";
    if (c == ' ') return "holds a space; write it as %20";
    if (std::string_view("\"<>\\^`{}|").find(c) != std::string_view::npos)
      return "holds one of \"<>\\^`{}|; check it, or encode that with %";
  }
  return nullptr;
}

// A host and a port as they stand in an authority (RFC 3986, section 3.2). Taken apart here, for
// Boost.URL 1.81 ends a host that begins like an IPv4 address (10.0.0.1.nip.io) after the address.
struct authority {
  std::string host;
  std::uint16_t port = 0;
};

constexpr const char* bad_port = "has no valid port; say a number from 1 to 65535";
constexpr const char* no_host = "names no host; say for example https://api.openai.com/v1";
constexpr const char* bad_brackets =
    "has an IPv6 address that cannot be read; say http://[ADDRESS]:PORT/v1";

// The authority, or what is wrong with it.
std::variant<authority, const char*> read_authority(std::string_view text, std::uint16_t usual) {
  authority out;
  out.port = usual;
  std::string_view host = text;
  std::string_view port;
  const auto bracket = text.rfind(']');
  const auto colon = text.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (host.empty()) return no_host;
  if (host.front() == '[' || host.find(':') != std::string_view::npos) {
    if (host.size() < 4 || host.front() != '[' || host.back() != ']') return bad_brackets;
    in6_addr bytes{};
    std::array<char, INET6_ADDRSTRLEN> shown{};
    if (inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), &bytes) != 1)
      return bad_brackets;
    out.host = inet_ntop(AF_INET6, &bytes, shown.data(), shown.size());
  } else {
    out.host = lower(host);
    const bool plain = std::all_of(out.host.begin(), out.host.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
    });
    if (!plain || host.size() > 254 || host.front() == '.')
      return "has a host name that cannot exist; check its spelling";
  }
  if (port.empty()) return out;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (error != std::errc() || end != port.data() + port.size() || out.port == 0) return bad_port;
  return out;
}

std::string bracketed(const std::string& host) {
  return host.find(':') == std::string::npos ? host : '[' + host + ']';
}

std::string origin_of(const scheme_row& scheme, const std::string& host, std::uint16_t port) {
  return std::string(scheme.name) + "://" + bracketed(host) + ':' + std::to_string(port);
}

const scheme_row* scheme_named(std::string_view name) {
  const std::string wanted = lower(name);
  for (const scheme_row& s : schemes)
    if (s.name == wanted) return &s;
  return nullptr;
}

// As safe_url leaves a query.
bool values_left_out(std::string_view query) {
  const std::string pairs = '&' + std::string(query) + '&';
  return pairs.find("=...&") != std::string::npos || pairs.find("&...&") != std::string::npos;
}

}  // namespace

std::string safe_url(std::string_view text) {
  std::string out(text.substr(0, longest));
  for (char& c : out)
    if (control(c)) c = ' ';
  if (const auto fragment = out.find('#'); fragment != std::string::npos) out.resize(fragment);
  std::string query;
  if (const auto mark = out.find('?'); mark != std::string::npos) {
    query = out.substr(mark + 1);
    out.resize(mark);
  }
  // A password may hold a slash by mistake, so everything up to the last @ goes.
  if (const auto at = out.rfind('@'); at != std::string::npos) {
    const auto slashes = out.find("://");
    const std::size_t from = slashes == std::string::npos || slashes > at ? 0 : slashes + 3;
    out.erase(from, at + 1 - from);
  }
  char mark = '?';
  for (std::size_t from = 0; from < query.size();) {
    const std::size_t end = std::min(query.find('&', from), query.size());
    const std::string_view pair = std::string_view(query).substr(from, end - from);
    const auto equals = pair.find('=');
    out += mark;
    // A parameter without a name may be all secret.
    out += equals == std::string_view::npos ? "..." : std::string(pair.substr(0, equals)) + "=...";
    mark = '&';
    from = end + 1;
  }
  return out;
}

std::string kept_url(std::string_view text) {
  const auto mark = text.find('?');
  if (mark == std::string_view::npos) return std::string(text);
  const std::string query = lower(text.substr(mark + 1));
  const bool version_alone =
      query.starts_with("api-version=") && query.find('&') == std::string::npos;
  return version_alone ? std::string(text) : safe_url(text);
}

base_url parse_base_url(std::string_view given) {
  const std::string_view text = trimmed(given);
  if (text.empty())
    throw std::invalid_argument(
        "no endpoint is given; say --endpoint https://HOST/v1 or set OPENAI_BASE_URL");
  if (text.size() > longest) refuse(text.substr(0, 60), "is too long", "check what was pasted");
  if (std::any_of(text.begin(), text.end(), control))
    refuse(text, "holds a control character", "check it for line breaks and tabs");
  const auto colon = text.find("://");
  if (colon == std::string_view::npos || text.find_first_of("/?#@") < colon)
    refuse(text, "has no scheme", "say " + with_scheme(text));
  const scheme_row* scheme = scheme_named(text.substr(0, colon));
  if (scheme == nullptr)
    refuse(text, "has a scheme that is not spoken here", "say http:// or https://");
  if (text.find('#') != std::string_view::npos)
    refuse(text, "has a fragment (#...)", "leave it out");
  // Found by hand too, for a password with an odd character does not parse.
  const std::string_view before_query = text.substr(0, text.find('?'));
  if (before_query.find('@', colon) != std::string_view::npos)
    refuse(text, "holds a user name or password",
           "leave it out, and give the key with --api-key-file or OPENAI_API_KEY");

  if (before_query.size() < text.size() && values_left_out(text.substr(before_query.size() + 1)))
    refuse(text, "has a query without its values, which are not kept since one may be a key",
           "give --endpoint with all of it");

  const std::size_t begin = colon + 3;
  const std::size_t end = std::min(text.find_first_of("/?", begin), text.size());
  // Path and query are left to Boost.URL, on a host that is known to be good.
  const std::string rest = "http://host" + std::string(text.substr(end));
  const auto parsed = urls::parse_uri(rest);
  if (parsed.has_error() || why_unparsable(text) != nullptr) {
    const char* why = why_unparsable(text);
    throw std::invalid_argument("endpoint '" + safe_url(text) + "' " +
                                (why != nullptr ? why : "is no URL; check its % signs"));
  }
  const auto place = read_authority(text.substr(begin, end - begin), scheme->port);
  if (const auto* why = std::get_if<const char*>(&place))
    throw std::invalid_argument("endpoint '" + safe_url(text) + "' " + *why);

  base_url out;
  out.tls = scheme->tls;
  out.host = std::get<authority>(place).host;
  out.port = std::get<authority>(place).port;
  const urls::url_view u = parsed.value();
  std::string path(u.encoded_path());
  while (!path.empty() && path.back() == '/') path.pop_back();
  if (!path.ends_with(call_path)) path += call_path;
  out.target = path;
  if (u.has_query() && !u.encoded_query().empty())
    out.target += '?' + std::string(u.encoded_query());
  out.origin = origin_of(*scheme, out.host, out.port);
  const std::string shown_port = out.port == scheme->port ? "" : ':' + std::to_string(out.port);
  out.display =
      safe_url(std::string(scheme->name) + "://" + bracketed(out.host) + shown_port + out.target);
  return out;
}

bool base_url::address() const {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

bool base_url::loopback() const {
  if (host == "localhost" || host == "::1") return true;
  in_addr v4{};
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 && (ntohl(v4.s_addr) >> 24U) == 127;
}

std::string base_url::host_field() const {
  const std::uint16_t usual = schemes[tls ? 1 : 0].port;
  return bracketed(host) + (port == usual ? "" : ':' + std::to_string(port));
}

std::string base_url::host_and_port() const {
  return bracketed(host) + ':' + std::to_string(port);
}

std::optional<std::string> base_url::follow(std::string_view location) const {
  std::string_view text = trimmed(location);
  text = text.substr(0, text.find('#'));
  if (text.size() > longest || std::any_of(text.begin(), text.end(), control)) return std::nullopt;
  std::string reference(text);
  const auto slashes = text.find("//");
  const bool whole = slashes != std::string_view::npos && text.find_first_of("/?") == slashes &&
                     (slashes == 0 || text[slashes - 1] == ':');
  if (whole) {
    const std::string_view own = schemes[tls ? 1 : 0].name;
    const scheme_row* scheme = scheme_named(slashes == 0 ? own : text.substr(0, slashes - 1));
    if (scheme == nullptr) return std::nullopt;
    const std::size_t begin = slashes + 2;
    const std::size_t end = std::min(text.find_first_of("/?", begin), text.size());
    const auto place = read_authority(text.substr(begin, end - begin), scheme->port);
    const auto* other = std::get_if<authority>(&place);
    if (other == nullptr || origin_of(*scheme, other->host, other->port) != origin)
      return std::nullopt;
    reference = text.substr(end);
    if (!reference.starts_with('/')) reference.insert(0, 1, '/');
  }
  const std::string base = "http://host" + target;  // the views below look into it
  const auto from = urls::parse_uri(base);
  const auto to = urls::parse_uri_reference(reference);
  urls::url there;
  if (from.has_error() || to.has_error() || to.value().has_scheme() || to.value().has_authority())
    return std::nullopt;
  if (urls::resolve(from.value(), to.value(), there).has_error()) return std::nullopt;
  std::string out(there.encoded_path());
  if (!out.starts_with('/')) out.insert(out.begin(), '/');
  if (there.has_query()) out += '?' + std::string(there.encoded_query());
  return out;
}

}  // namespace sluice::provider
