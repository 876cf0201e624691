// The four ways a document can end, and what a later run makes of it.
#pragma once

#include <optional>
#include <string_view>

namespace sluice::retry {

/// What became of a document in one run.
enum class outcome { succeeded, failed, deferred, mismatched };

/// What a later run makes of a failure: permanent ones are skipped until asked for, transient ones
/// are taken up by themselves.
enum class outcome_class { none, permanent, transient };

std::string_view name(outcome o);
std::string_view name(outcome_class c);
std::optional<outcome> outcome_named(std::string_view text);
std::optional<outcome_class> outcome_class_named(std::string_view text);

}  // namespace sluice::retry
