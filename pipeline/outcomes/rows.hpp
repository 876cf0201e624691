// Records as rows: the statements that write them.
#pragma once

#include "pipeline/outcomes/sqlite.hpp"

namespace sluice::pipeline {

/// The name of an origin's kind in the store, and back. Throws storage_failure for an unknown name.
std::string_view origin_name(origin::kind k);
origin::kind origin_named(std::string_view text);

/// The prepared statements of the writing connection. A record that is there already throws a
/// sqlite::error that says constraint().
class row_writer {
 public:
  explicit row_writer(sqlite::database& db);
  void write(std::int64_t run, const attempt_record& r);
  void write(std::int64_t run, const outcome_record& r);

 private:
  std::int64_t number_of(std::string_view document_id, bool unnamed);

  sqlite::database& db_;
  sqlite::statement find_document_;
  sqlite::statement add_document_;
  sqlite::statement add_attempt_;
  sqlite::statement add_outcome_;
};

}  // namespace sluice::pipeline
