// Where an option's value comes from: flag over variable over file over default, for run and rerun.
#include <gtest/gtest.h>

#include <mutex>

#include "tests/support/sluice_process.hpp"

namespace sluice {
namespace {

using testing::desk;

// Remembers the last user message, which shows the prompt that was in force.
class listening_server {
 public:
  listening_server() : endpoint(options()) {}
  std::string last_message() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return last_;
  }

 private:
  fixtures::fake_options options() {
    fixtures::fake_options o = testing::unlimited();
    o.script = [this](unsigned, const std::string& text) {
      const std::lock_guard<std::mutex> lock(mutex_);
      last_ = text;
      return std::optional<fixtures::scripted_answer>();
    };
    return o;
  }
  mutable std::mutex mutex_;
  std::string last_;

 public:
  fixtures::fake_endpoint endpoint;
};

class Settings : public ::testing::Test {
 protected:
  Settings() : d(server.endpoint) {
    d.folder.write("in.txt", "text");
    d.folder.write("file.toml", "prompt = \"file {text}\"\nstore = \"file.db\"\n");
  }
  // The prompt that reached the server.
  std::string prompt_of(testing::arguments words) {
    words.insert(words.begin(), {"run", "in.txt", "--again"});
    const auto end = d.sluice(words);
    EXPECT_EQ(end.exit, 0) << ::testing::PrintToString(end);
    return server.last_message();
  }
  bool exists(const char* name) const { return std::filesystem::exists(d.folder.at(name)); }

  listening_server server;
  desk d;
};

TEST_F(Settings, PromptFlagOverVariableOverFileOverDefault) {
  EXPECT_EQ(prompt_of({}), "text");
  EXPECT_EQ(prompt_of({"--config", "file.toml"}), "file text");
  d.environment["SLUICE_PROMPT"] = "variable {text}";
  EXPECT_EQ(prompt_of({"--config", "file.toml"}), "variable text");
  EXPECT_EQ(prompt_of({"--config", "file.toml", "--prompt", "flag {text}"}), "flag text");
}

TEST_F(Settings, StoreFlagOverVariableOverFileOverDefault) {
  prompt_of({});
  EXPECT_TRUE(exists("sluice.db"));
  prompt_of({"--config", "file.toml"});
  EXPECT_TRUE(exists("file.db"));
  d.environment["SLUICE_STORE"] = "variable.db";
  prompt_of({"--config", "file.toml"});
  EXPECT_TRUE(exists("variable.db"));
  prompt_of({"--config", "file.toml", "--store", "flag.db"});
  EXPECT_TRUE(exists("flag.db"));
  EXPECT_EQ(d.sluice({"status"}).out.find("flag.db"), std::string::npos);
}

TEST_F(Settings, TheConfigFileMayBeNamedByAVariable) {
  d.environment["SLUICE_CONFIG"] = "file.toml";
  EXPECT_EQ(prompt_of({}), "file text");
  d.folder.write("other.toml", "prompt = \"other {text}\"\n");
  EXPECT_EQ(prompt_of({"--config", "other.toml"}), "other text");
}

TEST_F(Settings, EndpointFlagOverVariableOverFileOverTheUsualVariable) {
  fixtures::fake_endpoint named(testing::unlimited());
  d.folder.write("endpoint.toml", "endpoint = \"" + named.url() + "\"\n");
  d.environment.erase("SLUICE_ENDPOINT");
  d.environment["OPENAI_BASE_URL"] = server.endpoint.url();
  EXPECT_EQ(prompt_of({}), "text");
  EXPECT_EQ(testing::calls(server.endpoint), 1U);
  prompt_of({"--config", "endpoint.toml"});
  EXPECT_EQ(testing::calls(named), 1U);
  d.environment["SLUICE_ENDPOINT"] = server.endpoint.url();
  prompt_of({"--config", "endpoint.toml"});
  EXPECT_EQ(testing::calls(server.endpoint), 2U);
  prompt_of({"--endpoint", named.url()});
  EXPECT_EQ(testing::calls(named), 2U);
}

TEST_F(Settings, ALimitReplacesThoseOfLowerSources) {
  d.environment.erase("SLUICE_LIMIT");
  d.environment["SLUICE_PACE"] = "burst";  // no run waits for the one before
  d.folder.write("limits.toml", "limit = [\"10/60s\", \"1000/1d\"]\n");
  const auto limits_with = [&](testing::arguments words) {
    words.insert(words.begin(), {"run", "in.txt", "--again"});
    const std::string log = d.sluice(words).err;
    const auto at = log.find(" limit=");
    return at == std::string::npos ? log : log.substr(at + 7, log.find('\n', at) - at - 7);
  };
  EXPECT_EQ(limits_with({}), "10/60s");
  EXPECT_EQ(limits_with({"--config", "limits.toml"}), "\"10/60s 1000/1d\"");
  d.environment["SLUICE_LIMIT"] = "7/1s 90/1m";
  EXPECT_EQ(limits_with({"--config", "limits.toml"}), "\"7/1s 90/60s\"");
  EXPECT_EQ(limits_with({"--limit", "5/1s"}), "5/1s");
  EXPECT_EQ(limits_with({"--limit", "none"}), "none");
}

TEST_F(Settings, FlagsThatTakeNoValueCanBeSetAnywhere) {
  d.folder.write("quiet.toml", "quiet = true\n");
  EXPECT_EQ(d.sluice({"run", "in.txt", "--config", "quiet.toml"}).err, "");
  d.environment["SLUICE_QUIET"] = "0";
  EXPECT_NE(d.sluice({"run", "in.txt", "--config", "quiet.toml"}).err, "");
  EXPECT_EQ(d.sluice({"run", "in.txt", "--quiet"}).err, "");
}

TEST_F(Settings, RerunAsksAsItsRunDidUnlessAFlagSaysOtherwise) {
  prompt_of({"--prompt", "run {text}", "--model", "run-model"});
  EXPECT_EQ(d.sluice({"rerun", "--ids", "in.txt"}).exit, 0);
  EXPECT_EQ(server.last_message(), "run text");
  // Whoever re-runs by hand sits in a shell of their own: the run's own settings weigh more.
  d.environment["SLUICE_PROMPT"] = "variable {text}";
  EXPECT_EQ(d.sluice({"rerun", "--ids", "in.txt"}).exit, 0);
  EXPECT_EQ(server.last_message(), "run text");
  EXPECT_EQ(d.sluice({"rerun", "--ids", "in.txt", "--prompt", "flag {text}"}).exit, 0);
  EXPECT_EQ(server.last_message(), "flag text");
}

}  // namespace
}  // namespace sluice
