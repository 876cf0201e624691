#include "pipeline/outcomes/store_view.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "pipeline/outcomes/schema.hpp"

namespace sluice::pipeline {
namespace {

constexpr int nothing_there = 65;

[[noreturn]] void nothing(const std::string& path) {
  throw store_error(nothing_there, "store " + path +
                                       ": nothing is stored there yet; start with "
                                       "`sluice run`, or name another --store");
}

sqlite::database open(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR))
    throw store_error(nothing_there, "store " + path +
                                         ": no such file; start with `sluice run`, "
                                         "or name the right one with --store");
  // Absolute, so that SQLite cannot take it for a URI or for memory.
  std::error_code ec;
  const auto full = std::filesystem::absolute(path, ec);
  return {ec ? path : full.string(), sqlite::access::read};
}

}  // namespace

store_view::store_view(const std::string& path, const std::optional<std::string>& run)
    : db_(open(path)) {
  db_.execute("BEGIN");
  version_ = schema::version_of(db_);
  if (version_ == 0) nothing(path);
  const bool last = !run || *run == "last";
  sqlite::statement s(db_, last ? "SELECT number FROM runs ORDER BY number DESC LIMIT 1"
                                : "SELECT number FROM runs WHERE id = ?1");
  if (!last) s.bind(1, std::string_view(*run));
  if (!s.step()) {
    if (last) nothing(path);
    throw store_error(nothing_there, "store " + path + ": no run " + *run +
                                         "; take its ID from the last lines of its log, or say "
                                         "`last`");
  }
  run_ = s.integer(0);
  whole_ = !run;
}

std::string store_view::counted() const {
  if (!whole_)
    return "counted AS (SELECT * FROM outcomes WHERE run = " + std::to_string(run_) + ")";
  return "bad_line AS MATERIALIZED ("
         "  SELECT rowid AS at, document, run, origin_path, origin_line FROM outcomes "
         "  WHERE reason IN ('input_error', 'duplicate_id') AND origin = 'jsonl_line'), "
         "mended AS MATERIALIZED (SELECT DISTINCT b.at FROM outcomes o JOIN bad_line b "
         "  ON o.origin_path = b.origin_path AND o.origin_line = b.origin_line "
         "  AND o.run > b.run AND o.document <> b.document), "
         "counted AS NOT MATERIALIZED (SELECT * FROM outcomes o "
         "  WHERE run = (SELECT max(run) FROM outcomes WHERE document = o.document) "
         "  AND rowid NOT IN (SELECT at FROM mended))";
}

}  // namespace sluice::pipeline
