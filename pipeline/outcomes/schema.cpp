#include "pipeline/outcomes/schema.hpp"

#include "pipeline/outcomes/run_store.hpp"

namespace sluice::pipeline::schema {
namespace {

// Times of day are milliseconds since 1970 in UTC (_ms), durations are nanoseconds (_ns),
// enumerations their fixed names. What is small comes first in a row, so that a scan need not
// follow long texts.
constexpr const char* version_1 = R"sql(
CREATE TABLE runs (
  number     INTEGER PRIMARY KEY,
  id         TEXT    NOT NULL UNIQUE,
  started_ms INTEGER NOT NULL,
  ended_ms   INTEGER,
  exit_code  INTEGER,
  command    TEXT    NOT NULL,
  endpoint   TEXT    NOT NULL,
  model      TEXT    NOT NULL,
  settings   TEXT    NOT NULL,
  inputs     TEXT    NOT NULL,
  summary    TEXT
);
CREATE TABLE documents (
  number INTEGER PRIMARY KEY,
  id     TEXT    NOT NULL UNIQUE
);
CREATE TABLE outcomes (
  document          INTEGER NOT NULL REFERENCES documents (number),
  run               INTEGER NOT NULL REFERENCES runs (number),
  outcome           TEXT    NOT NULL,
  reason            TEXT    NOT NULL,
  class             TEXT    NOT NULL,
  attempts          INTEGER NOT NULL,
  http_status       INTEGER NOT NULL,
  prompt_tokens     INTEGER,
  completion_tokens INTEGER,
  waited_ns         INTEGER NOT NULL,
  took_ns           INTEGER NOT NULL,
  ended_ms          INTEGER NOT NULL,
  inputs            BLOB    NOT NULL,
  origin            TEXT    NOT NULL,
  origin_path       TEXT    NOT NULL,
  origin_line       INTEGER NOT NULL,
  request_id        TEXT    NOT NULL,
  detail            TEXT    NOT NULL,
  text              TEXT    NOT NULL,
  kept_document     TEXT    NOT NULL,
  UNIQUE (document, run)
);
CREATE TABLE attempts (
  document          INTEGER NOT NULL REFERENCES documents (number),
  run               INTEGER NOT NULL REFERENCES runs (number),
  attempt           INTEGER NOT NULL,
  reason            TEXT    NOT NULL,
  http_status       INTEGER NOT NULL,
  sent_ms           INTEGER NOT NULL,
  queued_ns         INTEGER NOT NULL,
  connect_ns        INTEGER,
  tls_ns            INTEGER,
  first_byte_ns     INTEGER,
  total_ns          INTEGER NOT NULL,
  retry_after_ns    INTEGER,
  jitter_ns         INTEGER,
  prompt_tokens     INTEGER,
  completion_tokens INTEGER,
  may_be_billed     INTEGER NOT NULL,
  request_id        TEXT    NOT NULL,
  hints             TEXT    NOT NULL,
  detail            TEXT    NOT NULL,
  raw_body          TEXT    NOT NULL,
  UNIQUE (document, run, attempt)
);
)sql";

// A line without an ID of its own is called FILE:LINE, which may be the ID of a document as well.
constexpr const char* version_2 = R"sql(
CREATE TABLE documents_and_lines (
  number  INTEGER PRIMARY KEY,
  id      TEXT    NOT NULL,
  unnamed INTEGER NOT NULL,
  UNIQUE (id, unnamed)
);
INSERT INTO documents_and_lines
  SELECT d.number, d.id, EXISTS (
    SELECT 1 FROM outcomes o
    WHERE o.document = d.number AND o.reason IN ('input_error', 'duplicate_id')
      AND o.origin_line > 0 AND d.id LIKE '%:' || o.origin_line)
  FROM documents d;
DROP TABLE documents;
ALTER TABLE documents_and_lines RENAME TO documents;
)sql";

constexpr step all_steps[] = {{1, version_1}, {2, version_2}};

}  // namespace

std::span<const step> steps() {
  return all_steps;
}

int version_of(sqlite::database& db, std::span<const step> known) {
  const auto mark = db.number("PRAGMA application_id");
  const auto version = static_cast<int>(db.number("PRAGMA user_version"));
  if (mark == 0 && version == 0 && db.number("SELECT count(*) FROM sqlite_schema") == 0) return 0;
  if (mark != application || version < 1)
    throw storage_failure("store " + db.path() +
                          ": this SQLite file belongs to another program; name another --store");
  if (version > known.back().to)
    throw store_too_new("store " + db.path() + ": written by a newer Sluice (version " +
                        std::to_string(version) + ", this one knows " +
                        std::to_string(known.back().to) +
                        "); use the newer program, or name another --store");
  return version;
}

void bring_up_to_date(sqlite::database& db, std::span<const step> known) {
  if (version_of(db, known) == known.back().to) return;
  db.execute("BEGIN IMMEDIATE");
  try {
    // Looked at again under the lock.
    const int version = version_of(db, known);
    for (const step& s : known) {
      if (s.to <= version) continue;
      db.execute(s.sql);
      db.execute(("PRAGMA user_version = " + std::to_string(s.to)).c_str());
    }
    db.execute(("PRAGMA application_id = " + std::to_string(application)).c_str());
    db.execute("COMMIT");
  } catch (...) {
    if (db.in_transaction()) db.execute("ROLLBACK");
    throw;
  }
}

}  // namespace sluice::pipeline::schema
