// What can be wrong with a call, its configuration, its input and its disk: each ends with the exit
// code of its kind and one line that names the thing, the cause and the remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>

#include "tests/support/kill_trial.hpp"
#include "tests/support/sluice_process.hpp"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::desk;
using ::testing::HasSubstr;
using ::testing::Not;

// One line for people, without a trace of the machinery.
void expect_one_clear_line(const testing::process_end& end, const std::vector<std::string>& words) {
  const auto lines = testing::lines_of(end.err);
  ASSERT_EQ(lines.size(), 1U) << ::testing::PrintToString(end);
  EXPECT_TRUE(lines[0].starts_with("sluice: ")) << lines[0];
  for (const std::string& word : words) EXPECT_THAT(lines[0], HasSubstr(word));
  for (const char* never :
       {"terminate", "what()", "exception", "inside sluice", ".cpp", "Sanitizer"})
    EXPECT_THAT(lines[0], Not(HasSubstr(never)));
  EXPECT_EQ(end.out, "");
}

struct mistake {
  const char* name;
  int exit;
  testing::arguments words;
  std::map<std::string, std::string> environment;
  std::vector<std::string> says;  ///< thing, cause and remedy
};

void PrintTo(const mistake& m, std::ostream* to) {
  *to << m.name;
}

const testing::arguments good_call{"run", "in.jsonl"};

testing::arguments run_with(std::initializer_list<std::string> more) {
  testing::arguments words = good_call;
  words.insert(words.end(), more);
  return words;
}

const std::vector<mistake> mistakes{
    {"no_key",
     78,
     run_with({"--endpoint", "https://api.example.com/v1"}),
     {},
     {"key", "api.example.com", "OPENAI_API_KEY", "--api-key-file"}},
    {"no_endpoint",
     78,
     good_call,
     {{"SLUICE_ENDPOINT", ""}},
     {"endpoint", "--endpoint", "OPENAI_BASE_URL"}},
    {"no_model", 78, good_call, {{"SLUICE_MODEL", ""}}, {"model", "--model"}},
    {"bad_url", 78, run_with({"--endpoint", "ht!tp://nowhere"}), {}, {"--endpoint", "ht!tp", ";"}},
    {"url_without_scheme",
     78,
     run_with({"--endpoint", "api.example.com/v1"}),
     {},
     {"endpoint", "api.example.com", "http"}},
    {"url_with_other_scheme",
     78,
     run_with({"--endpoint", "ftp://127.0.0.1/v1"}),
     {},
     {"ftp", "http"}},
    {"missing_input", 65, {"run", "no-such.jsonl"}, {}, {"no-such.jsonl", ";"}},
    {"missing_input_among_good", 65, run_with({"nowhere"}), {}, {"nowhere", ";"}},
    {"device_as_input", 65, {"run", "/dev/null"}, {}, {"/dev/null", ";"}},
    {"standard_input_twice", 65, {"run", "-", "-"}, {}, {"-", ";"}},
    {"malformed_limit", 64, run_with({"--limit", "ten/60s"}), {}, {"--limit", "ten/60s"}},
    {"zero_limit", 64, run_with({"--limit", "0/60s"}), {}, {"--limit", "0/60s"}},
    {"malformed_limit_in_variable",
     78,
     good_call,
     {{"SLUICE_LIMIT", "lots"}},
     {"limit", "lots", "environment"}},
    {"malformed_limit_in_file",
     78,
     run_with({"--config", "limit.toml"}),
     {},
     {"limit.toml", "limit", "lots"}},
    {"malformed_duration", 64, run_with({"--timeout", "soon"}), {}, {"--timeout", "soon"}},
    {"malformed_number",
     64,
     run_with({"--concurrency", "many"}),
     {},
     {"--concurrency", "many", "whole number"}},
    {"no_concurrency", 64, run_with({"--concurrency", "0"}), {}, {"--concurrency", "0"}},
    {"no_time", 64, run_with({"--timeout", "0s"}), {}, {"--timeout", "0s", "60s"}},
    {"unknown_pace", 64, run_with({"--pace", "fast"}), {}, {"--pace", "fast", "smooth", "burst"}},
    {"unknown_level", 64, run_with({"--log-level", "loud"}), {}, {"--log-level", "loud", "debug"}},
    {"malformed_extra", 64, run_with({"--extra-json", "[1]"}), {}, {"--extra-json", "object"}},
    {"unknown_option", 64, run_with({"--speed", "9"}), {}, {"--speed", "--help"}},
    {"unknown_subcommand", 64, {"walk", "in.jsonl"}, {}, {"walk", "--help"}},
    {"nothing", 64, {}, {}, {"--help"}},
    {"run_without_input", 64, {"run"}, {}, {"documents", "--help"}},
    {"option_without_value", 64, run_with({"--model"}), {}, {"--model", "--help"}},
    {"rerun_failed_and_ids", 64, {"rerun", "--failed", "--ids", "a"}, {}, {"--failed", "--ids"}},
    {"unknown_format", 64, {"results", "--format", "xml"}, {}, {"--format", "xml", "jsonl"}},
    {"config_with_unknown_key",
     78,
     run_with({"--config", "unknown.toml"}),
     {},
     {"unknown.toml", "speed", "--help"}},
    {"config_says_it_twice",
     78,
     run_with({"--config", "twice.toml"}),
     {},
     {"twice.toml", "--model", "2 times", "once"}},
    {"config_missing",
     78,
     run_with({"--config", "missing.toml"}),
     {},
     {"missing.toml", "cannot be read", "check"}},
    {"config_missing_in_variable",
     78,
     good_call,
     {{"SLUICE_CONFIG", "missing.toml"}},
     {"missing.toml", "check"}},
    {"config_malformed", 78, run_with({"--config", "garbage.toml"}), {}, {"garbage.toml"}},
    {"key_file_open_to_others",
     78,
     run_with({"--api-key-file", "open.key"}),
     {},
     {"open.key", "others", "chmod 600"}},
    {"key_file_missing", 78, run_with({"--api-key-file", "no.key"}), {}, {"no.key", "check"}},
    {"key_with_control_character",
     78,
     good_call,
     {{"OPENAI_API_KEY", "sk-te\nst"}},
     {"OPENAI_API_KEY", "control character"}},
    {"key_in_the_url",
     78,
     run_with({"--endpoint", "http://127.0.0.1:9/sk-hidden"}),
     {{"OPENAI_API_KEY", "sk-hidden"}},
     {"--endpoint", "key"}},
    {"ca_file_missing",
     78,
     run_with({"--endpoint", "https://127.0.0.1:9/v1", "--ca-file", "no.pem"}),
     {},
     {"no.pem"}},
    {"ids_file_missing", 65, {"rerun", "--ids-from", "no.ids"}, {}, {"no.ids", "check"}},
    {"status_without_store", 65, {"status"}, {}, {"sluice.db", "sluice run"}},
    {"results_without_store", 65, {"results"}, {}, {"sluice.db", "sluice run"}},
    {"rerun_without_store", 65, {"rerun"}, {}, {"sluice.db", "sluice run"}},
    {"store_below_a_file",
     74,
     run_with({"--store", "in.jsonl/x.db"}),
     {},
     {"in.jsonl/x.db", "--store"}},
    {"store_in_no_folder",
     74,
     run_with({"--store", "no/such/x.db"}),
     {},
     {"no/such/x.db", "--store"}},
    {"store_where_no_file_can_be",
     74,
     run_with({"--store", "/proc/x.db"}),
     {},
     {"/proc/x.db", "--store"}},
    {"store_is_a_folder", 74, run_with({"--store", "."}), {}, {"folder", "--store"}},
    {"store_is_no_database", 74, run_with({"--store", "in.jsonl"}), {}, {"in.jsonl", "--store"}},
    {"output_into_no_folder",
     74,
     {"results", "-o", "no/such/out"},
     {},
     {"no/such/out", "No such file", ";"}},
    {"scenario_missing", 78, {"fake-endpoint", "--scenario", "no.json"}, {}, {"no.json"}},
    {"listen_without_port",
     64,
     {"fake-endpoint", "--listen", "localhost"},
     {},
     {"--listen", "port"}},
};

class BadInput : public ::testing::TestWithParam<mistake> {};

TEST_P(BadInput, EndsWithItsCodeAndOneClearLineBeforeAnyCall) {
  const mistake& m = GetParam();
  fixtures::fake_endpoint server(testing::unlimited());
  desk d(server);
  for (const auto& [name, value] : m.environment) d.environment[name] = value;
  d.folder.write("in.jsonl", testing::numbered_documents(3));
  d.folder.write("limit.toml", "limit = \"lots\"\n");
  d.folder.write("twice.toml", "model = \"a\"\nmodel = \"b\"\n");
  d.folder.write("unknown.toml", "speed = \"9\"\n");
  d.folder.write("garbage.toml", "\x01\x02 = [ \"\n]]]");
  std::filesystem::permissions(d.folder.write("open.key", "sk-test"), std::filesystem::perms(0644));
  const auto end = d.sluice(m.words);
  EXPECT_EQ(end.exit, m.exit) << ::testing::PrintToString(end);
  expect_one_clear_line(end, m.says);
  EXPECT_EQ(testing::calls(server), 0U);
}

std::string name_of(const ::testing::TestParamInfo<mistake>& of) {
  return of.param.name;
}
INSTANTIATE_TEST_SUITE_P(Table, BadInput, ::testing::ValuesIn(mistakes), name_of);

TEST(BadInputs, BadDocumentsAmongGoodOnesFailAlone) {
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  d.folder.write("in.jsonl", R"({"id": "good", "text": "fine"})"
                             "\nnot json\n"
                             R"({"text": "no id"})"
                             "\n"
                             R"({"id": "none"})"
                             "\n"
                             R"({"id": "good", "text": "twice"})"
                             "\n"
                             R"({"id": "blank", "text": "  "})"
                             "\n"
                             R"({"id": "last", "text": "fine too"})"
                             "\n");
  d.folder.write("binary.txt", std::string("\xff\xfe\x00\x01", 4));
  const auto end = d.sluice({"run", "in.jsonl", "binary.txt"});
  EXPECT_EQ(end.exit, 3) << ::testing::PrintToString(end);
  EXPECT_EQ(testing::calls(server), 2U);
  EXPECT_EQ(d.result_of("good"), "succeeded");
  EXPECT_EQ(d.result_of("last"), "succeeded");
  EXPECT_EQ(d.result_of("in.jsonl:2", "reason"), "input_error");
  EXPECT_EQ(d.result_of("in.jsonl:3", "reason"), "input_error");
  EXPECT_EQ(d.result_of("in.jsonl:4", "reason"), "input_error");
  EXPECT_EQ(d.result_of("in.jsonl:5", "reason"), "duplicate_id");
  EXPECT_EQ(d.result_of("blank", "reason"), "empty_input");
  EXPECT_EQ(d.result_of("binary.txt", "reason"), "input_error");
  EXPECT_EQ(d.status()["failed"], 6);
}

TEST(BadInputs, AStoreOfANewerVersionIsLeftAlone) {
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(2));
  ASSERT_EQ(d.sluice(good_call).exit, 0);
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(d.folder.at("sluice.db").c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "PRAGMA user_version = 999", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  for (const testing::arguments& words :
       {testing::arguments{"run", "in.jsonl", "--again"}, {"status"}, {"results"}, {"rerun"}}) {
    const auto end = d.sluice(words);
    EXPECT_EQ(end.exit, 78) << words[0];
    expect_one_clear_line(end, {"sluice.db", "newer", "999", "--store"});
  }
  EXPECT_EQ(testing::calls(server), 2U);
}

TEST(BadInputs, AnotherProgramsDatabaseIsLeftAlone) {
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(2));
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(d.folder.at("sluice.db").c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "CREATE TABLE diary (day)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  const auto end = d.sluice(good_call);
  EXPECT_EQ(end.exit, 74);
  expect_one_clear_line(end, {"sluice.db", "another program", "--store"});
  EXPECT_EQ(testing::calls(server), 0U);
}

TEST(BadInputs, ASecondRunOnOneStoreEndsBeforeAnyCall) {
  std::mutex mutex;
  std::condition_variable changed;
  bool called = false;
  fixtures::fake_options o = testing::unlimited();
  o.latency_min = o.latency_max = 1min;
  o.script = [&](unsigned, const std::string&) {
    const std::lock_guard<std::mutex> lock(mutex);
    called = true;
    changed.notify_all();
    return std::optional<fixtures::scripted_answer>();
  };
  fixtures::fake_endpoint slow(o);
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(2));
  testing::process first(d.prepare({"run", "in.jsonl", "--endpoint", slow.url()}));
  {
    std::unique_lock<std::mutex> lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, 30s, [&] { return called; }));
  }
  const auto second = d.sluice(good_call);
  EXPECT_EQ(second.exit, 75);
  expect_one_clear_line(second, {"in use", std::to_string(first.id()), "--store"});
  // By another spelling it is the same store.
  EXPECT_EQ(d.sluice({"run", "in.jsonl", "--store", "./sluice.db"}).exit, 75);
  EXPECT_EQ(testing::calls(server), 0U);
  // Reading is free meanwhile.
  EXPECT_EQ(d.sluice({"status"}).exit, 0);
  first.send(SIGKILL);
  EXPECT_EQ(first.wait().signal, SIGKILL);
  EXPECT_EQ(d.sluice(good_call).exit, 0) << "a killed run leaves no lock behind";
}

TEST(BadInputs, AFullDiskStopsPayingAndKeepsWhatWasReported) {
  fixtures::fake_options o = testing::unlimited();
  o.latency_min = o.latency_max = 2ms;
  fixtures::fake_endpoint server(o);
  const desk d(server);
  // Every other document fails without a call, and is reported once it is on disk.
  std::string lines;
  for (unsigned i = 0; i < 600; ++i)
    lines += R"({"id": "d)" + std::to_string(i) + R"(", "text": ")" +
             (i % 2 == 1 ? "" : "Document " + std::to_string(i)) + "\"}\n";
  d.folder.write("in.jsonl", lines);
  auto cramped = d.prepare({"run", "in.jsonl", "--concurrency", "4"});
  cramped.largest_file = 600'000;
  const auto end = run_process(cramped);
  EXPECT_EQ(end.exit, 74) << ::testing::PrintToString(end);
  EXPECT_THAT(end.err, HasSubstr("sluice.db"));
  const unsigned paid = testing::calls(server);
  EXPECT_GT(paid, 0U);
  EXPECT_LT(paid, 300U);

  std::set<std::string> kept;
  std::size_t succeeded = 0;
  for (const json& row : d.results()) {
    kept.insert(row["id"]);
    if (row["outcome"] == "succeeded") ++succeeded;
  }
  const auto reported = testing::told_of(end.err, "document_failed");
  EXPECT_FALSE(reported.empty());
  for (const std::string& id : reported) EXPECT_TRUE(kept.contains(id)) << id << " is lost";
  EXPECT_LE(paid, succeeded + 4) << "no more was lost than was under way";

  // With room again, it goes on where it stopped.
  EXPECT_EQ(d.sluice(good_call).exit, 3);
  EXPECT_LE(testing::calls(server), 300U + (paid - succeeded));
  EXPECT_EQ(d.status()["succeeded"], 300);
  EXPECT_EQ(testing::integrity_of(d.folder.at("sluice.db")), "ok");
}

}  // namespace
}  // namespace sluice
