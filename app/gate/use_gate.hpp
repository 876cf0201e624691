// The ledger of a run with --gate.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <memory>

#include "app/settings.hpp"
#include "pipeline/admission/gate_ledger.hpp"

namespace sluice::app {

/// Null without --gate. Asks the gate once, for two seconds, what its limits are and puts them into
/// the settings; if it does not answer, that is seen to when the first turn is asked for. Throws
/// settings_error 78 when the gate has another limit than the one asked for, refuses the token, or
/// cannot be addressed.
std::shared_ptr<pipeline::gate_ledger> use_gate(settings& s, boost::asio::any_io_executor executor,
                                                pipeline::clock& time, std::uint64_t seed);

}  // namespace sluice::app
