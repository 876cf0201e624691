// `run` and `rerun`: wires endpoint, store, source and batch together, and turns what comes of it
// into an exit code.
#pragma once

#include "app/command_line.hpp"

namespace sluice::app {

/// Analyses a batch. Returns the exit code; throws settings_error, pipeline::input_failure or
/// pipeline::store_error for what is wrong before the first call.
int run(const run_command& what);

/// Takes documents up again.
int rerun(const rerun_command& what);

}  // namespace sluice::app
