// The end of a run in words: one sentence, and a line of remedy per reason.
#pragma once

#include <string>
#include <vector>

#include "pipeline/batch.hpp"

namespace sluice::app {

/// One sentence that says how it went and why it stopped, if it did.
std::string verdict_sentence(const pipeline::batch_result& result, int exit);

/// "N reason: remedy" for each reason among what did not succeed.
std::vector<std::string> remedies(const pipeline::batch_result& result);

}  // namespace sluice::app
