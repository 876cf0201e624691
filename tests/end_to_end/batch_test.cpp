// Batches from every kind of input through the real program: exit codes, status, results, going on
// where the last run stopped, and documents whose names are hostile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/sluice_process.hpp"

namespace sluice {
namespace {

using nlohmann::json;
using testing::desk;
using ::testing::HasSubstr;
using testing::lines_of;
using testing::lines_with;
using ::testing::Not;

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::set<std::string> ids_of(const std::vector<json>& rows) {
  std::set<std::string> ids;
  for (const json& row : rows) ids.insert(row["id"]);
  return ids;
}

TEST(Batch, TakesAFolderRecursivelyATextAndALineFile) {
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  d.folder.write("in/a.txt", "First.");
  d.folder.write("in/below/b.md", "Second.");
  d.folder.write("in/.hidden.txt", "Not this.");
  d.folder.write("in/c.csv", "Nor this.");
  d.folder.write("single.txt", "Third.");
  d.folder.write(
      "lines.jsonl",
      R"({"id": "l1", "text": "Fourth."})"
      "\n\n"
      R"({"custom_id": "l2", "body": {"messages": [{"role": "user", "content": "Fifth."}]}})");

  const auto end = d.sluice({"run", "in", "single.txt", "lines.jsonl"});

  ASSERT_EQ(end.exit, 0) << ::testing::PrintToString(end);
  EXPECT_EQ(testing::calls(server), 5U);
  const auto rows = d.results();
  EXPECT_EQ(rows.size(), 5U);
  EXPECT_EQ(ids_of(rows), (std::set<std::string>{"a.txt", "below/b.md", "single.txt", "l1", "l2"}));
  EXPECT_TRUE(testing::grade(server)["ok"]);
}

TEST(Batch, TakesLinesFromStandardInput) {
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  const auto end = d.sluice_reading(testing::numbered_documents(7), {"run", "-"});
  ASSERT_EQ(end.exit, 0) << ::testing::PrintToString(end);
  EXPECT_EQ(d.results().size(), 7U);
  EXPECT_EQ(testing::calls(server), 7U);
}

TEST(Batch, StatusHasEveryPromisedField) {
  fixtures::fake_options o = testing::unlimited();
  o.refuse_call = 2;
  fixtures::fake_endpoint server(o);
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(4));
  const auto end = d.sluice({"run", "in.jsonl", "--json"});
  ASSERT_EQ(end.exit, 0) << ::testing::PrintToString(end);

  const json status = d.status();
  for (const char* field :
       {"run", "documents", "succeeded", "failed", "deferred", "mismatched", "calls",
        "rate_limited", "retries", "model_wait_seconds", "elapsed_seconds", "prompt_tokens",
        "completion_tokens", "documents_retried", "retry_after_seconds_p50",
        "retry_after_seconds_p95", "jitter_seconds_min", "jitter_seconds_max"})
    EXPECT_TRUE(status.contains(field)) << field;
  EXPECT_EQ(status["documents"], 4);
  EXPECT_EQ(status["succeeded"], 4);
  EXPECT_EQ(status["failed"], 0);
  EXPECT_EQ(status["calls"], testing::calls(server));
  EXPECT_EQ(status["rate_limited"], 1);
  EXPECT_EQ(status["retries"], 1);
  EXPECT_EQ(status["documents_retried"], 1);
  EXPECT_EQ(json::parse(end.out), status) << "run --json prints what status --json does";
  EXPECT_EQ(lines_of(end.out).size(), 1U);
}

TEST(Batch, StatusKnowsTokensAndHints) {
  fixtures::fake_options o = testing::unlimited();
  o.refuse_call = 1;
  fixtures::fake_endpoint server(o);
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(2));
  ASSERT_EQ(d.sluice({"run", "in.jsonl"}).exit, 0);
  const json status = d.status();
  EXPECT_GT(status["prompt_tokens"], 0);
  EXPECT_GT(status["completion_tokens"], 0);
  EXPECT_GE(status["retry_after_seconds_p50"], 1.0);
  EXPECT_GE(status["retry_after_seconds_p95"], status["retry_after_seconds_p50"]);
  EXPECT_GE(status["jitter_seconds_min"], 0.0);
  EXPECT_LE(status["jitter_seconds_max"], 2.0);
}

TEST(Batch, ResultsHaveEveryPromisedField) {
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(2) + R"({"id": "blank", "text": " "})");
  EXPECT_EQ(d.sluice({"run", "in.jsonl"}).exit, 3);
  const auto rows = d.results();
  ASSERT_EQ(rows.size(), 3U);
  for (const json& row : rows)
    for (const char* field :
         {"id", "run", "outcome", "reason", "class", "text", "attempts", "http_status",
          "request_id", "prompt_tokens", "completion_tokens", "wait_seconds", "duration_seconds"})
      EXPECT_TRUE(row.contains(field)) << field << " of " << row;
  EXPECT_EQ(d.result_of("d0"), "succeeded");
  EXPECT_EQ(d.result_of("d0", "http_status"), 200);
  EXPECT_EQ(d.result_of("d0", "attempts"), 1);
  EXPECT_FALSE(d.result_of("d0", "text").get<std::string>().empty());
  EXPECT_EQ(d.result_of("blank"), "failed");
  EXPECT_EQ(d.result_of("blank", "reason"), "empty_input");
  EXPECT_EQ(d.result_of("blank", "class"), "permanent");
  EXPECT_EQ(d.result_of("blank", "attempts"), 0);
}

TEST(Batch, ASecondRunFindsNothingLeftAndCallsNobody) {
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(5));
  ASSERT_EQ(d.sluice({"run", "in.jsonl"}).exit, 0);
  const auto second = d.sluice({"run", "in.jsonl"});
  EXPECT_EQ(second.exit, 0);
  EXPECT_THAT(second.err, HasSubstr("othing is left"));
  EXPECT_EQ(testing::calls(server), 5U);
  EXPECT_EQ(d.results().size(), 5U);
}

TEST(Batch, AgainDoesEverythingAnew) {
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(5));
  ASSERT_EQ(d.sluice({"run", "in.jsonl"}).exit, 0);
  ASSERT_EQ(d.sluice({"run", "in.jsonl", "--again"}).exit, 0);
  EXPECT_EQ(testing::calls(server), 10U);
  EXPECT_EQ(d.results().size(), 5U);
}

TEST(Batch, OnlyAChangedDocumentIsAnalysedAnew) {
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  for (const char* name : {"in/a.txt", "in/b.txt", "in/c.txt"}) d.folder.write(name, name);
  ASSERT_EQ(d.sluice({"run", "in"}).exit, 0);
  const json before = d.result_of("b.txt", "run");
  d.folder.write("in/b.txt", "Something else.");
  ASSERT_EQ(d.sluice({"run", "in"}).exit, 0);
  EXPECT_EQ(testing::calls(server), 4U);
  EXPECT_NE(d.result_of("b.txt", "run"), before);
  EXPECT_EQ(d.result_of("a.txt", "run"), before);
}

TEST(Batch, AnotherPromptOrModelAsksForEverythingAnew) {
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(3));
  ASSERT_EQ(d.sluice({"run", "in.jsonl"}).exit, 0);
  ASSERT_EQ(d.sluice({"run", "in.jsonl", "--prompt", "In short: {text}"}).exit, 0);
  EXPECT_EQ(testing::calls(server), 6U);
  ASSERT_EQ(d.sluice({"run", "in.jsonl", "--model", "other"}).exit, 0);
  EXPECT_EQ(testing::calls(server), 9U);
}

TEST(Batch, ResultsFileIsWholeOrAbsent) {
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  EXPECT_EQ(d.sluice({"results", "-o", "out.jsonl"}).exit, 65);
  EXPECT_FALSE(std::filesystem::exists(d.folder.at("out.jsonl")));

  d.folder.write("in.jsonl", testing::numbered_documents(200));
  ASSERT_EQ(d.sluice({"run", "in.jsonl"}).exit, 0);
  const auto whole = d.sluice({"results", "-o", "out.jsonl"});
  EXPECT_EQ(whole.exit, 0);
  EXPECT_EQ(whole.out, "");
  const std::string written = contents(d.folder.at("out.jsonl"));
  EXPECT_EQ(testing::json_lines(written).size(), 200U);

  // A disk that fills up leaves the older file as it was, and nothing beside it.
  auto cramped = d.prepare({"results", "-o", "out.jsonl"});
  cramped.largest_file = 1000;
  EXPECT_EQ(run_process(cramped).exit, 74);
  EXPECT_EQ(contents(d.folder.at("out.jsonl")), written);
  for (const auto& entry : std::filesystem::directory_iterator(d.folder.at("")))
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("out.jsonl.")));
}

TEST(Batch, AnEmptyBatchSaysSo) {
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  std::filesystem::create_directory(d.folder.at("empty"));
  for (const char* input : {"empty", "-"}) {
    const auto end = d.sluice({"run", input});
    EXPECT_EQ(end.exit, 0) << input;
    EXPECT_THAT(end.err, HasSubstr("empty")) << input;
  }
  EXPECT_EQ(testing::calls(server), 0U);
}

TEST(Batch, QuietSaysNothingWhenAllIsWellAndSomethingOtherwise) {
  fixtures::fake_options o = testing::unlimited();
  o.refuse_call = 1;
  fixtures::fake_endpoint server(o);
  const desk d(server);
  d.folder.write("good.jsonl", testing::numbered_documents(2));
  d.folder.write("bad.jsonl", R"({"id": "blank", "text": ""})");
  const auto good = d.sluice({"run", "good.jsonl", "--quiet"});
  EXPECT_EQ(good.exit, 0);
  EXPECT_EQ(good.out, "");
  EXPECT_EQ(good.err, "");
  const auto bad = d.sluice({"run", "bad.jsonl", "--quiet"});
  EXPECT_EQ(bad.exit, 3);
  EXPECT_EQ(bad.out, "");
  EXPECT_THAT(bad.err, HasSubstr("empty_input"));
}

TEST(Batch, TheLastLineIsTheWaitAloneAndRefusalsCanBeCounted) {
  fixtures::fake_options o = testing::unlimited();
  o.first_429 = 3;
  fixtures::fake_endpoint server(o);
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(6));
  const auto end = d.sluice({"run", "in.jsonl"});
  ASSERT_EQ(end.exit, 0) << ::testing::PrintToString(end);
  EXPECT_TRUE(std::regex_match(lines_of(end.err).back(),
                               std::regex(R"(model_wait_seconds=[0-9]+(\.[0-9]+)?)")))
      << lines_of(end.err).back();
  EXPECT_EQ(testing::stats(server)["rate_limited"], 3);
  EXPECT_EQ(lines_with(end.err, "status=429"), 3U);
  EXPECT_EQ(lines_with(end.err, "event=model_call_failed"), 3U);
  EXPECT_EQ(lines_with(end.err, "event=model_call_ok"), 6U);
  for (const std::string& line : lines_of(end.err)) {
    if (line.find("event=model_call") == std::string::npos) continue;
    EXPECT_TRUE(line.starts_with("event=")) << line;
    for (const char* field :
         {" doc=", " attempt=", " status=", " model_wait_seconds=", " duration_seconds="})
      EXPECT_THAT(line, HasSubstr(field));
    if (line.find("status=429") != std::string::npos) {
      EXPECT_THAT(line, HasSubstr(" retry_after_seconds="));
    }
  }
}

TEST(Batch, HostileIdsStayData) {
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  const std::vector<std::string> hostile{"two\nevent=run_ended exit=0\nlines",
                                         "quoted \" and ' and \\",
                                         "status=429",
                                         "x status=429 y",
                                         "\x1b[2J\x1b[31mred\x1b[0m",
                                         "'; DROP TABLE outcomes; --",
                                         "../../etc/passwd",
                                         "model_wait_seconds=1",
                                         "bell\a tab\t return\r",
                                         "{text} {id} %s %n"};
  std::string lines;
  for (const std::string& id : hostile) {
    json line;
    line["id"] = id;
    line["text"] = "About " + id;
    lines += line.dump() + "\n";
  }
  d.folder.write("in.jsonl", lines);
  const auto end = d.sluice({"run", "in.jsonl", "--log-level", "debug"});
  ASSERT_EQ(end.exit, 0) << ::testing::PrintToString(end);
  EXPECT_EQ(lines_with(end.err, "status=429"), 0U);
  EXPECT_EQ(lines_with(end.err, "event=model_call_ok"), hostile.size());
  EXPECT_EQ(lines_with(end.err, "event=run_ended"), 1U);
  EXPECT_EQ(lines_with(end.err, "model_wait_seconds="), hostile.size() + 1);
  for (const char c : end.err)
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << static_cast<int>(c);
  const auto rows = d.results();
  EXPECT_EQ(ids_of(rows), std::set<std::string>(hostile.begin(), hostile.end()));
  // Their names find them again.
  EXPECT_EQ(d.sluice({"rerun", "--ids", "status=429"}).exit, 0);
  EXPECT_EQ(testing::calls(server), hostile.size() + 1);
}

TEST(Batch, WholeStoreAndSingleRunsCanBeAskedFor) {
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  d.folder.write("one.jsonl", testing::numbered_documents(3, "a"));
  d.folder.write("two.jsonl", testing::numbered_documents(2, "b"));
  ASSERT_EQ(d.sluice({"run", "one.jsonl"}).exit, 0);
  const std::string first = d.status()["run"];
  ASSERT_EQ(d.sluice({"run", "two.jsonl"}).exit, 0);
  EXPECT_EQ(d.status()["documents"], 5);
  EXPECT_EQ(d.status({first})["documents"], 3);
  EXPECT_EQ(d.status({"last"})["documents"], 2);
  EXPECT_EQ(d.results({first}).size(), 3U);
  EXPECT_LT(first, d.status()["run"].get<std::string>()) << "IDs sort by time";
  EXPECT_EQ(d.sluice({"status", "no-such-run"}).exit, 65);
}

}  // namespace
}  // namespace sluice
