// Every field case of answers and transport: the scenario's server, the real pipeline, and what is
// to become of each document. Cases of other layers are listed in tests/field_cases.tsv.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "app/exit_codes.hpp"
#include "fixtures/fake_endpoint.hpp"
#include "fixtures/scenario.hpp"
#include "pipeline/admission/limit.hpp"
#include "tests/support/certificates.hpp"
#include "tests/support/raw_server.hpp"
#include "tests/support/sockets_world.hpp"

namespace sluice::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const fs::path scenarios = fs::path(SLUICE_SOURCE_DIR) / "fixtures/scenarios";

struct field_case {
  std::string name;  // of the test: the number, and the title as one word
  fs::path file;
  json what;
};

std::string as_one_word(const std::string& title) {
  std::string out;
  bool start = true;
  for (const char c : title) {
    const bool word = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (word) out += start ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    start = !word;
  }
  return out;
}

std::vector<field_case> all_cases() {
  std::vector<field_case> out;
  for (const auto& entry : fs::directory_iterator(scenarios)) {
    if (!entry.path().filename().string().starts_with("case-")) continue;
    field_case c;
    c.file = entry.path();
    c.what = json::parse(std::ifstream(entry.path()));
    c.name = "N" + std::to_string(c.what["case"].get<int>()) + "_" +
             as_one_word(c.what["title"].get<std::string>());
    const json client = c.what.value("client", json::object());
    if (client.contains("tls")) c.name += "_" + client["tls"].get<std::string>();
    out.push_back(std::move(c));
  }
  std::ranges::sort(out, {}, &field_case::name);
  return out;
}

duration time_in(const json& j) {
  return pipeline::parse_duration_option(j.get<std::string>());
}

// The servers of one scenario: the fake endpoint, or one whose TLS is at fault.
struct served {
  explicit served(const field_case& c) {
    const json client = c.what.value("client", json::object());
    if (client.contains("tls")) {
      certificate_wish wish;
      const std::string fault = client["tls"];
      if (fault == "expired") wish.until = -std::chrono::hours(1);
      if (fault == "not_yet_valid") wish.from = std::chrono::hours(1);
      if (fault == "wrong_host") wish.alternative = "DNS:elsewhere.example";
      self = make_identity(wish);
      if (fault != "self_signed") ca = std::make_unique<scratch_file>(self.certificate);
      raw_server_options options;
      if (fault != "none_at_all") options.tls = &self;
      tls = std::make_unique<raw_server>(std::vector<script>{{read_request()}}, options);
      setup.http.url = provider::parse_base_url("https://127.0.0.1:" + std::to_string(tls->port()));
      if (ca) setup.http.ca_file = ca->path();
    } else {
      fixtures::fake_options options;
      options.limit.reset();
      options.script = fixtures::load_scenario(c.file, 1);
      plain = std::make_unique<fixtures::fake_endpoint>(options);
      setup.http.url = provider::parse_base_url(plain->url());
    }
    setup.http.api_key = "sk-field-case-4711";
    setup.http.timeout = time_in(client.value("timeout", json("20s")));
    setup.http.idle_timeout = time_in(client.value("idle_timeout", json("20s")));
    setup.http.max_response = client.value("max_response", std::size_t{2} << 20U);
    setup.batch.concurrency = client.value("concurrency", 1U);
    setup.batch.hands_per_permit = client.value("hands_per_permit", 1U);
    setup.batch.seed = 7;
    if (client.contains("max_wait")) setup.batch.patience.max_wait = time_in(client["max_wait"]);
    if (client.contains("max_outage")) setup.batch.max_outage = time_in(client["max_outage"]);
    for (const json& l : client.value("limits", json::array()))
      setup.batch.limits.push_back(pipeline::parse_limit(l.get<std::string>()));
  }

  std::unique_ptr<fixtures::fake_endpoint> plain;
  identity self;
  std::unique_ptr<scratch_file> ca;
  std::unique_ptr<raw_server> tls;
  socket_setup setup;
};

std::string act_name(const retry::decision& d) {
  switch (d.what) {
    case retry::decision::act::done:
      return "done";
    case retry::decision::act::again:
      return "again";
    case retry::decision::act::give_up:
      return "give up";
    case retry::decision::act::stop_run:
      return "stop";
  }
  return "";
}

std::string seconds(duration d) {
  std::ostringstream out;
  out << std::chrono::duration<double>(d).count() << " s";
  return out.str();
}

void check_first(const json& expected, const socket_run& run, const std::string& id) {
  const auto first =
      std::ranges::find_if(run.attempts, [&](const auto& a) { return a.first.document_id == id; });
  ASSERT_NE(first, run.attempts.end()) << "no call was made";
  const auto& [record, decision] = *first;
  for (const auto& [key, value] : expected.items()) {
    if (key == "signal") {
      EXPECT_EQ(retry::name(record.why), value) << record.detail;
    }
    if (key == "status") {
      EXPECT_EQ(record.http_status, value);
    }
    if (key == "decision") {
      EXPECT_EQ(act_name(decision), value);
    }
    if (key == "detail") {
      EXPECT_NE(record.detail.find(value.get<std::string>()), std::string::npos) << record.detail;
    }
    if (key == "billed") {
      EXPECT_EQ(record.may_have_been_billed, value);
    }
    if (key == "wait") {
      const duration delay = std::max(decision.delay, decision.cool_down.value_or(duration{}));
      EXPECT_GE(delay, time_in(value[0])) << seconds(delay);
      EXPECT_LE(delay, time_in(value[1])) << seconds(delay);
    }
  }
}

void check_end(const json& expected, const socket_run& run, const std::string& id) {
  const auto end =
      std::ranges::find_if(run.outcomes, [&](const auto& o) { return o.document_id == id; });
  ASSERT_NE(end, run.outcomes.end());
  for (const auto& [key, value] : expected.items()) {
    if (key == "outcome") {
      EXPECT_EQ(retry::name(end->outcome), value) << end->detail;
    }
    if (key == "reason") {
      EXPECT_EQ(retry::name(end->why), value);
    }
    if (key == "class") {
      EXPECT_EQ(retry::name(end->kind), value);
    }
    if (key == "attempts") {
      EXPECT_EQ(end->attempts, value);
    }
    if (key == "text") {
      EXPECT_EQ(end->text, value);
    }
    if (key == "tokens") {
      const auto count = [](const std::optional<std::int64_t>& n) { return n ? json(*n) : json(); };
      EXPECT_EQ(
          json::array({count(end->tokens.prompt_tokens), count(end->tokens.completion_tokens)}),
          value);
    }
  }
}

// The row of the table that scripts/field-cases prints.
void print_row(const field_case& c, const std::string& id, const socket_run& run) {
  const auto first =
      std::ranges::find_if(run.attempts, [&](const auto& a) { return a.first.document_id == id; });
  const auto end =
      std::ranges::find_if(run.outcomes, [&](const auto& o) { return o.document_id == id; });
  if (first == run.attempts.end() || end == run.outcomes.end()) return;
  std::string decision = act_name(first->second);
  const duration wait = std::max(first->second.delay, first->second.cool_down.value_or(duration{}));
  if (decision == "again") decision += " after " + seconds(wait);
  std::string outcome(retry::name(end->outcome));
  if (end->why != retry::reason::ok) outcome += " (" + std::string(retry::name(end->why)) + ")";
  std::cout << "FIELD-CASE\t" << c.what["case"].get<int>() << '\t'
            << c.what["title"].get<std::string>() << (id == "it" ? "" : ": " + id) << '\t'
            << c.what["layer"].get<std::string>() << '\t' << retry::name(first->first.why) << '\t'
            << decision << '\t' << outcome << ", exit " << app::exit_codes::of(run.result, 0)
            << '\n';
}

void check_run(const json& expected, const socket_run& run) {
  if (expected.contains("exit")) {
    EXPECT_EQ(app::exit_codes::of(run.result, 0), expected["exit"]);
  }
  if (expected.contains("calls")) {
    EXPECT_EQ(run.result.calls, expected["calls"]);
  }
  if (expected.contains("come_back")) {
    ASSERT_TRUE(run.result.stopped && run.result.stopped->come_back);
    EXPECT_GE(*run.result.stopped->come_back, time_in(expected["come_back"][0]));
    EXPECT_LE(*run.result.stopped->come_back, time_in(expected["come_back"][1]));
  }
}

class FieldCase : public ::testing::TestWithParam<field_case> {};

// Each document is a run of its own, unless the case is about what they do to each other.
TEST_P(FieldCase, Holds) {
  const field_case& c = GetParam();
  served by(c);
  const json& documents = c.what["documents"];
  if (c.what.value("client", json::object()).value("together", false)) {
    for (const auto& [id, expected] : documents.items()) by.setup.documents.emplace_back(id, id);
    const socket_run run = run_over_sockets(by.setup);
    for (const auto& [id, expected] : documents.items()) {
      SCOPED_TRACE(id);
      if (expected.contains("signal")) check_first(expected, run, id);
      check_end(expected, run, id);
      check_run(expected, run);
      print_row(c, id, run);
    }
  } else {
    for (const auto& [id, expected] : documents.items()) {
      SCOPED_TRACE(id);
      by.setup.documents = {{id, id}};
      const socket_run run = run_over_sockets(by.setup);
      check_first(expected, run, id);
      check_end(expected, run, id);
      check_run(expected, run);
      print_row(c, id, run);
    }
  }
  if (by.tls) {
    EXPECT_EQ(by.tls->received().find("sk-field"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, FieldCase, ::testing::ValuesIn(all_cases()),
                         [](const auto& p) { return p.param.name; });

std::vector<std::string> columns(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, '\t');) out.push_back(field);
  return out;
}

// What stands in the list but in no source would be a promise that nobody keeps.
TEST(FieldCases, OfOtherLayersAreHeldByTheTestsThatTheListNames) {
  std::string sources;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(SLUICE_SOURCE_DIR) / "tests"))
    if (entry.path().extension() == ".cpp") {
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      sources += text.str();
    }
  std::ifstream list(fs::path(SLUICE_SOURCE_DIR) / "tests/field_cases.tsv");
  std::set<int> numbers;
  for (std::string line; std::getline(list, line);) {
    if (line.starts_with('#')) continue;
    const auto row = columns(line);
    ASSERT_EQ(row.size(), 6U) << line;
    numbers.insert(std::stoi(row[0]));
    const auto dot = row[3].find('.');
    const std::string test = "(" + row[3].substr(0, dot) + ", " + row[3].substr(dot + 1) + ")";
    EXPECT_NE(sources.find(test), std::string::npos) << line;
  }
  for (const field_case& c : all_cases()) numbers.insert(c.what["case"].get<int>());
  // As many as the bug reports that this list was drawn from.
  EXPECT_EQ(numbers.size(), 71U);
}

}  // namespace
}  // namespace sluice::testing
