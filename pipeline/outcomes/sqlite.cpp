#include "pipeline/outcomes/sqlite.hpp"

#include <sqlite3.h>
#include <unistd.h>

#include <cctype>

namespace sluice::pipeline::sqlite {
namespace {

constexpr int busy_patience_ms = 10000;

struct explanation {
  int code;  ///< primary result code
  const char* cause;
  const char* remedy;
};

constexpr explanation explanations[] = {
    {SQLITE_FULL, "the disk is full", "make room, then run the same command again to go on"},
    {SQLITE_IOERR, "reading or writing failed",
     "check the disk and its free space, then run the same command again to go on"},
    {SQLITE_READONLY, "it cannot be written to",
     "give this user the right to write the file and its folder, or name another --store"},
    {SQLITE_CANTOPEN, "it cannot be opened",
     "check that the folder exists and may be written to, or name another --store"},
    {SQLITE_PERM, "access is denied", "give this user the right to use it"},
    {SQLITE_NOTADB, "it is not a store of Sluice", "name another --store, or move the file away"},
    {SQLITE_CORRUPT, "it is damaged",
     "restore it from a backup, or move it away and start a new one"},
    {SQLITE_BUSY, "another program keeps it locked", "end that program, then run again"},
    {SQLITE_LOCKED, "another program keeps it locked", "end that program, then run again"},
    {SQLITE_NOMEM, "out of memory", "free some memory, then run again"},
};

std::string explain(const std::string& path, int code, const std::string& words) {
  for (const explanation& e : explanations)
    if (e.code == (code & 0xFF))
      return "store " + path + ": " + e.cause + " (" + words + "); " + e.remedy;
  return "store " + path + ": " + words + " (SQLite code " + std::to_string(code) +
         "); keep a copy of the file and report this";
}

// A path as part of a URI.
std::string escaped(const std::string& path) {
  static constexpr char digits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '/' || c == '.' || c == '-' || c == '_') {
      out += c;
    } else {
      out += '%';
      out += digits[byte >> 4U];
      out += digits[byte & 15U];
    }
  }
  return out;
}

int open(const std::string& name, int flags, sqlite3** into) {
  const int rc = sqlite3_open_v2(name.c_str(), into, flags | SQLITE_OPEN_EXRESCODE, nullptr);
  if (rc != SQLITE_OK) return rc;
  sqlite3_busy_timeout(*into, busy_patience_ms);
  // Opening is lazy: only a first look tells whether the file can be read at all.
  return sqlite3_exec(*into, "SELECT count(*) FROM sqlite_schema", nullptr, nullptr, nullptr);
}

}  // namespace

error::error(const std::string& path, int extended_code, const std::string& words)
    : storage_failure(explain(path, extended_code, words)), code_(extended_code) {}

bool error::constraint() const {
  return (code_ & 0xFF) == SQLITE_CONSTRAINT;
}

bool error::busy() const {
  return (code_ & 0xFF) == SQLITE_BUSY || (code_ & 0xFF) == SQLITE_LOCKED;
}

void database::closer::operator()(sqlite3* db) const {
  sqlite3_close_v2(db);
}

database::database(const std::string& path, access how) : path_(path) {
  sqlite3* raw = nullptr;
  int rc = open(path, how == access::write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY, &raw);
  handle_.reset(raw);
  // In a folder that cannot be written to, the shared memory of the log cannot be made. With no log
  // there, nobody is writing, and the file can be read as it is.
  const bool no_log = ::access((path + "-wal").c_str(), F_OK) != 0;
  if (rc != SQLITE_OK && how == access::read && no_log &&
      ((rc & 0xFF) == SQLITE_CANTOPEN || (rc & 0xFF) == SQLITE_READONLY)) {
    sqlite3* again = nullptr;
    rc = open("file:" + escaped(path) + "?immutable=1", SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
              &again);
    handle_.reset(again);
  }
  if (rc != SQLITE_OK) fail(rc);
}

void database::fail(int code) const {
  throw error(path_, code, handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code));
}

void database::execute(const char* sql) {
  const int rc = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  if (rc != SQLITE_OK) fail(rc);
}

std::int64_t database::number(const char* sql) {
  statement s(*this, sql);
  return s.step() ? s.integer(0) : 0;
}

void database::flush() {
  const int rc = sqlite3_db_cacheflush(handle_.get());
  if (rc != SQLITE_OK) fail(rc);
}

bool database::read_only() const {
  return sqlite3_db_readonly(handle_.get(), "main") == 1;
}

bool database::in_transaction() const {
  return sqlite3_get_autocommit(handle_.get()) == 0;
}

void statement::finaliser::operator()(sqlite3_stmt* s) const {
  sqlite3_finalize(s);
}

statement::statement(database& db, const char* sql) : db_(&db) {
  sqlite3_stmt* raw = nullptr;
  check(sqlite3_prepare_v3(db.handle(), sql, -1, SQLITE_PREPARE_PERSISTENT, &raw, nullptr));
  handle_.reset(raw);
}

void statement::check(int code) const {
  if (code != SQLITE_OK) db_->fail(code);
}

void statement::bind(int at, std::int64_t value) {
  check(sqlite3_bind_int64(handle_.get(), at, value));
}

void statement::bind(int at, std::string_view value) {
  // An empty view may have no address, which SQLite would take for NULL.
  const char* bytes = value.data() != nullptr ? value.data() : "";
  check(sqlite3_bind_text64(handle_.get(), at, bytes, value.size(), SQLITE_STATIC, SQLITE_UTF8));
}

void statement::bind(int at, std::span<const std::uint8_t> value) {
  check(sqlite3_bind_blob64(handle_.get(), at, value.data(), value.size(), SQLITE_STATIC));
}

void statement::bind(int at, std::optional<std::int64_t> value) {
  value ? bind(at, *value) : bind_null(at);
}

void statement::bind(int at, std::optional<duration> value) {
  value ? bind(at, std::int64_t{value->count()}) : bind_null(at);
}

void statement::bind_null(int at) {
  check(sqlite3_bind_null(handle_.get(), at));
}

bool statement::step() {
  const int rc = sqlite3_step(handle_.get());
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  db_->fail(rc);
}

void statement::reset() {
  sqlite3_reset(handle_.get());
}

void statement::run() {
  const reset_after guard(*this);
  step();
}

bool statement::null(int column) const {
  return sqlite3_column_type(handle_.get(), column) == SQLITE_NULL;
}

std::int64_t statement::integer(int column) const {
  return sqlite3_column_int64(handle_.get(), column);
}

std::optional<std::int64_t> statement::maybe_integer(int column) const {
  if (null(column)) return std::nullopt;
  return integer(column);
}

std::string_view statement::text(int column) const {
  const auto* bytes = sqlite3_column_text(handle_.get(), column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column));
  if (bytes == nullptr) return {};
  return {reinterpret_cast<const char*>(bytes), size};
}

std::span<const std::uint8_t> statement::blob(int column) const {
  const auto* bytes = static_cast<const std::uint8_t*>(sqlite3_column_blob(handle_.get(), column));
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column))};
}

}  // namespace sluice::pipeline::sqlite
