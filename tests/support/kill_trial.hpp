// A batch that is killed over and over until it is done, and what must hold then.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <csignal>
#include <random>
#include <set>
#include <string>

#include "tests/support/sluice_process.hpp"

namespace sluice::testing {

/// What SQLite itself says about a store: "ok", or the damage.
inline std::string integrity_of(const std::string& store) {
  sqlite3* db = nullptr;
  std::string verdict;
  if (sqlite3_open_v2(store.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK) {
    const auto take = [](void* into, int, char** values, char**) {
      *static_cast<std::string*>(into) += values[0];
      return 0;
    };
    char* error = nullptr;
    sqlite3_exec(db, "PRAGMA integrity_check", take, &verdict, &error);
    if (error != nullptr) verdict += error;
    sqlite3_free(error);
  }
  sqlite3_close(db);
  return verdict;
}

/// IDs in the lines of an event.
inline std::set<std::string> told_of(const std::string& log, const std::string& event) {
  std::set<std::string> ids;
  for (const std::string& line : lines_of(log)) {
    if (line.find("event=" + event + " ") == std::string::npos) continue;
    const auto at = line.find(" doc=");
    // The last line may have been cut by the kill.
    const auto end = line.find(' ', at + 5);
    if (at != std::string::npos && end != std::string::npos)
      ids.insert(line.substr(at + 5, end - at - 5));
  }
  return ids;
}

/// Kills `kills` runs of one batch at moments drawn from the seed, then lets it end. `documents`
/// is a multiple of 4; every fourth has no text and fails without a call.
inline void kill_until_done(unsigned kills, unsigned documents, std::uint64_t seed) {
  constexpr unsigned concurrency = 4;
  fixtures::fake_options o = unlimited();
  o.latency_min = std::chrono::milliseconds(5);
  o.latency_max = std::chrono::milliseconds(30);
  o.seed = seed;
  fixtures::fake_endpoint server(o);
  const desk d(server);
  std::string lines;
  for (unsigned i = 0; i < documents; ++i) {
    const std::string id = "d" + std::to_string(i);
    lines +=
        R"({"id": ")" + id + R"(", "text": ")" + (i % 4 == 3 ? "" : "Document " + id) + "\"}\n";
  }
  d.folder.write("in.jsonl", lines);
  const arguments words{"run", "in.jsonl", "--concurrency", std::to_string(concurrency)};

  std::mt19937_64 random(seed);
  std::set<std::string> reported;
  unsigned killed = 0;
  // How long a start takes depends on the machine: the moments are drawn around it.
  unsigned long reach = 120;
  while (killed < kills) {
    process run(d.prepare(words));
    const bool ended = run.ends_within(std::chrono::milliseconds(5 + random() % reach));
    run.send(SIGKILL);
    const process_end end = run.wait();
    ASSERT_FALSE(end.overdue);
    const auto told = told_of(end.err, "document_failed");
    reported.insert(told.begin(), told.end());
    if (ended) {
      ASSERT_EQ(end.exit, 3) << ::testing::PrintToString(end);
      break;
    }
    ++killed;
    if (told_of(end.err, "model_call_ok").empty())
      reach = std::min(reach + 20, 2000UL);
    else if (reach > 60)
      reach -= 10;
    SCOPED_TRACE("after kill " + std::to_string(killed));
    ASSERT_EQ(::testing::PrintToString(end.signal), ::testing::PrintToString(SIGKILL));
    if (killed % 5 == 0 && !reported.empty()) {
      const auto rows = d.results();
      std::set<std::string> kept;
      for (const auto& row : rows) {
        ASSERT_TRUE(kept.insert(row["id"]).second) << "two outcomes of " << row["id"];
        EXPECT_NE(row["outcome"], "deferred");
      }
      for (const std::string& id : reported) EXPECT_TRUE(kept.contains(id)) << id << " is lost";
    }
  }
  const process_end last = d.sluice(words);
  EXPECT_EQ(last.exit, 3) << ::testing::PrintToString(last);
  EXPECT_EQ(killed, kills) << "the batch was done too soon: give it more documents";

  const auto rows = d.results();
  EXPECT_EQ(rows.size(), documents);
  std::set<std::string> ids;
  for (const auto& row : rows) {
    ids.insert(row["id"]);
    const unsigned long number = std::stoul(row["id"].get<std::string>().substr(1));
    EXPECT_EQ(row["outcome"], number % 4 == 3 ? "failed" : "succeeded") << row;
  }
  EXPECT_EQ(ids.size(), documents);
  const unsigned with_text = documents - documents / 4;
  EXPECT_GE(calls(server), with_text);
  EXPECT_LE(calls(server), with_text + killed * concurrency);
  EXPECT_EQ(integrity_of(d.folder.at("sluice.db")), "ok");
  ::testing::Test::RecordProperty("calls", static_cast<int>(calls(server)));
  ::testing::Test::RecordProperty("kills", static_cast<int>(killed));
}

}  // namespace sluice::testing
