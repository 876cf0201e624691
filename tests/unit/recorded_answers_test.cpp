// Fixture files: lines, comparisons, and what is expected of a document.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "fixtures/replay.hpp"
#include "pipeline/answers/answer_recording.hpp"
#include "pipeline/answers/difference.hpp"
#include "pipeline/answers/expected_answers.hpp"
#include "pipeline/documents/document.hpp"
#include "pipeline/outcomes/records.hpp"
#include "tests/support/scratch_folder.hpp"

namespace sluice::pipeline {
namespace {

using ::testing::HasSubstr;
using testing::scratch_folder;

recorded_answer sample(const std::string& id = "a", const std::string& text = "in voice\n") {
  recorded_answer a;
  a.id = id;
  a.request = R"({"model": "m", "messages": [{"role":"user","content":"x"}]})";
  a.status = 200;
  a.has_text = true;
  a.text = text;
  a.body = "{\"choices\": [\"\xc3\xa9\"]}\n";
  return a;
}

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

TEST(RecordedAnswer, ComesBackAsItWas) {
  const std::string line = recorded_answer_line(sample());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto parsed = parse_recorded_answer(line);
  const auto* a = std::get_if<recorded_answer>(&parsed);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->id, "a");
  EXPECT_EQ(a->status, 200);
  EXPECT_TRUE(a->has_text);
  EXPECT_EQ(a->text, "in voice\n");
  EXPECT_EQ(a->body, sample().body);
  EXPECT_EQ(a->request,
            canonical_request(R"({"messages":[{"content":"x","role":"user"}],"model":"m"})"));
}

TEST(RecordedAnswer, WithoutATextStaysWithout) {
  recorded_answer a = sample();
  a.has_text = false;
  const auto parsed = parse_recorded_answer(recorded_answer_line(a));
  ASSERT_TRUE(std::holds_alternative<recorded_answer>(parsed));
  EXPECT_FALSE(std::get<recorded_answer>(parsed).has_text);
}

TEST(RecordedAnswer, OtherLinesAreRefusedWithTheirCause) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "not a JSON object"},
      {"[]", "not a JSON object"},
      {R"({"request":{},"status":200,"body":""})", "\"id\""},
      {R"({"id":"a","status":200,"body":""})", "\"request\""},
      {R"({"id":"a","request":[],"status":200,"body":""})", "\"request\""},
      {R"({"id":"a","request":{},"status":"200","body":""})", "\"status\""},
      {R"({"id":"a","request":{},"status":1e99,"body":""})", "\"status\""},
      {R"({"id":"a","request":{},"status":99999999999999999999,"body":""})", "\"status\""},
      {R"({"id":"a","request":{},"status":200})", "\"body\""},
      {R"({"id":"a","request":{},"status":200,"body":"","text":5})", "\"text\""},
  };
  for (const auto& [line, cause] : cases) {
    const auto parsed = parse_recorded_answer(line);
    const auto* e = std::get_if<recorded_answer_error>(&parsed);
    ASSERT_NE(e, nullptr) << line;
    EXPECT_THAT(e->cause, HasSubstr(cause)) << line;
  }
}

TEST(AnswerRecording, AddsLinesThatOnlyTheOwnerMayRead) {
  const scratch_folder folder;
  const std::string path = folder.at("f.jsonl");
  { answer_recording(path).add(sample("a")); }
  { answer_recording(path).add(sample("b")); }
  EXPECT_EQ(content(path),
            recorded_answer_line(sample("a")) + "\n" + recorded_answer_line(sample("b")) + "\n");
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST(AnswerRecording, TakesOffALineLeftHalfWritten) {
  const scratch_folder folder;
  const std::string whole = recorded_answer_line(sample()) + "\n";
  for (const std::string& before : {std::string(), whole}) {
    for (const std::size_t torn : {std::size_t{1}, std::size_t{9}, std::size_t{4095},
                                   std::size_t{4096}, std::size_t{9000}}) {
      const std::string path = folder.write("f.jsonl", before + std::string(torn, 'x'));
      answer_recording(path).add(sample());
      EXPECT_EQ(content(path), before + whole) << torn;
    }
  }
}

TEST(AnswerRecording, AFullDiskNamesTheFileAndTheRemedy) {
  answer_recording full("/dev/full");
  const std::string words = message_of([&] { full.add(sample()); });
  EXPECT_THAT(words, HasSubstr("--record /dev/full"));
  EXPECT_THAT(words, HasSubstr("No space left"));
  EXPECT_THROW(full.add(sample()), storage_failure);
  EXPECT_THROW(answer_recording("/no/such/folder/f"), storage_failure);
}

TEST(Difference, IsByteForByteUnlessToldOtherwise) {
  EXPECT_EQ(difference("a b", "a b", comparison::exact), std::nullopt);
  EXPECT_THAT(*difference("a b", "a  b", comparison::exact), HasSubstr("at byte 3"));
  EXPECT_THAT(*difference("abc", "abcd", comparison::exact),
              HasSubstr("expected \"abc\", got \"abcd\""));
  EXPECT_TRUE(difference("", "x", comparison::exact));
}

TEST(Difference, WhiteSpaceMayBeOneThing) {
  EXPECT_EQ(difference(" a\n\tb ", "a b\r\n", comparison::whitespace), std::nullopt);
  EXPECT_TRUE(difference("ab", "a b", comparison::whitespace));
}

TEST(Difference, JsonIsComparedAsValues) {
  EXPECT_EQ(difference(R"({"a":1,"b":[true]})", R"( {"b":[true], "a":1.0})", comparison::json),
            std::nullopt);
  EXPECT_THAT(*difference(R"({"a":1})", R"({"a":2,"b":3})", comparison::json), HasSubstr("at \"/"));
  EXPECT_THAT(*difference(R"({"a":1})", "sorry", comparison::json), HasSubstr("is no JSON"));
  EXPECT_THAT(*difference("sorry", R"({"a":1})", comparison::json), HasSubstr("expected"));
}

TEST(Difference, ShowsLittleAndNeverHalfACharacter) {
  const std::string much(5000, 'x');
  const std::string one = *difference(much + "é" + much, much + "è" + much, comparison::exact);
  EXPECT_LT(one.size(), 200U);
  EXPECT_EQ(one.find("\xef\xbf\xbd"), std::string::npos) << one;
  EXPECT_THAT(one, HasSubstr("é"));
  EXPECT_THAT(one, HasSubstr("è"));
  EXPECT_EQ(one.find('\n'), std::string::npos);
}

TEST(ExpectedAnswers, TheLastAnswerToADocumentCounts) {
  const scratch_folder folder;
  const std::string path =
      folder.write("f.jsonl", recorded_answer_line(sample("a", "old")) + "\n\n" +
                                  recorded_answer_line(sample("b", "other")) + "\r\n" +
                                  recorded_answer_line(sample("a", "new")));
  expected_answers expected(path, comparison::exact);
  EXPECT_EQ(expected.differs("a", "new"), std::nullopt);
  EXPECT_TRUE(expected.differs("a", "old"));
  EXPECT_EQ(expected.differs("b", "other"), std::nullopt);
  EXPECT_EQ(expected.missing("b"), std::nullopt);
  EXPECT_THAT(*expected.missing("c"), HasSubstr("holds no answer"));
  EXPECT_THAT(*expected.differs("c", "x"), HasSubstr("holds no answer"));
}

TEST(ExpectedAnswers, AnAnswerWithoutTextIsNoExpectation) {
  const scratch_folder folder;
  recorded_answer a = sample();
  a.has_text = false;
  a.status = 400;
  const std::string path = folder.write("f.jsonl", recorded_answer_line(a) + "\n");
  EXPECT_TRUE(expected_answers(path, comparison::exact).missing("a"));
}

TEST(ExpectedAnswers, AFileThatCannotBeUsedNamesItsLine) {
  const scratch_folder folder;
  const std::string path = folder.write("f.jsonl", recorded_answer_line(sample()) + "\n{\n");
  const std::string words = message_of([&] { expected_answers(path, comparison::exact); });
  EXPECT_THAT(words, HasSubstr("f.jsonl:2"));
  EXPECT_THROW(expected_answers(path, comparison::exact), input_failure);
  EXPECT_THROW(expected_answers(folder.at("none"), comparison::exact), input_failure);
}

TEST(Replay, FindsARequestHoweverItIsSpelled) {
  const scratch_folder folder;
  const std::string path = folder.write("f.jsonl", recorded_answer_line(sample()) + "\n");
  const auto replay = fixtures::replay::load(path);
  const auto found = replay.find(
      " {\"messages\": [{\"content\": \"\\u0078\", \"role\":\"user\"}], \"model\":\"m\"}");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->status, 200);
  EXPECT_EQ(found->body, sample().body);
  EXPECT_FALSE(replay.find(R"({"model":"n","messages":[{"role":"user","content":"x"}]})"));
  EXPECT_FALSE(replay.find("no JSON"));
  EXPECT_FALSE(replay.find(""));
}

TEST(Replay, ABadFileNamesItsLine) {
  const scratch_folder folder;
  const std::string path = folder.write("f.jsonl", "{}\n");
  EXPECT_THAT(message_of([&] { fixtures::replay::load(path); }), HasSubstr("f.jsonl:1"));
  EXPECT_THAT(message_of([&] { fixtures::replay::load("/none"); }), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace sluice::pipeline
