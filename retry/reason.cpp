#include "retry/reason.hpp"

#include "retry/table.hpp"

namespace sluice::retry {

std::string_view name(reason r) {
  return row_of(r).name;
}

std::optional<reason> reason_named(std::string_view text) {
  for (const row& entry : table())
    if (entry.name == text) return entry.why;
  return std::nullopt;
}

}  // namespace sluice::retry
