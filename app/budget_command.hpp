// A budget that several jobs share, as the program sees it: `budget init`, `budget show`, and the
// ledger of a run with --budget.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "app/settings.hpp"
#include "pipeline/admission/shared_budget.hpp"

namespace sluice::app {

/// `sluice budget init FILE --limit 10/60s [--max-in-flight N]`
struct budget_init_command {
  std::string file;
  std::vector<std::string> limits;
  std::uint32_t max_in_flight = 0;
};

/// `sluice budget show FILE [--json]`
struct budget_show_command {
  std::string file;
  bool json = false;
};

/// Both return the exit code and throw settings_error or pipeline::store_error.
int budget_init(const budget_init_command& what);
int budget_show(const budget_show_command& what);

/// The ledger of a run with --budget; puts the budget's limits into the settings. Null without one.
std::shared_ptr<pipeline::shared_budget> share_budget(settings& s, const std::string& job,
                                                      std::function<void(const std::string&)> warn);

}  // namespace sluice::app
