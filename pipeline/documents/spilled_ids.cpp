#include "pipeline/documents/spilled_ids.hpp"

#include <bit>

namespace sluice::pipeline {
namespace {

// Nothing of it is wanted after a crash, so nothing is synced; the journal stays, for a full disk.
sqlite::database temporary_file() {
  sqlite::database db("", sqlite::access::write);
  db.execute("PRAGMA synchronous = OFF");
  db.execute("CREATE TABLE seen (hash INTEGER PRIMARY KEY, place INTEGER NOT NULL)");
  return db;
}

}  // namespace

spilled_ids::spilled_ids()
    : file_(temporary_file()),
      insert_(file_, "INSERT INTO seen (hash, place) VALUES (?1, ?2)"),
      select_(file_, "SELECT place FROM seen WHERE hash = ?1") {}

void spilled_ids::add(std::span<const entry> entries) {
  file_.execute("BEGIN");
  try {
    for (const auto& [hash, place] : entries) {
      insert_.bind(1, std::bit_cast<std::int64_t>(hash));
      insert_.bind(2, std::bit_cast<std::int64_t>(place));
      insert_.run();
    }
    // A temporary database would keep its changes in memory until room is needed there, at a read
    // perhaps. Written now, a full disk is noticed while it can be undone.
    file_.flush();
    file_.execute("COMMIT");
  } catch (const sqlite::error&) {
    if (file_.in_transaction()) file_.execute("ROLLBACK");
    throw;
  }
}

std::optional<std::uint64_t> spilled_ids::find(std::uint64_t hash) {
  const sqlite::reset_after guard(select_);
  select_.bind(1, std::bit_cast<std::int64_t>(hash));
  if (!select_.step()) return std::nullopt;
  return std::bit_cast<std::uint64_t>(select_.integer(0));
}

}  // namespace sluice::pipeline
