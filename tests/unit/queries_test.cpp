#include "pipeline/outcomes/queries.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/store_fixture.hpp"

namespace sluice::pipeline {
namespace {

using namespace std::chrono_literals;
using retry::outcome;
using retry::outcome_class;
using retry::reason;
using sluice::testing::called;
using sluice::testing::ended;
using sluice::testing::StoreTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Queries : public StoreTest {
 protected:
  std::vector<result_row> results(const std::optional<std::string>& run = std::nullopt) {
    std::vector<result_row> rows;
    for_each_result(path, run, [&](const result_row& r) { rows.push_back(r); });
    return rows;
  }
  std::vector<std::string> ids(const std::optional<std::string>& run = std::nullopt) {
    std::vector<std::string> out;
    for (const auto& r : results(run)) out.push_back(r.id + ":" + r.outcome);
    return out;
  }
  std::vector<std::string> chosen(const std::optional<std::string>& run, selection which) {
    std::vector<std::string> out;
    for (const auto& t : rerun_targets(path, run, which).targets) out.push_back(t.id);
    return out;
  }

  // Two runs: the second takes up what the first left.
  void two_runs() {
    {
      const auto store = begin(&first);
      attempt_record refused = called("a", 1, 429);
      refused.retry_after = 52s;
      refused.jitter = 1s;
      store->attempt(refused);
      attempt_record answered = called("a", 2);
      answered.tokens.prompt_tokens = 10;
      answered.tokens.completion_tokens = 3;
      store->attempt(answered);
      outcome_record a = ended("a");
      a.attempts = 2;
      a.waited = 53s;
      record(*store, a);
      store->attempt(called("b", 1, 500));
      record(*store, ended("b", outcome::failed, reason::server_error, outcome_class::transient));
      record(*store, ended("c", outcome::failed, reason::too_large, outcome_class::permanent));
      record(*store, ended("d", outcome::deferred, reason::interrupted));
      clock.wall += 100s;
      store->finish_run(75, R"({"documents":4})");
    }
    clock.wall += 1h;
    {
      const auto store = begin(&second);
      attempt_record refused = called("b", 1, 429);
      refused.retry_after = 10s;
      refused.jitter = 500ms;
      store->attempt(refused);
      store->attempt(called("b", 2));
      record(*store, ended("b"));
      store->attempt(called("d", 1, 500));
      record(*store, ended("d", outcome::failed, reason::timed_out, outcome_class::transient));
      record(*store, ended("e", outcome::mismatched, reason::mismatched, outcome_class::permanent));
      clock.wall += 20s;
      store->finish_run(3, "{}");
    }
  }
  std::string first;
  std::string second;
};

TEST_F(Queries, WholeStoreCountsTheLatestOutcomesAndAllCalls) {
  two_runs();
  const summary s = summarise(path);
  EXPECT_EQ(s.run, second);
  EXPECT_EQ(s.documents, 5U);
  EXPECT_EQ(s.succeeded, 2U);
  EXPECT_EQ(s.failed, 2U);
  EXPECT_EQ(s.failed_permanent, 1U);
  EXPECT_EQ(s.failed_transient, 1U);
  EXPECT_EQ(s.deferred, 0U);
  EXPECT_EQ(s.mismatched, 1U);
  EXPECT_EQ(s.calls, 6U);
  EXPECT_EQ(s.rate_limited, 2U);
  EXPECT_EQ(s.retries, 2U);
  EXPECT_EQ(s.documents_retried, 2U);
  EXPECT_EQ(s.model_wait, 53s);
  EXPECT_EQ(s.elapsed, 120s);
  EXPECT_EQ(s.prompt_tokens, 10);
  EXPECT_EQ(s.completion_tokens, 3);
  EXPECT_EQ(s.retry_after_p50, 10s);
  EXPECT_EQ(s.retry_after_p95, 52s);
  EXPECT_EQ(s.jitter_min, 500ms);
  EXPECT_EQ(s.jitter_max, 1s);
  EXPECT_THAT(s.by_reason, ElementsAre(std::pair("mismatched", 1U), std::pair("timed_out", 1U),
                                       std::pair("too_large", 1U)));
  EXPECT_FALSE(s.unfinished);
  EXPECT_EQ(s.exit, 3);
}

TEST_F(Queries, ANamedRunIsThatRunAlone) {
  two_runs();
  const summary s = summarise(path, first);
  EXPECT_EQ(s.run, first);
  EXPECT_EQ(s.documents, 4U);
  EXPECT_EQ(s.deferred, 1U);
  EXPECT_EQ(s.calls, 3U);
  EXPECT_EQ(s.rate_limited, 1U);
  EXPECT_EQ(s.elapsed, 100s);
  EXPECT_EQ(s.exit, 75);
  EXPECT_EQ(summarise(path, "last").documents, 3U);
  EXPECT_FALSE(summarise(path, "last").prompt_tokens) << "unknown for all is unknown";
  EXPECT_EQ(find_run(path, first).summary_json, R"({"documents":4})");
  EXPECT_EQ(find_run(path).id, second);
  EXPECT_EQ(find_run(path).model, "small");
}

TEST_F(Queries, PercentilesAreByNearestRank) {
  const auto store = begin();
  for (unsigned i = 100; i >= 1; --i) {
    attempt_record a = called("a", i, 429);
    a.retry_after = std::chrono::seconds(i);
    store->attempt(a);
  }
  record(*store, ended("a"));
  EXPECT_EQ(summarise(path).retry_after_p50, 50s);
  EXPECT_EQ(summarise(path).retry_after_p95, 95s);
}

TEST_F(Queries, SummaryKeepsItsFieldNames) {
  two_runs();
  const auto j = nlohmann::json::parse(to_json(summarise(path)));
  for (const char* name :
       {"run", "documents", "succeeded", "failed", "deferred", "mismatched", "calls",
        "rate_limited", "retries", "model_wait_seconds", "elapsed_seconds", "prompt_tokens",
        "completion_tokens", "documents_retried", "retry_after_seconds_p50",
        "retry_after_seconds_p95", "jitter_seconds_min", "jitter_seconds_max"})
    EXPECT_TRUE(j.contains(name)) << name;
  EXPECT_EQ(j["model_wait_seconds"], 53.0);
  EXPECT_EQ(j["jitter_seconds_min"], 0.5);
  EXPECT_EQ(j["by_reason"]["too_large"], 1);
  const auto none = nlohmann::json::parse(to_json(summary()));
  EXPECT_TRUE(none["prompt_tokens"].is_null());
  EXPECT_TRUE(none["jitter_seconds_max"].is_null());
  EXPECT_EQ(to_json(summarise(path)).find('\n'), std::string::npos);
}

TEST_F(Queries, AKilledRunIsUnfinished) {
  {
    const auto store = begin();
    outcome_record r = ended("a");
    r.ended_at = clock.wall + 7s;
    record(*store, r);
  }
  const summary s = summarise(path);
  EXPECT_TRUE(s.unfinished);
  EXPECT_FALSE(s.exit);
  EXPECT_EQ(s.elapsed, 7s);
}

TEST_F(Queries, AnswersWhileARunIsActive) {
  const auto store = begin();
  record(*store, ended("a"));
  EXPECT_EQ(summarise(path).succeeded, 1U);
  EXPECT_THAT(ids(), ElementsAre("a:succeeded"));
}

TEST_F(Queries, ResultsAreTheLatestInTheOrderFirstSeen) {
  two_runs();
  EXPECT_THAT(ids(),
              ElementsAre("a:succeeded", "b:succeeded", "c:failed", "d:failed", "e:mismatched"));
  EXPECT_THAT(ids(first), ElementsAre("a:succeeded", "b:failed", "c:failed", "d:deferred"));
  EXPECT_EQ(results()[0].run, first);
  EXPECT_EQ(results()[1].run, second);
}

TEST_F(Queries, AResultLineKeepsItsFieldNames) {
  {
    const auto store = begin(&first);
    outcome_record r = ended("x\"y", outcome::failed, reason::timed_out, outcome_class::transient);
    r.text = std::string("two\nlines \xC3\xA9 \xFF", 14);
    r.http_status = 504;
    r.request_id = "req-1";
    r.tokens.prompt_tokens = 7;
    r.waited = 1500ms;
    r.took = 2s;
    record(*store, r);
    record(*store, ended("plain"));
  }
  const auto rows = results();
  EXPECT_EQ(to_json_line(rows[0]).find('\n'), std::string::npos);
  const auto j = nlohmann::json::parse(to_json_line(rows[0]));
  EXPECT_EQ(j["id"], "x\"y");
  EXPECT_EQ(j["run"], first);
  EXPECT_EQ(j["outcome"], "failed");
  EXPECT_EQ(j["reason"], "timed_out");
  EXPECT_EQ(j["class"], "transient");
  EXPECT_EQ(j["text"], "two\nlines \xC3\xA9 \xEF\xBF\xBD");
  EXPECT_EQ(j["attempts"], 1);
  EXPECT_EQ(j["http_status"], 504);
  EXPECT_EQ(j["request_id"], "req-1");
  EXPECT_EQ(j["prompt_tokens"], 7);
  EXPECT_TRUE(j["completion_tokens"].is_null());
  EXPECT_EQ(j["wait_seconds"], 1.5);
  EXPECT_EQ(j["duration_seconds"], 2.0);
  const auto plain = nlohmann::json::parse(to_json_line(rows[1]));
  EXPECT_TRUE(plain["class"].is_null());
  EXPECT_TRUE(plain["http_status"].is_null());
  EXPECT_TRUE(plain["request_id"].is_null());
}

TEST_F(Queries, AMendedLineNoLongerCounts) {
  const auto from = [](outcome_record r, std::uint64_t line) {
    r.from.from = origin::kind::jsonl_line;
    r.from.path = "/in/f.jsonl";
    r.from.line = line;
    return r;
  };
  const auto bad = [&](std::uint64_t line) {
    return from(ended("f.jsonl:" + std::to_string(line), outcome::failed, reason::input_error,
                      outcome_class::permanent),
                line);
  };
  {
    const auto store = begin(&first);
    record(*store, from(ended("a"), 1));
    record(*store, bad(2));
    record(*store, bad(3));
  }
  {
    const auto store = begin(&second);
    record(*store, from(ended("b"), 2));
    record(*store, bad(3));
  }
  EXPECT_THAT(ids(), ElementsAre("a:succeeded", "f.jsonl:3:failed", "b:succeeded"));
  EXPECT_EQ(summarise(path).failed, 1U);
  EXPECT_EQ(summarise(path, first).failed, 2U) << "what happened then stays";
}

TEST_F(Queries, RerunTakesWhatTheLastRunLeft) {
  two_runs();
  EXPECT_THAT(chosen(std::nullopt, selection::failed_and_deferred), ElementsAre("d"));
  EXPECT_THAT(chosen(first, selection::failed_and_deferred), ElementsAre("c", "d"))
      << "b has ended well since";
  EXPECT_THAT(chosen(first, selection::failed), ElementsAre("c"));
  const rerun_choice c = rerun_targets(path, first, selection::failed);
  EXPECT_EQ(c.of.id, first);
  EXPECT_EQ(c.of.endpoint, "http://llm.example/v1");
  EXPECT_EQ(c.of.settings_json, R"({"limit":"10/60s"})");
  EXPECT_EQ(c.targets[0].from.path, "/in/c");
}

TEST_F(Queries, RerunByIdTakesAnyKnownDocumentAndNamesTheOthers) {
  two_runs();
  const rerun_choice c =
      rerun_targets(path, std::nullopt, selection::ids, {"c", "nope", "a", "c", "' OR 1"});
  ASSERT_EQ(c.targets.size(), 2U);
  EXPECT_EQ(c.targets[0].id, "c");
  EXPECT_EQ(c.targets[1].id, "a");
  EXPECT_THAT(c.unknown_ids, ElementsAre("nope", "' OR 1"));
}

TEST_F(Queries, RerunKnowsWhereDocumentsCameFrom) {
  {
    const auto store = begin();
    outcome_record piped = ended("p", outcome::deferred, reason::interrupted);
    piped.from.from = origin::kind::standard_input;
    piped.from.path.clear();
    piped.from.line = 4;
    piped.kept_document = R"({"id":"p","text":"t"})";
    record(*store, piped);
    outcome_record relative = ended("r", outcome::deferred, reason::interrupted);
    relative.from.from = origin::kind::jsonl_line;
    relative.from.path = "in/f.jsonl";
    relative.from.line = 9;
    record(*store, relative);
  }
  const auto targets = rerun_targets(path, std::nullopt, selection::failed_and_deferred).targets;
  ASSERT_EQ(targets.size(), 2U);
  EXPECT_EQ(targets[0].from.from, origin::kind::standard_input);
  EXPECT_EQ(targets[0].kept_document, R"({"id":"p","text":"t"})");
  EXPECT_EQ(targets[0].from.line, 4U);
  EXPECT_EQ(targets[1].from.from, origin::kind::jsonl_line);
  EXPECT_EQ(targets[1].from.path, std::filesystem::current_path().string() + "/in/f.jsonl")
      << "so that it is found from any folder";
}

TEST_F(Queries, NothingStoredIsSaidAs65) {
  const auto code = [&](const std::string& at, const std::optional<std::string>& run) {
    try {
      summarise(at, run);
    } catch (const store_error& e) {
      EXPECT_THAT(e.what(), HasSubstr(at));
      return e.code();
    }
    return 0;
  };
  EXPECT_EQ(code(folder.at("none.db"), std::nullopt), 65);
  EXPECT_FALSE(std::filesystem::exists(folder.at("none.db"))) << "asking makes no file";
  EXPECT_EQ(code(folder.write("empty.db", ""), std::nullopt), 65);
  EXPECT_EQ(code(folder.write("text.db", std::string(5000, 'x')), std::nullopt), 74);
  { const auto store = open(); }
  EXPECT_EQ(code(path, std::nullopt), 65);
  begin();
  EXPECT_EQ(code(path, std::nullopt), 0);
  EXPECT_EQ(code(path, "20200101T000000Z-0000"), 65);
  EXPECT_EQ(summarise(path).documents, 0U);
  EXPECT_THAT(results(), IsEmpty());
}

TEST_F(Queries, AStoreInAFolderThatCannotBeWrittenToCanBeRead) {
  const uid_t me = ::geteuid();  // only root has to become somebody with fewer rights
  two_runs();
  namespace fs = std::filesystem;
  fs::permissions(folder.at(""), fs::perms(0555));
  fs::permissions(path, fs::perms(0444));
  if (me == 0) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  std::uint64_t documents = 0;
  std::string words;
  try {
    documents = summarise(path).documents;
  } catch (const store_error& e) {
    words = e.what();
  }
  if (me == 0) {
    ASSERT_EQ(::seteuid(me), 0);
  }
  EXPECT_EQ(documents, 5U) << words;
}

}  // namespace
}  // namespace sluice::pipeline
