// The tables of the store, and the steps from each version of them to the next.
#pragma once

#include <span>

#include "pipeline/outcomes/sqlite.hpp"

namespace sluice::pipeline::schema {

/// "Slce": tells a store from any other SQLite file.
inline constexpr std::int64_t application = 0x536C6365;

/// The SQL that leads to a version from the one before it.
struct step {
  int to;
  const char* sql;
};

/// All steps, from an empty file on; the last one's version is the current one.
std::span<const step> steps();

/// What is in the file: 0 for an empty one. Throws storage_failure for another program's file and
/// store_too_new for a version above that of `known`.
int version_of(sqlite::database& db, std::span<const step> known = steps());

/// Takes the file to the last version, all or nothing. Throws like version_of.
void bring_up_to_date(sqlite::database& db, std::span<const step> known = steps());

}  // namespace sluice::pipeline::schema
