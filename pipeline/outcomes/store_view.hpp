// A store, or one run of it, opened for reading: what all queries share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pipeline/outcomes/sqlite.hpp"

namespace sluice::pipeline {

/// One consistent view of a store for as long as it is open. Throws store_error as queries.hpp
/// says.
class store_view {
 public:
  /// A run is named by its ID or `last`; without one it is the whole store.
  store_view(const std::string& path, const std::optional<std::string>& run);

  sqlite::statement prepare(const std::string& sql) { return sqlite::statement(db_, sql.c_str()); }
  /// The number of the run named, else of the last.
  std::int64_t run() const { return run_; }
  bool whole() const { return whole_; }
  /// Of the store as it was written: reading brings nothing up to date.
  int version() const { return version_; }

  /// SQL that defines `counted`, the outcomes that count: those of the run, or each document's
  /// latest. Of a line that could not be used, none, once a later run has found a document there:
  /// it has been mended.
  std::string counted() const;
  /// SQL that holds for the runs that count, in a query of the table runs.
  std::string of_runs() const { return whole_ ? "1" : "number = " + std::to_string(run_); }
  /// SQL that holds for the attempts that count.
  std::string of_run() const { return whole_ ? "1" : "run = " + std::to_string(run_); }

 private:
  sqlite::database db_;
  int version_ = 0;
  std::int64_t run_ = 0;
  bool whole_ = true;
};

}  // namespace sluice::pipeline
