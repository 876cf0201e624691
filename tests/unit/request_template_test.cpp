// The request body: what is filled in where, and what is refused beforehand.
#include "provider/request_template.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace sluice::provider {
namespace {

using nlohmann::json;

request_options options(std::string prompt = "{text}") {
  request_options o;
  o.model = "small-model";
  o.prompt = std::move(prompt);
  return o;
}

json rendered(const request_template& t, std::string_view id, std::string_view text,
              std::string_view messages = {}) {
  return json::parse(t.render(id, text, messages));
}

std::string user_text(const json& body) {
  return body["messages"].back()["content"];
}

std::string refusal_of(request_options o) {
  try {
    request_template made(std::move(o));
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return {};
}

TEST(RequestTemplate, HoldsModelAndOneUserMessage) {
  const request_template t(options());
  EXPECT_EQ(
      rendered(t, "d1", "hello"),
      json::parse(R"({"model":"small-model","messages":[{"role":"user","content":"hello"}]})"));
}

TEST(RequestTemplate, SetsEveryParameterAndNeverAStream) {
  request_options o = options();
  o.system_prompt = "Be \"brief\".";
  o.max_tokens = 100;
  o.temperature = 0.2;
  o.extra_json = R"({"top_p":0.9,"stream":false,"response_format":{"type":"json_object"}})";
  const json body = rendered(request_template(o), "d1", "hello");
  EXPECT_EQ(body["messages"][0], json::parse(R"({"role":"system","content":"Be \"brief\"."})"));
  EXPECT_EQ(body["max_tokens"], 100);
  EXPECT_EQ(body["temperature"], 0.2);
  EXPECT_EQ(body["top_p"], 0.9);
  EXPECT_EQ(body["response_format"]["type"], "json_object");
  EXPECT_FALSE(body.contains("stream"));
}

TEST(RequestTemplate, FillsInTextAndIdWhereverTheyStand) {
  const request_template t(options("<{id}>\n{text}\n</{id}> {text}{text} {other} {"));
  EXPECT_EQ(user_text(rendered(t, "a/b", "T")), "<a/b>\nT\n</a/b> TT {other} {");
}

TEST(RequestTemplate, MarksInsideTheDocumentAreData) {
  const request_template t(options("{id}: {text}"));
  EXPECT_EQ(user_text(rendered(t, "{text}", "say {id} and {text}")), "{text}: say {id} and {text}");
}

TEST(RequestTemplate, EscapesWhatJsonHasToEscape) {
  const std::string nasty("quote \" back \\ tab \t nul \0 end \x1f \xF0\x9F\x98\x80", 37);
  EXPECT_EQ(user_text(rendered(request_template(options()), "\"\\\n", nasty)), nasty);
}

// Field case 41.
TEST(RequestTemplate, LoneSurrogateInTheRequestIsReplaced) {
  const request_template t(options("{id}{text}"));
  EXPECT_EQ(user_text(rendered(t, "\xFF", "a\xED\xA0\xBD z")),
            "\xEF\xBF\xBD"
            "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD z");
}

TEST(RequestTemplate, SendsTheDocumentsOwnMessagesAsTheyAre) {
  request_options o = options("{id} {text}");
  o.system_prompt = "S";
  const request_template t(o);
  const std::string_view own = R"( [ {"role":"user","content":"{id}","x":1.50} ] )";
  EXPECT_NE(t.render("d", {}, own).find(R"({"role":"user","content":"{id}","x":1.50})"),
            std::string::npos);
  const json body = rendered(t, "d", {}, own);
  ASSERT_EQ(body["messages"].size(), 2U);
  EXPECT_EQ(body["messages"][0]["role"], "system");
  EXPECT_EQ(user_text(body), "{id}");
}

TEST(RequestTemplate, DeeplyNestedMessagesDoNotCrash) {
  const request_template t(options());
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_NE(t.render("d", {}, deep).find(deep.substr(1, deep.size() - 2)), std::string::npos);
}

TEST(RequestTemplate, RefusesMessagesThatAreNone) {
  const request_template t(options());
  for (const char* bad : {"{}", "[]", "[ ]", "x", "[", "[1", "[1]]",
                          "[1],\"stream\":true,\"a\":[2]", "[\"\\ud83d\"]", "[\"\xFF\"]", "   "})
    EXPECT_THROW(t.render("d", {}, bad), std::invalid_argument) << bad;
  EXPECT_THROW(t.render("d", {}, {}), std::invalid_argument);
  EXPECT_THROW(t.render("d", "text", "[1]"), std::invalid_argument);
}

TEST(RequestTemplate, RefusesOptionsWithCauseAndRemedy) {
  const auto with_extra = [](std::string extra) {
    request_options o = options();
    o.max_tokens = 5;
    o.extra_json = std::move(extra);
    return refusal_of(o);
  };
  EXPECT_NE(refusal_of(options("no mark")).find("{text}"), std::string::npos);
  EXPECT_NE(with_extra("[1]").find("not a JSON object"), std::string::npos);
  EXPECT_NE(with_extra("{").find("not a JSON object"), std::string::npos);
  EXPECT_NE(with_extra("7").find("not a JSON object"), std::string::npos);
  EXPECT_NE(with_extra(R"({"messages":[]})").find("\"messages\""), std::string::npos);
  EXPECT_NE(with_extra(R"({"model":"x"})").find("\"model\""), std::string::npos);
  EXPECT_NE(with_extra(R"({"stream":true})").find("stream"), std::string::npos);
  EXPECT_NE(with_extra(R"({"stream":1})").find("stream"), std::string::npos);
  EXPECT_NE(with_extra(R"({"max_tokens":6})").find("twice"), std::string::npos);
  EXPECT_EQ(with_extra(R"({"stream":false})"), "");
  request_options none = options();
  none.model.clear();
  EXPECT_NE(refusal_of(none).find("--model"), std::string::npos);
  request_options zero = options();
  zero.max_tokens = 0;
  EXPECT_NE(refusal_of(zero).find("max_tokens"), std::string::npos);
  EXPECT_NE(refusal_of(options("\xFF{text}")).find("UTF-8"), std::string::npos);
}

TEST(RequestTemplate, ParametersAreCanonical) {
  request_options a = options();
  a.max_tokens = 5;
  a.extra_json = R"({"top_p": 0.5, "seed": 1, "stream": false})";
  request_options b = options();
  b.model = "another";
  b.extra_json = R"({"seed":1,"max_tokens":5,"top_p":0.5})";
  EXPECT_EQ(request_template(a).parameters(), request_template(b).parameters());
  b.temperature = 0;
  EXPECT_NE(request_template(a).parameters(), request_template(b).parameters());
  EXPECT_EQ(request_template(options()).parameters(), "{}");
}

TEST(RequestTemplate, PromptTextTellsSystemFromUser) {
  request_options a = options("b{text}");
  a.system_prompt = "a";
  request_options b = options("{text}");
  b.system_prompt = "ab";
  EXPECT_NE(request_template(a).prompt_text(), request_template(b).prompt_text());
}

TEST(RequestTemplate, EstimatesFromBytesAndTheAnswersLimit) {
  const std::string body(400, 'x');
  EXPECT_EQ(request_template(options()).estimate_tokens(body), 100);
  request_options o = options();
  o.max_tokens = 50;
  EXPECT_EQ(request_template(o).estimate_tokens(body), 150);
  request_options e = options();
  e.extra_json = R"({"max_completion_tokens":70})";
  EXPECT_EQ(request_template(e).estimate_tokens(body), 170);
  e.extra_json = R"({"max_completion_tokens":18446744073709551615})";
  EXPECT_GT(request_template(e).estimate_tokens(body), 0);
}

}  // namespace
}  // namespace sluice::provider
