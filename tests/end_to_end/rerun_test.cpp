// Taking up what is left, or what is named, the morning after.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>

#include "tests/support/sluice_process.hpp"

namespace sluice {
namespace {

using nlohmann::json;
using testing::desk;
using ::testing::HasSubstr;

// A server that can be set right: until then, what is about "bad" is refused as a bad request, and
// what is about "sick" meets a server error.
class moody_server {
 public:
  moody_server() : endpoint(options()) {}
  void recover() { well_ = true; }
  std::set<std::string> asked_about() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return asked_;
  }
  void forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    asked_.clear();
  }

 private:
  fixtures::fake_options options() {
    fixtures::fake_options o = testing::unlimited();
    o.script = [this](unsigned,
                      const std::string& text) -> std::optional<fixtures::scripted_answer> {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        asked_.insert(text);
      }
      fixtures::scripted_answer a;
      a.usual_body = true;
      if (!well_ && text.find("bad") != std::string::npos) a.status = 400;
      if (!well_ && text.find("sick") != std::string::npos) a.status = 500;
      if (a.status == 200) return std::nullopt;
      return a;
    };
    return o;
  }

  mutable std::mutex mutex_;
  std::set<std::string> asked_;
  std::atomic<bool> well_ = false;

 public:
  fixtures::fake_endpoint endpoint;
};

const std::string mixed = R"({"id": "g1", "text": "good one"}
{"id": "b1", "text": "bad one"}
{"id": "s1", "text": "sick one"}
{"id": "g2", "text": "good two"}
)";

TEST(Rerun, AloneTakesUpWhatFailedAsItsRunAsked) {
  moody_server server;
  const desk d(server.endpoint);
  d.folder.write("in.jsonl", mixed);
  ASSERT_EQ(d.sluice({"run", "in.jsonl", "--prompt", "Say: {text}"}).exit, 3);
  EXPECT_EQ(d.result_of("b1"), "failed");
  EXPECT_EQ(d.result_of("s1"), "failed");
  server.recover();
  server.forget();

  // No endpoint, model or prompt this time.
  desk bare;
  auto o = bare.prepare({"rerun", "--limit", "none"});
  o.folder = d.folder.at("");
  const auto end = run_process(o);

  ASSERT_EQ(end.exit, 0) << ::testing::PrintToString(end);
  EXPECT_EQ(server.asked_about(), (std::set<std::string>{"Say: bad one", "Say: sick one"}));
  EXPECT_EQ(d.status()["succeeded"], 4);
  EXPECT_EQ(d.status()["documents"], 4);
}

TEST(Rerun, TakesUpWhatWasDeferred) {
  fixtures::fake_options o = testing::unlimited();
  o.required_key = "the-right-key";
  fixtures::fake_endpoint server(o);
  desk d(server);
  d.environment["OPENAI_API_KEY"] = "the-wrong-key";
  d.folder.write("in.jsonl", testing::numbered_documents(4));
  EXPECT_EQ(d.sluice({"run", "in.jsonl"}).exit, 77);
  EXPECT_EQ(d.status()["deferred"], 4);
  const unsigned before = testing::calls(server);
  d.environment["OPENAI_API_KEY"] = "the-right-key";
  EXPECT_EQ(d.sluice({"rerun", "--failed"}).exit, 0);
  EXPECT_EQ(testing::calls(server), before) << "deferred is not failed";
  const std::string first = d.results().front()["run"];
  const auto end = d.sluice({"rerun", first});
  EXPECT_EQ(end.exit, 0) << ::testing::PrintToString(end);
  EXPECT_EQ(d.status()["succeeded"], 4);
}

TEST(Rerun, FailedTakesOnlyTheFailed) {
  moody_server server;
  const desk d(server.endpoint);
  d.folder.write("in.jsonl", mixed);
  ASSERT_EQ(d.sluice({"run", "in.jsonl"}).exit, 3);
  server.recover();
  server.forget();
  ASSERT_EQ(d.sluice({"rerun", "--failed"}).exit, 0);
  EXPECT_EQ(server.asked_about(), (std::set<std::string>{"bad one", "sick one"}));
}

TEST(Rerun, IdsOnTheLineOrInAFile) {
  moody_server server;
  server.recover();
  const desk d(server.endpoint);
  d.folder.write("in.jsonl", mixed);
  ASSERT_EQ(d.sluice({"run", "in.jsonl"}).exit, 0);
  server.forget();
  ASSERT_EQ(d.sluice({"rerun", "--ids", "g1,b1"}).exit, 0);
  EXPECT_EQ(server.asked_about(), (std::set<std::string>{"good one", "bad one"}));
  server.forget();
  d.folder.write("ids", "g2\r\n\ns1");
  ASSERT_EQ(d.sluice({"rerun", "--ids-from", "ids"}).exit, 0);
  EXPECT_EQ(server.asked_about(), (std::set<std::string>{"good two", "sick one"}));
  EXPECT_EQ(d.status()["documents"], 4);
}

TEST(Rerun, AnUnknownIdEndsItBeforeAnyCall) {
  moody_server server;
  server.recover();
  const desk d(server.endpoint);
  d.folder.write("in.jsonl", mixed);
  ASSERT_EQ(d.sluice({"run", "in.jsonl"}).exit, 0);
  const unsigned before = testing::calls(server.endpoint);
  const auto end = d.sluice({"rerun", "--ids", "g1,nobody,none"});
  EXPECT_EQ(end.exit, 65);
  EXPECT_THAT(end.err, HasSubstr("nobody"));
  EXPECT_EQ(testing::calls(server.endpoint), before);
  EXPECT_EQ(d.sluice({"rerun", "--ids-from", "no-such-file"}).exit, 65);
  EXPECT_EQ(d.sluice({"rerun", "no-such-run"}).exit, 65);
  EXPECT_EQ(testing::calls(server.endpoint), before);
}

TEST(Rerun, WorksFromAnotherFolder) {
  moody_server server;
  const desk d(server.endpoint);
  d.folder.write("in/bad.txt", "bad file");
  d.folder.write("lines.jsonl", R"({"id": "l1", "text": "bad line"})");
  ASSERT_EQ(d.sluice({"run", "in", "lines.jsonl"}).exit, 3);
  server.recover();
  server.forget();
  std::filesystem::create_directory(d.folder.at("elsewhere"));
  auto o = d.prepare({"rerun", "--store", "../sluice.db"});
  o.folder = d.folder.at("elsewhere");
  const auto end = run_process(o);
  EXPECT_EQ(end.exit, 0) << ::testing::PrintToString(end);
  EXPECT_EQ(server.asked_about(), (std::set<std::string>{"bad file", "bad line"}));
}

TEST(Rerun, AMissingDocumentFailsAloneAndSaysWhere) {
  moody_server server;
  const desk d(server.endpoint);
  d.folder.write("in/bad1.txt", "bad one");
  d.folder.write("in/bad2.txt", "bad two");
  ASSERT_EQ(d.sluice({"run", "in"}).exit, 3);
  server.recover();
  std::filesystem::remove(d.folder.at("in/bad1.txt"));
  EXPECT_EQ(d.sluice({"rerun"}).exit, 3);
  EXPECT_EQ(d.result_of("bad1.txt", "reason"), "document_missing");
  EXPECT_THAT(d.result_of("bad1.txt", "detail").get<std::string>(), HasSubstr("in/bad1.txt"));
  EXPECT_EQ(d.result_of("bad2.txt"), "succeeded");
}

TEST(Rerun, DocumentsFromStandardInputComeFromTheStore) {
  moody_server server;
  const desk d(server.endpoint);
  ASSERT_EQ(d.sluice_reading(mixed, {"run", "-"}).exit, 3);
  server.recover();
  server.forget();
  const auto end = d.sluice({"rerun"});
  EXPECT_EQ(end.exit, 0) << ::testing::PrintToString(end);
  EXPECT_EQ(server.asked_about(), (std::set<std::string>{"bad one", "sick one"}));
}

TEST(Rerun, ANextRunTakesUpTransientFailuresByItselfAndSkipsPermanentOnes) {
  moody_server server;
  const desk d(server.endpoint);
  d.folder.write("in.jsonl", mixed);
  ASSERT_EQ(d.sluice({"run", "in.jsonl"}).exit, 3);
  EXPECT_EQ(d.result_of("b1", "class"), "permanent");
  EXPECT_EQ(d.result_of("s1", "class"), "transient");
  server.recover();
  server.forget();
  EXPECT_EQ(d.sluice({"run", "in.jsonl"}).exit, 3) << "the code speaks for the skipped ones too";
  EXPECT_EQ(server.asked_about(), (std::set<std::string>{"sick one"}));
}

}  // namespace
}  // namespace sluice
