// The gate in figures, for whoever shows them.
#pragma once

#include "app/gate/page.hpp"
#include "pipeline/admission/gate_keeper.hpp"

namespace sluice::app {

/// What of each limit is used in the window up to now, in the order of the budget's limits.
std::vector<std::int64_t> used_now(const pipeline::gate_line& line, instant now);

page_figures figures_of(const pipeline::gate_keeper& keeper, instant now);

}  // namespace sluice::app
