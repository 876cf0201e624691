// The file of a shared budget. FILE holds the state (budget_state.hpp) and is replaced as a whole;
// FILE.lock stays for ever, carries the lock and names its last holder. All locks are the kernel's
// and end with their holder, however it ends.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "pipeline/admission/shared_budget.hpp"

namespace sluice::pipeline {

/// Opens (and makes, if need be) the lock file beside `path`. Throws budget_misuse on a network
/// file system, storage_failure when it cannot be opened.
std::unique_ptr<budget_medium> open_budget_file(const std::string& path);

/// What a kind of file system (statfs's f_type) is called, if locks on it are not to be relied on.
std::optional<std::string> network_file_system(long type);

/// Makes a budget of which nothing was spent, whatever was there before: for those who know that
/// nothing was sent within the longest window.
void init_budget(const std::string& path, const budget_settings& settings);

/// What a budget looks like from outside.
struct budget_view {
  budget_state state;
  bool of_this_boot = true;  ///< if not, the limit counts as used up at the next look
};

/// Reads a budget without its lock. Throws budget_misuse when there is none, and storage_failure
/// when it cannot be read or used.
budget_view describe_budget(const std::string& path);

}  // namespace sluice::pipeline
