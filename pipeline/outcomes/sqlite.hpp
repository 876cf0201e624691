// A thin hold on SQLite's C interface: a database, a statement, and errors said in full.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "pipeline/outcomes/records.hpp"
#include "retry/time.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace sluice::pipeline::sqlite {

/// What SQLite reported; the message names the file, the cause and the remedy.
class error : public storage_failure {
 public:
  error(const std::string& path, int extended_code, const std::string& words);
  bool constraint() const;
  /// Somebody else holds a lock: not an error, only a reason to try again.
  bool busy() const;

 private:
  int code_;
};

enum class access { write, read };

/// One connection. Not shared between threads at the same time.
class database {
 public:
  /// `write` needs the file to exist or creates it; `read` works beside a writer, and on a folder
  /// that cannot be written to. Throws error.
  database(const std::string& path, access how);
  void execute(const char* sql);
  std::int64_t number(const char* sql);  ///< the first column of the first row
  /// Writes what the open transaction has changed so far to the file. Throws error.
  void flush();
  bool read_only() const;
  bool in_transaction() const;
  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_.get(); }
  [[noreturn]] void fail(int code) const;

 private:
  struct closer {
    void operator()(sqlite3* db) const;
  };
  std::string path_;
  std::unique_ptr<sqlite3, closer> handle_;
};

/// One prepared statement. Texts are bound without a copy: they must live until it has been reset.
class statement {
 public:
  statement(database& db, const char* sql);

  void bind(int at, std::int64_t value);
  void bind(int at, std::string_view value);
  void bind(int at, std::span<const std::uint8_t> value);
  void bind(int at, std::optional<std::int64_t> value);
  void bind(int at, std::optional<duration> value);
  void bind_null(int at);
  /// True when there is a row. Throws error.
  bool step();
  void reset();
  /// Runs it once and makes it ready again, also after an error.
  void run();

  bool null(int column) const;
  std::int64_t integer(int column) const;
  std::optional<std::int64_t> maybe_integer(int column) const;
  duration time(int column) const { return duration(integer(column)); }
  std::string_view text(int column) const;  ///< until the next step
  std::span<const std::uint8_t> blob(int column) const;

 private:
  struct finaliser {
    void operator()(sqlite3_stmt* s) const;
  };
  void check(int code) const;
  database* db_;
  std::unique_ptr<sqlite3_stmt, finaliser> handle_;
};

/// Resets a statement when the scope ends, so that no read transaction is left open.
class reset_after {
 public:
  explicit reset_after(statement& s) : statement_(s) {}
  ~reset_after() { statement_.reset(); }
  reset_after(const reset_after&) = delete;
  reset_after& operator=(const reset_after&) = delete;

 private:
  statement& statement_;
};

}  // namespace sluice::pipeline::sqlite
