// Answers recorded, served again, and compared with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/support/sluice_process.hpp"

namespace sluice {
namespace {

using nlohmann::json;
using testing::arguments;
using testing::desk;
using ::testing::HasSubstr;

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

// The recorded answer to one document, with another text.
std::string with_text(const std::string& lines, const std::string& id, const std::string& text) {
  std::string result;
  for (json line : testing::json_lines(lines)) {
    if (line["id"] == id) line["text"] = text;
    result += line.dump() + "\n";
  }
  return result;
}

// A desk with answers to d0, d1 and d2 in answers.jsonl, and a server that serves just these.
struct recorded_desk {
  recorded_desk() {
    d.folder.write("in.jsonl", testing::numbered_documents(3));
    const auto end =
        d.sluice({"run", "in.jsonl", "--record", "answers.jsonl", "--store", "first.db"});
    EXPECT_EQ(end.exit, 0) << end.err;
    fixtures::fake_options o = testing::unlimited();
    o.recorded = std::make_shared<const fixtures::replay>(
        fixtures::replay::load(d.folder.at("answers.jsonl")));
    replaying.emplace(o);
    d.environment["SLUICE_ENDPOINT"] = replaying->url();
  }

  fixtures::fake_endpoint teacher{testing::unlimited()};
  desk d{teacher};
  std::optional<fixtures::fake_endpoint> replaying;
};

TEST(Fixtures, WhatWasRecordedIsServedAndFoundTheSame) {
  recorded_desk w;
  EXPECT_EQ(testing::json_lines(read(w.d.folder.at("answers.jsonl"))).size(), 3U);
  const auto end = w.d.sluice({"run", "in.jsonl", "--expect", "answers.jsonl"});
  EXPECT_EQ(end.exit, 0) << end.err;
  EXPECT_EQ(testing::calls(*w.replaying), 3U);
  // From another folder the run's fixtures are found as well.
  std::filesystem::create_directory(w.d.folder.at("elsewhere"));
  auto o = w.d.prepare({"rerun", "--ids", "d1", "--store", "../sluice.db"});
  o.folder = w.d.folder.at("elsewhere");
  const auto again = testing::run_process(o);
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(testing::calls(*w.replaying), 4U);
}

TEST(Fixtures, ADifferenceIsShownAndNeverTriedAgain) {
  recorded_desk w;
  w.d.folder.write("other.jsonl",
                   with_text(read(w.d.folder.at("answers.jsonl")), "d1", "something else"));
  const arguments again = {"run", "in.jsonl", "--expect", "other.jsonl"};
  const auto first = w.d.sluice(again);
  EXPECT_EQ(first.exit, 4) << first.err;
  EXPECT_EQ(testing::calls(*w.replaying), 3U);
  EXPECT_THAT(first.err, HasSubstr("event=document_mismatched doc=d1"));
  EXPECT_THAT(first.err, HasSubstr("something else"));
  EXPECT_EQ(w.d.result_of("d1"), "mismatched");
  EXPECT_THAT(w.d.result_of("d1", "text").get<std::string>(), HasSubstr("The document begins"));
  EXPECT_THAT(w.d.result_of("d1", "detail").get<std::string>(), HasSubstr("something else"));
  EXPECT_EQ(w.d.status()["mismatched"], 1);

  // The next run passes it over; named, it is taken up.
  EXPECT_EQ(w.d.sluice(again).exit, 4);
  EXPECT_EQ(testing::calls(*w.replaying), 3U);
  EXPECT_EQ(w.d.sluice({"rerun", "--ids", "d1", "--expect", "answers.jsonl"}).exit, 0);
  EXPECT_EQ(testing::calls(*w.replaying), 4U);
  EXPECT_EQ(w.d.result_of("d1"), "succeeded");
}

TEST(Fixtures, AnswersInTheStoreAreComparedWithoutACall) {
  recorded_desk w;
  ASSERT_EQ(w.d.sluice({"run", "in.jsonl"}).exit, 0);
  w.d.folder.write("other.jsonl",
                   with_text(read(w.d.folder.at("answers.jsonl")), "d2", "something else"));
  EXPECT_EQ(w.d.sluice({"run", "in.jsonl", "--expect", "other.jsonl"}).exit, 4);
  EXPECT_EQ(testing::calls(*w.replaying), 3U);
  EXPECT_EQ(w.d.result_of("d2"), "mismatched");
  EXPECT_EQ(w.d.result_of("d1"), "succeeded");
}

TEST(Fixtures, ADocumentWithoutARecordedAnswerCostsNothing) {
  recorded_desk w;
  w.d.folder.write("new.jsonl", testing::numbered_documents(1, "new"));
  const auto end = w.d.sluice({"run", "new.jsonl", "--expect", "answers.jsonl"});
  EXPECT_EQ(end.exit, 4) << end.err;
  EXPECT_EQ(testing::calls(*w.replaying), 0U);
  EXPECT_THAT(w.d.result_of("new0", "detail").get<std::string>(), HasSubstr("holds no answer"));
}

TEST(Fixtures, AnUnknownRequestIsAnErrorAndNoInvention) {
  recorded_desk w;
  w.d.folder.write("new.jsonl", testing::numbered_documents(1, "new"));
  EXPECT_EQ(w.d.sluice({"run", "new.jsonl"}).exit, 3);
  EXPECT_EQ(w.d.result_of("new0", "http_status"), 400);
  EXPECT_THAT(w.d.result_of("new0", "detail").get<std::string>(), HasSubstr("no recorded answer"));
}

TEST(Fixtures, BlanksMayDiffer) {
  recorded_desk w;
  w.d.folder.write("one.jsonl", testing::numbered_documents(1));
  std::string text;
  for (const json& one : testing::json_lines(read(w.d.folder.at("answers.jsonl"))))
    if (one["id"] == "d0") text = one["text"].get<std::string>();
  w.d.folder.write("other.jsonl",
                   with_text(read(w.d.folder.at("answers.jsonl")), "d0", "  " + text + "\n"));
  EXPECT_EQ(w.d.sluice({"run", "one.jsonl", "--expect", "other.jsonl"}).exit, 4);
  EXPECT_EQ(w.d.sluice({"run", "one.jsonl", "--again", "--expect", "other.jsonl", "--compare",
                        "whitespace"})
                .exit,
            0);
  EXPECT_EQ(w.d.sluice({"run", "one.jsonl", "--compare", "loosely"}).exit, 64);
}

TEST(Fixtures, AFullDiskForFixturesLosesNoOutcome) {
  const fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(3));
  const auto end = d.sluice({"run", "in.jsonl", "--record", "/dev/full", "--concurrency", "1"});
  EXPECT_EQ(end.exit, 74) << end.err;
  EXPECT_THAT(end.err, HasSubstr("--record /dev/full"));
  // Every call that was answered is on record, and the next run goes on with the others.
  const auto paid = d.status()["succeeded"].get<unsigned>();
  EXPECT_EQ(paid, testing::calls(server));
  EXPECT_EQ(d.sluice({"run", "in.jsonl"}).exit, 0);
  EXPECT_EQ(testing::calls(server), 3U);
}

TEST(Fixtures, TheProgramServesThem) {
  recorded_desk w;
  const auto bad = w.d.sluice({"fake-endpoint", "--listen", "127.0.0.1:0", "--replay", "in.jsonl"});
  EXPECT_EQ(bad.exit, 78);
  EXPECT_THAT(bad.err, HasSubstr("in.jsonl:1"));
}

}  // namespace
}  // namespace sluice
