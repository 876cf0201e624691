#include "app/settings.hpp"

#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "provider/base_url.hpp"
#include "retry/table.hpp"

namespace sluice::app {
namespace {

constexpr int configuration = retry::exit_code::configuration;

std::int64_t whole(const std::string& text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < least || value > most)
    throw std::invalid_argument("'" + text + "' is not a whole number between " +
                                std::to_string(least) + " and " + std::to_string(most));
  return value;
}

double decimal(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end)
    throw std::invalid_argument("'" + text + "' is not a number");
  return value;
}

bool yes(const std::string& text) {
  if (text == "true" || text == "1" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "0" || text == "no" || text == "off") return false;
  throw std::invalid_argument("'" + text + "' is neither true nor false");
}

void set_limit(settings& s, const std::string& text) {
  if (!s.limit_given) s.limits.clear();
  s.limit_given = true;
  if (text == "none")
    s.limits.clear();
  else
    s.limits.push_back(pipeline::parse_limit(text));
}

void set_pace(settings& s, const std::string& text) {
  if (text == "smooth")
    s.pace = pipeline::pace::smooth;
  else if (text == "burst")
    s.pace = pipeline::pace::burst;
  else
    throw std::invalid_argument("'" + text + "' is no pace; say smooth or burst");
}

void set_auth(settings& s, const std::string& text) {
  if (text != "bearer" && text != "api-key")
    throw std::invalid_argument("'" + text + "' is no way to send a key; say bearer or api-key");
  s.auth = text;
}

constexpr std::array comparisons{
    std::pair{std::string_view("exact"), pipeline::comparison::exact},
    std::pair{std::string_view("whitespace"), pipeline::comparison::whitespace},
    std::pair{std::string_view("json"), pipeline::comparison::json},
};

void set_compare(settings& s, const std::string& text) {
  for (const auto& [name, how] : comparisons) {
    if (text != name) continue;
    s.compare = how;
    return;
  }
  throw std::invalid_argument("'" + text + "' is no comparison; say exact, whitespace or json");
}

std::string comparison_name(pipeline::comparison how) {
  for (const auto& [name, one] : comparisons)
    if (one == how) return std::string(name);
  return "exact";
}

void set_log_level(settings& s, const std::string& text) {
  constexpr std::array known{"debug", "info", "warn", "error", "off"};
  if (std::find(known.begin(), known.end(), text) == known.end())
    throw std::invalid_argument("'" + text + "' is no level; say debug, info, warn, error or off");
  s.log_level = text;
  s.log_level_given = true;
}

void set_extra(settings& s, const std::string& text) {
  const auto parsed = nlohmann::json::parse(text, nullptr, false);
  if (!parsed.is_object()) throw std::invalid_argument("is not a JSON object");
  s.extra_json = text;
}

duration time_of(const std::string& text) {
  return pipeline::parse_duration_option(text);
}

// For what cannot be done in no time at all.
duration some_time_of(const std::string& text) {
  const duration time = time_of(text);
  if (time <= duration::zero())
    throw std::invalid_argument("'" + text + "' leaves no time at all; say for example 60s");
  return time;
}

// clang-format off
constexpr option table[] = {
    // name             help                                                                     flag   repeats run    set
    {"endpoint",        "Base URL of the OpenAI-compatible API (else OPENAI_BASE_URL)",           false, false, true,  [](settings& s, const std::string& t) { s.endpoint = t; }},
    {"model",           "Model name",                                                             false, false, true,  [](settings& s, const std::string& t) { s.model = t; }},
    {"api-key-file",    "File with the key, mode 0600 (else OPENAI_API_KEY)",                     false, false, false, [](settings& s, const std::string& t) { s.api_key_file = t; }},
    {"limit",           "Rate limit, e.g. 10/60s, 200000tok/60s, 1000/1d or none; repeats",       false, true,  false, set_limit},
    {"pace",            "smooth (evenly spread) or burst (as early as the window allows)",        false, false, false, set_pace},
    {"concurrency",     "Calls queueing for a turn or under way at once",                         false, false, false, [](settings& s, const std::string& t) { s.concurrency = static_cast<unsigned>(whole(t, 1, 10000)); }},
    {"store",           "The SQLite file that outcomes are recorded in",                          false, false, false, [](settings& s, const std::string& t) { s.store = t; }},
    {"budget",          "File of the rate limit's budget that several jobs share",                false, false, false, [](settings& s, const std::string& t) { s.budget = t; }},
    {"gate",            "URL of the gate that holds the rate limit's budget for several jobs",    false, false, false, [](settings& s, const std::string& t) { s.gate = t; }},
    {"gate-token-file", "File with the gate's token, mode 0600 (else SLUICE_GATE_TOKEN)",         false, false, false, [](settings& s, const std::string& t) { s.gate_token_file = t; }},
    {"priority",        "Go ahead of the jobs without it at the gate, three turns of four",       true,  false, false, [](settings& s, const std::string& t) { s.priority = yes(t); }},
    {"admission-timeout", "Longest wait for a turn on a shared budget before the run ends (75)",  false, false, false, [](settings& s, const std::string& t) { s.admission_timeout = time_of(t); }},
    {"timeout",         "Longest time for one call, from sending to its last byte",               false, false, false, [](settings& s, const std::string& t) { s.timeout = some_time_of(t); }},
    {"idle-timeout",    "Longest silence within one call",                                        false, false, false, [](settings& s, const std::string& t) { s.idle_timeout = some_time_of(t); }},
    {"connect-timeout", "Longest time for one connection to be made",                             false, false, false, [](settings& s, const std::string& t) { s.connect_timeout = some_time_of(t); }},
    {"max-wait",        "Longest wait that the endpoint may ask for before the run ends (75)",    false, false, false, [](settings& s, const std::string& t) { s.max_wait = time_of(t); }},
    {"max-outage",      "Longest outage that is waited out before the run ends (69)",             false, false, false, [](settings& s, const std::string& t) { s.max_outage = time_of(t); }},
    {"grace",           "Time for calls under way to end after an interrupt",                     false, false, false, [](settings& s, const std::string& t) { s.grace = time_of(t); }},
    {"again",           "Analyse anew what an earlier run has finished with",                     true,  false, false, [](settings& s, const std::string& t) { s.again = yes(t); }},
    {"fake",            "Use a fake endpoint inside the process",                                 true,  false, true,  [](settings& s, const std::string& t) { s.fake = yes(t); }},
    {"ca-file",         "Certificate authority to trust besides the system's own (PEM)",          false, false, true,  [](settings& s, const std::string& t) { s.ca_file = t; }},
    {"client-cert",     "The client's own certificate with its chain (PEM)",                      false, false, true,  [](settings& s, const std::string& t) { s.client_cert = t; }},
    {"client-key",      "Key of the client certificate (PEM), unless it is in the same file",     false, false, true,  [](settings& s, const std::string& t) { s.client_key = t; }},
    {"proxy",           "http://HOST:PORT, or none (else HTTPS_PROXY, HTTP_PROXY and NO_PROXY)",  false, false, false, [](settings& s, const std::string& t) { s.proxy = t; }},
    {"auth",            "How the key is sent: bearer or api-key (the default on Azure's hosts)",  false, false, true,  set_auth},
    {"api-version",     "Azure's api-version, unless the endpoint's URL has one",                 false, false, true,  [](settings& s, const std::string& t) { s.api_version = t; }},
    {"system-prompt",   "System prompt",                                                          false, false, true,  [](settings& s, const std::string& t) { s.system_prompt = t; }},
    {"prompt",          "User prompt; {text} and {id} stand for the document's",                  false, false, true,  [](settings& s, const std::string& t) { s.prompt = t; }},
    {"max-tokens",      "Longest answer, in tokens",                                              false, false, true,  [](settings& s, const std::string& t) { s.max_tokens = whole(t, 1, 100'000'000); }},
    {"temperature",     "Sampling temperature",                                                   false, false, true,  [](settings& s, const std::string& t) { s.temperature = decimal(t); }},
    {"extra-json",      "JSON object with further fields of the request",                         false, false, true,  set_extra},
    {"max-response",    "Largest answer accepted, in bytes",                                      false, false, false, [](settings& s, const std::string& t) { s.max_response = static_cast<std::size_t>(whole(t, 1024, 1LL << 30)); }},
    {"keep-bodies",     "Keep raw answers in the store, the key removed",                         true,  false, false, [](settings& s, const std::string& t) { s.keep_bodies = yes(t); }},
    {"record",          "Add what is asked and answered to this file of fixtures",                 false, false, false, [](settings& s, const std::string& t) { s.record = t; }},
    {"expect",          "Compare answers with those of this file of fixtures (4 if they differ)", false, false, true,  [](settings& s, const std::string& t) { s.expect = t; }},
    {"compare",         "exact, whitespace or json",                                              false, false, true,  set_compare},
    {"seed",            "Seed of all randomness, for runs that can be repeated",                  false, false, false, [](settings& s, const std::string& t) { s.seed = static_cast<std::uint64_t>(whole(t, 0, INT64_MAX)); }},
    {"log-level",       "debug, info, warn, error or off",                                        false, false, false, set_log_level},
    {"json",            "Print the run's summary as one JSON object on standard output",          true,  false, false, [](settings& s, const std::string& t) { s.json = yes(t); }},
    {"quiet",           "Say nothing when all is well, for cron",                                 true,  false, false, [](settings& s, const std::string& t) { s.quiet = yes(t); }},
};
// clang-format on

std::string variable_name(std::string_view option_name) {
  std::string result = "SLUICE_";
  for (const char c : option_name)
    result += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

const option* find_option(std::string_view name) {
  const auto it = std::find_if(std::begin(table), std::end(table),
                               [&](const option& o) { return name == o.name; });
  return it == std::end(table) ? nullptr : it;
}

std::string checked_secret(std::string secret, const std::string& source) {
  while (!secret.empty() && std::isspace(static_cast<unsigned char>(secret.back())))
    secret.pop_back();
  for (const char c : secret)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      throw settings_error(
          configuration, source + ": the key holds a control character; write it anew on one line");
  return secret;
}

}  // namespace

std::span<const option> options() {
  return table;
}

option_texts read_config_file(const std::string& path) {
  std::ifstream in(path);
  if (!in || std::filesystem::is_directory(path))
    throw settings_error(configuration, "config file " + path +
                                            ": cannot be read; check the path and its permissions");
  option_texts result;
  try {
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(in)) {
      if (item.name == "++" || item.name == "--") continue;
      std::string name = item.name;
      std::replace(name.begin(), name.end(), '_', '-');
      if (!item.parents.empty() || find_option(name) == nullptr)
        throw settings_error(configuration, "config file " + path + ": unknown key '" +
                                                item.fullname() +
                                                "'; `sluice run --help` lists the options, which "
                                                "are the keys");
      result[name] = item.inputs;
    }
  } catch (const CLI::Error& e) {
    throw settings_error(configuration, "config file " + path + ": " + e.what());
  }
  return result;
}

option_texts read_environment() {
  option_texts result;
  for (const option& o : table) {
    const char* text = std::getenv(variable_name(o.name).c_str());
    if (text == nullptr || *text == '\0') continue;
    std::vector<std::string>& values = result[o.name];
    if (!o.repeats) {
      values.emplace_back(text);
      continue;
    }
    std::istringstream words(text);
    for (std::string word; words >> word;) values.push_back(word);
  }
  return result;
}

void apply(settings& to, const option_texts& texts, const std::string& where, int code) {
  for (const auto& [name, values] : texts) {
    const option* o = find_option(name);
    if (o == nullptr) throw settings_error(code, where + ": unknown option '" + name + "'");
    // A later source replaces a whole list, it does not add to it.
    if (o->repeats)
      to.limit_given = false;
    else if (values.size() > 1)
      throw settings_error(code, where + ": --" + name + " is given " +
                                     std::to_string(values.size()) + " times; say it once");
    for (const std::string& value : values) {
      try {
        o->set(to, value);
      } catch (const std::invalid_argument& e) {
        throw settings_error(code, where + ": --" + name + ": " + e.what());
      }
    }
  }
}

std::string read_secret(const std::string& path, const std::string& what) {
  const std::string source = what + " " + path;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    throw settings_error(configuration, source + ": cannot be read; check the path");
  if ((info.st_mode & 077U) != 0)
    throw settings_error(configuration, source + ": others can read it; run chmod 600 on it");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw settings_error(configuration, source + ": cannot be read; check permissions");
  std::ostringstream text;
  text << in.rdbuf();
  return checked_secret(text.str(), source);
}

std::string load_api_key(const settings& s) {
  if (!s.api_key_file.empty()) return read_secret(s.api_key_file, "key file");
  const char* text = std::getenv("OPENAI_API_KEY");
  return text == nullptr ? std::string() : checked_secret(text, "OPENAI_API_KEY");
}

std::string load_gate_token(const settings& s) {
  if (!s.gate_token_file.empty()) return read_secret(s.gate_token_file, "gate token file");
  const char* text = std::getenv("SLUICE_GATE_TOKEN");
  return text == nullptr ? std::string() : checked_secret(text, "SLUICE_GATE_TOKEN");
}

std::string settings_to_json(const settings& s) {
  // A re-run may start in another folder.
  const auto place = [](const std::string& path) {
    std::error_code ec;
    const auto whole = std::filesystem::absolute(path, ec);
    return path.empty() || ec ? path : whole.string();
  };
  nlohmann::json j;
  j["endpoint"] = provider::kept_url(s.endpoint);
  j["model"] = s.model;
  j["fake"] = s.fake ? "true" : "false";
  j["ca-file"] = place(s.ca_file);
  j["expect"] = place(s.expect);
  j["compare"] = comparison_name(s.compare);
  j["system-prompt"] = s.system_prompt;
  j["prompt"] = s.prompt;
  if (s.max_tokens) j["max-tokens"] = std::to_string(*s.max_tokens);
  if (s.temperature) j["temperature"] = nlohmann::json(*s.temperature).dump();
  if (!s.extra_json.empty()) j["extra-json"] = s.extra_json;
  if (!s.client_cert.empty()) j["client-cert"] = place(s.client_cert);
  if (!s.client_key.empty()) j["client-key"] = place(s.client_key);
  if (!s.auth.empty()) j["auth"] = s.auth;
  if (!s.api_version.empty()) j["api-version"] = s.api_version;
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

option_texts settings_from_json(const std::string& json) {
  option_texts result;
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object()) return result;
  for (const option& o : table) {
    const auto it = parsed.find(o.name);
    if (o.of_the_run && it != parsed.end() && it->is_string())
      result[o.name].push_back(it->get<std::string>());
  }
  return result;
}

}  // namespace sluice::app
