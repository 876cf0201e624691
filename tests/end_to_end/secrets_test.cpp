// The key reaches the endpoint and nothing else, whatever the endpoint does with it.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/sluice_process.hpp"

namespace sluice {
namespace {

using testing::desk;

const std::string secret = "sk-test-SECRET-0123456789abcdef";

struct echo {
  const char* name;
  int status;
  const char* body;  ///< KEY stands for the key; null: the usual answer
  int exit;
};

void PrintTo(const echo& e, std::ostream* to) {
  *to << e.name;
}

const echo echoes[] = {
    {"success", 200, nullptr, 0},
    {"success_that_echoes", 200,
     R"({"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Your key is KEY."}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}})",
     0},
    {"unauthorized", 401,
     R"({"error":{"message":"Incorrect API key provided: KEY.","type":"invalid_request_error","code":"invalid_api_key"}})",
     77},
    {"server_error", 500,
     R"({"error":{"message":"upstream said Authorization: Bearer KEY","type":"server_error"}})", 3},
    {"server_error_as_a_page", 500, "<html><body>Bearer KEY</body></html>", 3},
    {"bad_request", 400, R"({"error":{"message":"KEY is not allowed","code":"KEY","param":"KEY"}})",
     3},
    {"malformed", 200, "KEY", 3},
};

class Clean : public ::testing::Test {
 protected:
  // Every place the key could have been left in.
  static void expect_clean(const desk& d, const testing::process_end& end) {
    EXPECT_EQ(end.out.find(secret), std::string::npos) << end.out;
    EXPECT_EQ(end.err.find(secret), std::string::npos) << end.err;
    unsigned files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(d.folder.at(""))) {
      if (!entry.is_regular_file() || entry.path().filename() == "the.key") continue;
      std::ifstream in(entry.path(), std::ios::binary);
      std::ostringstream text;
      text << in.rdbuf();
      EXPECT_EQ(text.str().find(secret), std::string::npos) << entry.path();
      ++files;
    }
    EXPECT_GE(files, 2U) << "at least the input and the store";
  }
};

class Secrets : public Clean, public ::testing::WithParamInterface<echo> {
 protected:
  static fixtures::fake_options echoing(const echo& e) {
    fixtures::fake_options o = testing::unlimited();
    o.required_key = secret;
    if (e.body == nullptr) return o;
    fixtures::scripted_answer a;
    a.status = e.status;
    a.body = e.body;
    a.headers = {{"Content-Type", e.body[0] == '<' ? "text/html" : "application/json"},
                 {"X-Request-Id", "req-" + secret}};
    for (auto at = a.body.find("KEY"); at != std::string::npos; at = a.body.find("KEY"))
      a.body.replace(at, 3, secret);
    o.script = [a](unsigned, const std::string&) { return std::optional(a); };
    return o;
  }
};

TEST_P(Secrets, StayOutOfLogsStoreAndFiles) {
  fixtures::fake_endpoint server(echoing(GetParam()));
  desk d(server);
  d.environment["OPENAI_API_KEY"] = secret + " \n";
  d.folder.write("in.jsonl", testing::numbered_documents(2));
  testing::process run(d.prepare({"run", "in.jsonl", "--keep-bodies", "--log-level", "debug"}));
  const auto end = run.wait();
  EXPECT_EQ(end.exit, GetParam().exit) << ::testing::PrintToString(end);
  EXPECT_GE(testing::calls(server), 1U);
  expect_clean(d, end);
  expect_clean(d, d.sluice({"results", "-o", "out.jsonl"}));
  expect_clean(d, d.sluice({"results"}));
  expect_clean(d, d.sluice({"status"}));
}

std::string name_of(const ::testing::TestParamInfo<echo>& of) {
  return of.param.name;
}
INSTANTIATE_TEST_SUITE_P(Table, Secrets, ::testing::ValuesIn(echoes), name_of);

TEST(Key, ReachesTheServerFromVariableAndFile) {
  fixtures::fake_options o = testing::unlimited();
  o.required_key = secret;
  fixtures::fake_endpoint server(o);
  desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(2));
  d.environment["OPENAI_API_KEY"] = secret;
  EXPECT_EQ(d.sluice({"run", "in.jsonl"}).exit, 0);
  // A file, of which the end of the line is no part, comes before the variable.
  d.environment["OPENAI_API_KEY"] = "sk-another";
  std::filesystem::permissions(d.folder.write("the.key", secret + "\r\n"),
                               std::filesystem::perms(0600));
  EXPECT_EQ(d.sluice({"run", "in.jsonl", "--again", "--api-key-file", "the.key"}).exit, 0);
  EXPECT_EQ(testing::stats(server)["ok"], 4);
  EXPECT_EQ(d.sluice({"run", "in.jsonl", "--again"}).exit, 77);
  EXPECT_EQ(testing::stats(server)["ok"], 4);
}

TEST_F(Clean, AKeyInTheQueryIsNotKeptEither) {
  fixtures::fake_endpoint server(testing::unlimited());
  desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(1) + "nonsense\n");
  const std::string endpoint = server.url() + "?code=" + secret;
  const auto end = d.sluice({"run", "in.jsonl", "--endpoint", endpoint, "--log-level", "debug"});
  EXPECT_EQ(end.exit, 3);
  EXPECT_EQ(testing::calls(server), 1U);
  expect_clean(d, end);
  // It was not kept, so it has to be said again.
  const auto again = d.sluice({"rerun", "--failed"});
  EXPECT_EQ(again.exit, 78);
  EXPECT_NE(again.err.find("give --endpoint with all of it"), std::string::npos) << again.err;
  expect_clean(d, again);
  EXPECT_EQ(d.sluice({"rerun", "--failed", "--endpoint", endpoint}).exit, 3);
}

TEST(Key, TheStoreIsForItsOwnerAlone) {
  fixtures::fake_endpoint server(testing::unlimited());
  const desk d(server);
  d.folder.write("in.jsonl", testing::numbered_documents(1));
  ASSERT_EQ(d.sluice({"run", "in.jsonl"}).exit, 0);
  for (const auto& entry : std::filesystem::directory_iterator(d.folder.at("")))
    if (entry.path().filename().string().starts_with("sluice.db")) {
      EXPECT_EQ(entry.status().permissions() & std::filesystem::perms(0077),
                std::filesystem::perms::none)
          << entry.path();
    }
}

}  // namespace
}  // namespace sluice
