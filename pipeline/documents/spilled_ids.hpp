// Hashes of IDs and their places in a temporary SQLite database without a name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "pipeline/outcomes/sqlite.hpp"

namespace sluice::pipeline {

/// Memory stays at SQLite's page cache (2 MiB). The file lies where SQLITE_TMPDIR or TMPDIR says,
/// else in /var/tmp or /tmp.
class spilled_ids {
 public:
  using entry = std::pair<std::uint64_t, std::uint64_t>;  ///< hash, place

  /// Throws sqlite::error.
  spilled_ids();
  /// Adds all, or none and throws sqlite::error. Sorted by hash they are written soonest.
  void add(std::span<const entry> entries);
  /// The place of a hash. Throws sqlite::error.
  std::optional<std::uint64_t> find(std::uint64_t hash);

 private:
  sqlite::database file_;
  sqlite::statement insert_;
  sqlite::statement select_;
};

}  // namespace sluice::pipeline
