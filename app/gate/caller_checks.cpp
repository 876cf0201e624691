#include "app/gate/caller_checks.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>

namespace sluice::app {
namespace {

constexpr std::string_view bearer = "bearer ";
constexpr std::string_view basic = "basic ";
constexpr std::size_t most_coded = 8192;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string_view credentials(std::string_view authorization, std::string_view scheme) {
  if (authorization.size() <= scheme.size()) return {};
  if (!std::equal(scheme.begin(), scheme.end(), authorization.begin(),
                  [](char a, char b) { return a == lower(b); }))
    return {};
  return authorization.substr(scheme.size());
}

// The password of RFC 7617, whatever the user's name; empty when there is none.
std::string password_of(std::string_view authorization) {
  std::string_view coded = credentials(authorization, basic);
  if (coded.size() % 4 != 0 || coded.size() > most_coded) return {};
  std::string plain(coded.size() / 4 * 3, '\0');
  const int n = EVP_DecodeBlock(
      reinterpret_cast<unsigned char*>(plain.data()),        // NOLINT(*-reinterpret-cast)
      reinterpret_cast<const unsigned char*>(coded.data()),  // NOLINT(*-reinterpret-cast)
      static_cast<int>(coded.size()));
  if (n < 0) return {};
  // OpenSSL counts the padding as bytes.
  while (coded.ends_with('=') && !plain.empty()) {
    plain.pop_back();
    coded.remove_suffix(1);
  }
  const auto colon = plain.find(':');
  return colon == std::string::npos ? std::string() : plain.substr(colon + 1);
}

}  // namespace

std::string host_of(std::string_view field) {
  std::string_view host = field;
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    host = end == std::string_view::npos ? std::string_view() : host.substr(1, end - 1);
  } else if (const auto colon = host.rfind(':'); colon != std::string_view::npos) {
    host = host.substr(0, colon);
  }
  std::string result(host);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

// The length of a secret may be told: it is none.
bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::optional<turned_away> check_caller(const caller& who, const caller_rules& rules) {
  if (who.from_a_page)
    return turned_away{403, "origin_refused", "the gate does not answer pages of other origins"};
  if (!who.one_host ||
      std::find(rules.hosts.begin(), rules.hosts.end(), host_of(who.host)) == rules.hosts.end())
    return turned_away{421, "unknown_host",
                       "the gate is not known by this name; start it with --allow-host NAME"};
  if (rules.token.empty() || who.target == "/healthz") return std::nullopt;
  if (same_secret(who.token, rules.token)) return std::nullopt;
  // Where Authorization may hold the provider's key, it is none of ours.
  const bool ours = !who.target.starts_with("/v1/chat/");
  if (ours && same_secret(credentials(who.authorization, bearer), rules.token)) return std::nullopt;
  if (who.target == page_target && same_secret(password_of(who.authorization), rules.token))
    return std::nullopt;
  return turned_away{401, "token_refused", "the gate's token is missing or wrong"};
}

}  // namespace sluice::app
