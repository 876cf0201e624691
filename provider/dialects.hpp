// What statuses, codes and types mean, and the exact words by which some dialects have to be known:
// all of it tables. What a new provider says goes there as a row.
#pragma once

#include <optional>
#include <string_view>

#include "provider/completion.hpp"
#include "retry/reason.hpp"

namespace sluice::provider {

/// The reason of an error answer, from its status, its code and type, and exact markers in its
/// message. Status 0 stands for an error without any, inside a success.
retry::reason classify_error(int status, const error_words& error);

/// True when this status tells what to do by itself: of an answer that was cut off after its header
/// it still counts. False for successes, and for errors that only their body explains.
bool tells_enough(int status);

/// What a finish reason means, `ok` included; nothing for one that nobody knows.
std::optional<retry::reason> meaning_of_finish(std::string_view finish_reason);

/// True when a message compares a size with a limit it is above, "Limit 20000, Requested 250000" or
/// "150000 + 60000 > 200000": sending the document again cannot help.
bool over_limit_in_words(std::string_view message);

}  // namespace sluice::provider
