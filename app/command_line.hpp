// What the command line says: which command, with which options. Reads flags, variables and the
// config file; decides nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "app/budget_command.hpp"
#include "app/settings.hpp"
#include "fixtures/fake_endpoint.hpp"

namespace sluice::app {

/// `sluice run DOCUMENT...`
struct run_command {
  settings with;
  std::vector<std::string> inputs;
};

/// `sluice rerun [RUN] [--failed | --ids a,b | --ids-from FILE]`. What the run it repeats was asked
/// for stands between `base` and `flags`, and is not known yet.
struct rerun_command {
  settings base;       ///< from the defaults, the config file and variables
  option_texts flags;  ///< from the command line
  std::optional<std::string> run;
  bool failed_only = false;
  std::optional<std::vector<std::string>> ids;
};

/// `sluice status [RUN] [--json]`
struct status_command {
  settings with;
  std::optional<std::string> run;
  std::optional<duration> since;  ///< before now: the runs of that time, and advice
};

/// `sluice results [RUN] [--format jsonl] [-o FILE]`
struct results_command {
  settings with;
  std::optional<std::string> run;
  std::string output;  ///< empty: standard output
};

/// `sluice fake-endpoint ...`
struct fake_command {
  fixtures::fake_options with;
};

/// Nothing to do but to say this and end: help, or the version.
struct said {
  std::string text;
};

using command = std::variant<said, run_command, rerun_command, status_command, results_command,
                             fake_command, budget_init_command, budget_show_command>;

/// Throws settings_error: 64 for what is wrong with the call itself, 65 for a file of IDs that
/// cannot be read, 78 for the config file and variables.
command parse_command_line(int argc, const char* const* argv);

}  // namespace sluice::app
