// The program without main, so that it can be tested in process.
#pragma once

namespace sluice::app {

/// Runs one command and returns its exit code. Whatever goes wrong ends as one line on standard
/// error that names the thing, the cause and the remedy.
int program(int argc, const char* const* argv);

}  // namespace sluice::app
