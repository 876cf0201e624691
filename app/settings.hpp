// What the program was asked to do. Every option is a flag, a config-file key and a SLUICE_
// variable, from the one table in settings.cpp; flag over variable over file over default.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "pipeline/admission/limit.hpp"
#include "pipeline/admission/ring.hpp"
#include "pipeline/answers/difference.hpp"

namespace sluice::app {

/// A mistake in how the program was called or configured; carries the exit code.
class settings_error : public std::runtime_error {
 public:
  settings_error(int code, const std::string& text) : std::runtime_error(text), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

struct settings {
  std::string endpoint;
  std::string model;
  std::string api_key_file;
  std::vector<pipeline::limit> limits{pipeline::limit{}};
  bool limit_given = false;
  pipeline::pace pace = pipeline::pace::smooth;
  unsigned concurrency = 8;
  std::string store = "sluice.db";
  std::string budget;  ///< file of a shared budget; empty: alone with the limit
  std::string gate;    ///< URL of a gate that holds the budget
  std::string gate_token_file;
  bool priority = false;
  duration admission_timeout = std::chrono::seconds(90);
  duration timeout = std::chrono::seconds(120);
  duration idle_timeout = std::chrono::seconds(60);
  duration connect_timeout = std::chrono::seconds(10);
  duration max_wait = std::chrono::minutes(15);
  duration max_outage = std::chrono::minutes(15);
  duration grace = std::chrono::seconds(8);
  bool again = false;
  bool fake = false;
  bool json = false;
  bool quiet = false;
  bool keep_bodies = false;
  std::string record;  ///< fixture file that answers are added to; empty: none
  std::string expect;  ///< fixture file that answers are compared with; empty: none
  pipeline::comparison compare = pipeline::comparison::exact;
  std::string ca_file;
  std::string client_cert;
  std::string client_key;
  std::string proxy;        ///< a URL, "none", or empty: as the variables say
  std::string auth;         ///< "bearer", "api-key", or empty: as the host wants it
  std::string api_version;  ///< Azure's
  std::optional<std::uint64_t> seed;
  std::string log_level = "info";
  bool log_level_given = false;
  std::string system_prompt;
  std::string prompt = "{text}";
  std::optional<std::int64_t> max_tokens;
  std::optional<double> temperature;
  std::string extra_json;
  std::size_t max_response = std::size_t{2} << 20U;
};

/// One option: its name without dashes, its help, and how its text sets a field. `set` throws
/// std::invalid_argument with cause and remedy.
struct option {
  const char* name;
  const char* help;
  bool flag;
  bool repeats;
  bool of_the_run;  ///< kept with the run, and taken up again by rerun
  void (*set)(settings&, const std::string& text);
};

/// The one definition of all options that sending commands share.
std::span<const option> options();

/// Texts by option name, from one source.
using option_texts = std::map<std::string, std::vector<std::string>>;

/// Reads a config file (TOML as CLI11 reads it). Throws settings_error 78 for an unknown key.
option_texts read_config_file(const std::string& path);
/// Reads SLUICE_... variables.
option_texts read_environment();
/// Sets fields; `where` names the source in errors, `code` is their exit code.
void apply(settings& to, const option_texts& texts, const std::string& where, int code);

/// A secret's file, mode 0600 or stricter, without white space at its end. `what` names it in
/// errors, which never hold the secret. Throws settings_error 78.
std::string read_secret(const std::string& path, const std::string& what);

/// The gate's token: from the file, else SLUICE_GATE_TOKEN; empty when there is none.
std::string load_gate_token(const settings& s);

/// The key: from the file (mode 0600 or stricter), else OPENAI_API_KEY; empty when there is none.
/// Throws settings_error 78; the message never holds the key.
std::string load_api_key(const settings& s);

/// The settings of a run that rerun needs, as JSON; never the key.
std::string settings_to_json(const settings& s);
/// The other way round, as texts.
option_texts settings_from_json(const std::string& json);

}  // namespace sluice::app
