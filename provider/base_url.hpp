// The endpoint's address as the user gave it (--endpoint or OPENAI_BASE_URL), checked once at start
// and taken apart into what a connection and a request need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::provider {

/// A base URL with `/chat/completions` added to its path.
struct base_url {
  bool tls = false;
  std::string host;        ///< lower case, percent-decoded; an IPv6 literal has no brackets
  std::uint16_t port = 0;  ///< the scheme's default when the URL names none
  std::string target;      ///< what stands in the request line: path and query
  std::string origin;      ///< scheme://host:port, lower case, the port always named
  std::string display;     ///< the whole URL, safe for logs: the values of its query are left out

  /// True for localhost, 127.0.0.0/8 and ::1: no name service decides where that leads.
  bool loopback() const;
  /// True when the host is an address and not a name: such a host gets no SNI.
  bool address() const;
  /// Value of the Host field (RFC 9110, section 7.2): the port only when it is not the default.
  std::string host_field() const;
  /// host:port, for people.
  std::string host_and_port() const;
  /// The request target that a Location leads to (RFC 9110, section 10.2.2; resolved as RFC 3986,
  /// section 5, says), or nothing when that is another origin or no URL at all.
  std::optional<std::string> follow(std::string_view location) const;
};

/// An address made safe for logs: no user name, no password, no values in the query, no fragment.
std::string safe_url(std::string_view text);
/// An address that may be kept: as it is, unless its query holds more than a version, which may be
/// a key. Then as safe_url says, which is no address to parse.
std::string kept_url(std::string_view text);

/// Parses and checks an address (RFC 3986). White space at the ends is ignored. Throws
/// std::invalid_argument that names the text, what is wrong with it and what to say instead; user
/// names and passwords are never repeated.
base_url parse_base_url(std::string_view text);

}  // namespace sluice::provider
