// `status` and `results`: what the store says.
#pragma once

#include "app/command_line.hpp"

namespace sluice::app {

/// Both return the exit code and throw pipeline::store_error or settings_error.
int status(const status_command& what);
int results(const results_command& what);

}  // namespace sluice::app
