#include "pipeline/documents/jsonl.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/documents/utf8.hpp"

namespace sluice::pipeline {
namespace {

using ::testing::HasSubstr;

std::string cause_of(std::string_view line) {
  const auto parsed = parse_jsonl(line);
  const auto* e = std::get_if<jsonl_error>(&parsed);
  return e != nullptr ? e->cause : "no error";
}

TEST(Jsonl, TakesEveryAcceptedForm) {
  struct {
    const char* line;
    const char* id;
    const char* text;
    const char* messages;
  } const rows[] = {
      {R"({"id":"a","text":"hello"})", "a", "hello", ""},
      {R"({"custom_id":"a","text":"hello"})", "a", "hello", ""},
      {R"({"custom_id":"c","id":"a","text":"hello"})", "a", "hello", ""},
      {R"({"id":null,"custom_id":"c","text":"hello"})", "c", "hello", ""},
      {R"({"id":17,"text":"hello"})", "17", "hello", ""},
      {R"({"id":-3,"text":"hello"})", "-3", "hello", ""},
      {R"({"id":18446744073709551615,"text":"hello"})", "18446744073709551615", "hello", ""},
      {R"( {"text" : "a\nb\u00e9\ud83d\ude00" , "id" : "a" } )", "a",
       "a\nb\xC3\xA9\xF0\x9F\x98\x80", ""},
      {R"({"id":"a","text":""})", "a", "", ""},
      {R"({"id":"../../etc/x","text":"t"})", "../../etc/x", "t", ""},
      {R"({"id":"a","text":"t","other":{"id":"no","text":["deep"]},"list":[{"id":1}]})", "a", "t",
       ""},
      {R"({"id":"a","text":"old","text":"new"})", "a", "new", ""},
      {R"({"id":"a","body":{"model":"m","messages":[{"role":"user","content":"hi"}]}})", "a", "",
       R"([{"role":"user","content":"hi"}])"},
      {R"({"id":"a","text":null,"body":{"messages":[ { "z" : 1 , "a" : [ 1.50 , true , null , {} , [] ] } , {"q":"\"\\\n"} ],"text":"no"}})",
       "a", "", R"([{"z":1,"a":[1.50,true,null,{},[]]},{"q":"\"\\\n"}])"},
      {R"({"id":"a","text":"t","messages":[{"role":"user"}]})", "a", "t", ""},
      {R"({"id":"a","text":"t","body":{"temperature":1}})", "a", "t", ""},
  };
  for (const auto& row : rows) {
    const auto parsed = parse_jsonl(row.line);
    const auto* e = std::get_if<jsonl_entry>(&parsed);
    ASSERT_NE(e, nullptr) << row.line << ": " << cause_of(row.line);
    EXPECT_EQ(e->id, row.id) << row.line;
    EXPECT_EQ(e->text, row.text) << row.line;
    EXPECT_EQ(e->messages, row.messages) << row.line;
    EXPECT_EQ(e->has_messages, !e->messages.empty()) << row.line;
  }
}

TEST(Jsonl, SaysWhatIsWrong) {
  struct {
    std::string line;
    const char* cause;
  } const rows[] = {
      {R"({"text":"hello"})", "no \"id\" and no \"custom_id\""},
      {R"({"id":"a"})", "no \"text\" and no \"body.messages\""},
      {R"({"id":"","text":"t"})", "\"id\" is empty"},
      {R"({"id":1.5,"text":"t"})", "must be a string"},
      {R"({"id":true,"text":"t"})", "must be a string"},
      {R"({"id":["a"],"text":"t"})", "\"id\" is an array"},
      {R"({"custom_id":{},"text":"t"})", "\"custom_id\" is an object"},
      {R"({"id":"a","text":7})", "\"text\" is a number"},
      {R"({"id":"a","text":["t"]})", "\"text\" is an array"},
      {R"({"id":"a","body":"t"})", "\"body\" is a string"},
      {R"({"id":"a","body":{}})", "no \"text\""},
      {R"({"id":"a","body":{"messages":[]}})", "\"body.messages\" is empty"},
      {R"({"id":"a","body":{"messages":"hi"}})", "\"body.messages\" is a string"},
      {R"({"id":"a","body":{"messages":["hi"]}})", "no object"},
      {R"({"id":"a","body":{"messages":[{}]},"body":{}})", "no \"text\""},
      {R"({"id":"a","text":"t","body":{"messages":[{}]}})", "both"},
      {R"({"id":"a\u0000b","text":"t"})", "NUL"},
      {R"({"id":"a","text":"t\u0000"})", "NUL"},
      {"{\"id\":\"" + std::string(1025, 'x') + R"(","text":"t"})", "1025 bytes"},
      {R"({"id":"a","text":"cut \ud83d"})", "surrogate"},
      {R"({"id":"a","text":"cut \ude00 here"})", "surrogate"},
      {R"({"id":"\ud83dx","text":"t"})", "surrogate"},
      {R"({"id":"a","text":"t)", "cut off"},
      {R"({"id":"a","text":"t")", "cut off"},
      {R"({"id":"a","text":"t"}})", "not JSON"},
      {R"({'id':'a'})", "not JSON at byte 2"},
      {"hello", "not JSON"},
      {"[]", "not a JSON object"},
      {"17", "not a JSON object"},
      {"\"a\"", "not a JSON object"},
      {"null", "not a JSON object"},
      {"{\"id\":\"a\",\"text\":\"\xE9t\xE9\"}", "not UTF-8 at byte 19"},
      {"{\"id\":\"a\",\"text\":\"\xED\xA0\x80\"}", "not UTF-8"},
      {std::string("\xFF\xFE{\0", 4), "UTF-16"},
      {std::string(100'000, '['), "not a JSON object"},
      {R"({"id":"a","x":)" + std::string(100'000, '['), "nested deeper"},
      {R"({"id":"a","body":{"messages":)" + std::string(100'000, '['), "nested deeper"},
      {R"({"id":"a","text":1e999})", "not JSON"},
  };
  for (const auto& row : rows)
    EXPECT_THAT(cause_of(row.line), HasSubstr(row.cause)) << row.line.substr(0, 80);
}

TEST(Jsonl, LongestIdIsCountedInBytes) {
  EXPECT_EQ(cause_of("{\"id\":\"" + std::string(1024, 'x') + R"(","text":"t"})"), "no error");
  std::string wide;
  for (int i = 0; i < 513; ++i) wide += "\xC3\xA9";
  EXPECT_THAT(cause_of("{\"id\":\"" + wide + R"(","text":"t"})"), HasSubstr("1026 bytes"));
}

TEST(Jsonl, CutAtEveryByteIsNeverTakenForWhole) {
  const std::string whole =
      R"({"id":"é1","text":"😀\ud83d\ude00 \"x\"","body":{"n":[1,{"a":null}]}})";
  ASSERT_EQ(cause_of(whole), "no error");
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_NE(cause_of(std::string_view(whole).substr(0, n)), "no error") << n;
}

TEST(Jsonl, WritesWhatItReads) {
  const std::string conversation = R"([{"role":"user","content":"é\n"},{"b":1.50,"a":2}])";
  struct {
    const char* id;
    std::string text, messages;
  } const rows[] = {{"a\"b", "line\nline\t\xF0\x9F\x98\x80", ""}, {"1", "", conversation}};
  for (const auto& row : rows) {
    const auto parsed = parse_jsonl(jsonl_line(row.id, row.text, row.messages));
    const auto& e = std::get<jsonl_entry>(parsed);
    EXPECT_EQ(e.id, row.id);
    EXPECT_EQ(e.text, row.text);
    EXPECT_EQ(e.messages, row.messages);
  }
}

TEST(Utf8, FindsTheFirstByteThatDoesNotBelong) {
  struct {
    std::string_view bytes;
    std::optional<std::size_t> bad;
  } const rows[] = {
      {"", std::nullopt},
      {"plain text, longer than eight bytes", std::nullopt},
      {"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xF4\x8F\xBF\xBF", std::nullopt},
      {"abcdefgh\x80", 8U},
      {"a\xC0\xAF", 1U},         // overlong
      {"\xE0\x80\xAF", 0U},      // overlong
      {"\xF0\x80\x80\xAF", 0U},  // overlong
      {"\xED\xA0\x80", 0U},      // a surrogate
      {"\xF4\x90\x80\x80", 0U},  // above U+10FFFF
      {"\xF5\x80\x80\x80", 0U},
      {"ok \xE2\x82", 3U},      // cut
      {"ok \xF0\x9F\x98", 3U},  // cut
      {"\xC3(", 0U},
      {"\xE2\x82(", 0U},
  };
  for (const auto& row : rows) EXPECT_EQ(first_invalid_utf8(row.bytes), row.bad) << row.bytes;
}

TEST(Utf8, ShowsOneValidLineWhateverItIsGiven) {
  EXPECT_EQ(printable("a\nb\x1B\xFF"), "a?b?\xEF\xBF\xBD");
  EXPECT_EQ(printable("\xC3\xA9\xC3\xA9", 3), "\xC3\xA9...");
  EXPECT_EQ(printable("abc", 3), "abc");
  EXPECT_EQ(first_invalid_utf8(printable(std::string(300, '\xC3'))), std::nullopt);
}

TEST(Utf8, KnowsNothingButSpace) {
  EXPECT_TRUE(blank(""));
  EXPECT_TRUE(blank(" \t\r\n\v\f"));
  EXPECT_TRUE(blank("\xC2\xA0\xE3\x80\x80\xE2\x80\x8B"));
  EXPECT_FALSE(blank(" x "));
  EXPECT_FALSE(blank("\xC3\xA9"));
}

}  // namespace
}  // namespace sluice::pipeline
