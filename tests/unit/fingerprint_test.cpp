#include "pipeline/outcomes/fingerprint.hpp"

#include <gtest/gtest.h>

#include <set>

namespace sluice::pipeline {
namespace {

document texted(std::string text) {
  document d;
  d.id = "a";
  d.text = std::move(text);
  return d;
}

TEST(Fingerprint, IsTheSameForTheSameInputs) {
  const fingerprinter one("http://a", "m", "{}", "p");
  const fingerprinter other("http://a", "m", "{}", "p");
  EXPECT_EQ(one.of(texted("x")), other.of(texted("x")));
  EXPECT_EQ(one.of(texted("x")), one.of(texted("x"))) << "the run's part is not used up";
}

TEST(Fingerprint, ChangesWithEveryPart) {
  std::set<fingerprint> all;
  all.insert(fingerprinter("http://a", "m", "{}", "p").of(texted("x")));
  all.insert(fingerprinter("http://b", "m", "{}", "p").of(texted("x")));
  all.insert(fingerprinter("http://a", "n", "{}", "p").of(texted("x")));
  all.insert(fingerprinter("http://a", "m", "[]", "p").of(texted("x")));
  all.insert(fingerprinter("http://a", "m", "{}", "q").of(texted("x")));
  all.insert(fingerprinter("http://a", "m", "{}", "p").of(texted("y")));
  document conversation;
  conversation.messages = "x";
  all.insert(fingerprinter("http://a", "m", "{}", "p").of(conversation));
  EXPECT_EQ(all.size(), 7U);
}

TEST(Fingerprint, DoesNotMistakeOneSplitForAnother) {
  EXPECT_NE(fingerprinter("ab", "c", "", "").of(texted("x")),
            fingerprinter("a", "bc", "", "").of(texted("x")));
  EXPECT_NE(fingerprinter("", "", "", "p").of(texted("x")),
            fingerprinter("", "", "", "").of(texted("px")));
}

TEST(Fingerprint, LeavesTheIdOut) {
  const fingerprinter f("http://a", "m", "{}", "p");
  document renamed = texted("x");
  renamed.id = "b";
  EXPECT_EQ(f.of(texted("x")), f.of(renamed));
}

}  // namespace
}  // namespace sluice::pipeline
