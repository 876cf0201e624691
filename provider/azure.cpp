#include "provider/azure.hpp"

#include <algorithm>
#include <boost/url/encode.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>
#include <stdexcept>

namespace sluice::provider {
namespace {

constexpr std::string_view hosts[] = {
    ".openai.azure.com",      ".openai.azure.us",
    ".openai.azure.cn",       ".cognitiveservices.azure.com",
    ".services.ai.azure.com",
};
constexpr std::string_view call_path = "/chat/completions";
// The last one that is generally available and takes chat completions of every model.
constexpr std::string_view usual_version = "2024-10-21";

bool has_version(std::string_view query) {
  for (std::size_t from = 0; from < query.size();) {
    const std::size_t end = std::min(query.find('&', from), query.size());
    if (query.substr(from, end - from).starts_with("api-version=")) return true;
    from = end + 1;
  }
  return false;
}

}  // namespace

bool is_azure(const base_url& url) {
  return std::ranges::any_of(hosts, [&](std::string_view h) { return url.host.ends_with(h); });
}

base_url azure_url(const base_url& url, std::string_view model, std::string_view version) {
  const bool fit = std::ranges::all_of(
      version, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-'; });
  if (!fit)
    throw std::invalid_argument("--api-version '" + std::string(version.substr(0, 40)) +
                                "' is none; say for example " + std::string(usual_version));
  const auto mark = url.target.find('?');
  std::string path = url.target.substr(0, mark);
  std::string query = mark == std::string::npos ? "" : url.target.substr(mark + 1);
  const std::string base = path.substr(0, path.size() - call_path.size());
  if (is_azure(url) && (base.empty() || base == "/openai")) {
    path = "/openai/deployments/" +
           boost::urls::encode(std::string(model), boost::urls::unreserved_chars) +
           std::string(call_path);
  }
  const bool deployment = path.find("/deployments/") != std::string::npos;
  if ((deployment || !version.empty()) && !has_version(query)) {
    if (!query.empty()) query += '&';
    query += "api-version=" + std::string(version.empty() ? usual_version : version);
  }
  return parse_base_url(url.origin + path + (query.empty() ? "" : '?' + query));
}

}  // namespace sluice::provider
