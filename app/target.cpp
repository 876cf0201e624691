#include "app/target.hpp"

#include <cstdlib>

#include "provider/azure.hpp"
#include "retry/table.hpp"

namespace sluice::app {
namespace {

using namespace std::chrono_literals;

constexpr int configuration = retry::exit_code::configuration;

// Ten per six seconds, and one call refused on purpose: a recovery is seen in half a minute.
constexpr unsigned fake_refuses = 3;

std::optional<std::string> from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void start_fake(target& t) {
  fixtures::fake_options options;
  options.latency_min = 100ms;
  options.latency_max = 300ms;
  options.seed = t.with.seed.value_or(1);
  if (!t.with.limit_given) {
    t.with.limits = {pipeline::limit{10, 6s, pipeline::limit_unit::requests}};
    options.refuse_call = fake_refuses;
  }
  options.limit.reset();
  for (const pipeline::limit& l : t.with.limits) {
    if (l.unit != pipeline::limit_unit::requests || options.limit) continue;
    fixtures::server_limit same;
    same.calls = static_cast<std::size_t>(l.amount);
    same.window = l.window;
    options.limit = same;
  }
  t.fake = std::make_unique<fixtures::fake_endpoint>(options);
  if (t.with.model.empty()) t.with.model = "fake-model";
  t.url = provider::parse_base_url(t.fake->url());
  // Its port differs from run to run, and is no reason to analyse anything anew.
  t.origin = "fake";
  t.display = "fake";
}

}  // namespace

target make_target(settings s) {
  target t;
  t.with = std::move(s);
  if (t.with.fake) {
    start_fake(t);
    return t;
  }
  if (t.with.endpoint.empty())
    if (const char* named = std::getenv("OPENAI_BASE_URL")) t.with.endpoint = named;
  if (t.with.endpoint.empty())
    throw settings_error(configuration,
                         "no endpoint; give --endpoint URL or set OPENAI_BASE_URL (or try --fake)");
  try {
    t.url = provider::parse_base_url(t.with.endpoint);
  } catch (const std::invalid_argument& e) {
    throw settings_error(configuration, std::string("--endpoint: ") + e.what());
  }
  if (t.with.model.empty())
    throw settings_error(configuration, "no model; give --model NAME or set SLUICE_MODEL");
  const bool azure = provider::is_azure(t.url);
  try {
    if (azure || !t.with.api_version.empty())
      t.url = provider::azure_url(t.url, t.with.model, t.with.api_version);
    t.via = provider::proxy_for(t.url, t.with.proxy, from_environment);
  } catch (const std::invalid_argument& e) {
    throw settings_error(configuration, e.what());
  }
  if (t.with.auth.empty() ? azure : t.with.auth == "api-key")
    t.key_goes = provider::key_header::api_key;
  t.key = load_api_key(t.with);
  if (t.key.empty() && !t.url.loopback() && t.with.client_cert.empty())
    throw settings_error(configuration, "no key for " + t.url.origin +
                                            "; set OPENAI_API_KEY or give --api-key-file FILE");
  if (!t.key.empty() && t.with.endpoint.find(t.key) != std::string::npos)
    throw settings_error(configuration,
                         "--endpoint holds the key; take it out, OPENAI_API_KEY is enough");
  t.origin = t.url.origin;
  t.display = t.url.display;
  return t;
}

provider::request_template make_template(const settings& s) {
  provider::request_options o;
  o.model = s.model;
  o.system_prompt = s.system_prompt;
  o.prompt = s.prompt;
  o.max_tokens = s.max_tokens;
  o.temperature = s.temperature;
  o.extra_json = s.extra_json;
  try {
    return provider::request_template(std::move(o));
  } catch (const std::invalid_argument& e) {
    throw settings_error(configuration, e.what());
  }
}

}  // namespace sluice::app
