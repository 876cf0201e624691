// The gate in figures, as Prometheus reads them.
#pragma once

#include <string>

#include "pipeline/admission/gate_keeper.hpp"

namespace sluice::app {

/// Text format 0.0.4.
std::string metrics_text(const pipeline::gate_keeper& of, instant now);

}  // namespace sluice::app
