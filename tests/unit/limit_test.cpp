// Limits and durations as people write them, and what they are told when they slip.
#include "pipeline/admission/limit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace sluice::pipeline {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct good_limit {
  const char* text;
  std::int64_t amount;
  duration window;
  limit_unit unit;
};

TEST(Limit, IsReadAsPeopleWriteIt) {
  const good_limit cases[] = {
      {"10/60s", 10, 60s, limit_unit::requests},
      {"10/1m", 10, 60s, limit_unit::requests},
      {"10/min", 10, 60s, limit_unit::requests},
      {"3/s", 3, 1s, limit_unit::requests},
      {"10/60", 10, 60s, limit_unit::requests},
      {"1000/1d", 1000, 24h, limit_unit::requests},
      {"5/1.5h", 5, 90min, limit_unit::requests},
      {"7/250ms", 7, 250ms, limit_unit::requests},
      {"10/0.1100301s", 10, 111ms, limit_unit::requests},
      {"200000tok/60s", 200000, 60s, limit_unit::tokens},
      {"1/1ms", 1, 1ms, limit_unit::requests},
  };
  for (const good_limit& c : cases) {
    const limit l = parse_limit(c.text);
    EXPECT_EQ(l.amount, c.amount) << c.text;
    EXPECT_EQ(l.window, c.window) << c.text;
    EXPECT_EQ(l.unit, c.unit) << c.text;
  }
}

std::string trouble_with_limit(const std::string& text) {
  try {
    (void)parse_limit(text);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

std::string trouble_with_duration(const std::string& text) {
  try {
    (void)parse_duration_option(text);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Limit, RefusalNamesTextCauseAndExample) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no '/'"},
      {"10", "no '/'"},
      {"ten/60s", "whole number"},
      {"/60s", "whole number"},
      {"1.5/60s", "whole number"},
      {"10req/60s", "whole number"},
      {"tok/60s", "whole number"},
      {"99999999999999999999/60s", "whole number"},
      {"0/60s", "between 1"},
      {"-3/60s", "between 1"},
      {"1000000001/60s", "between 1"},
      {"10/", "no usable window"},
      {"10/60x", "no usable window"},
      {"10/-5s", "no usable window"},
      {"10/60s/2", "no usable window"},
      {"10/inf", "no usable window"},
      {"10/0s", "under one millisecond"},
      {"10/0.1ms", "under one millisecond"},
  };
  for (const auto& [text, cause] : cases) {
    EXPECT_THAT(trouble_with_limit(text), AllOf(HasSubstr(std::string("'") + text + "'"),
                                                HasSubstr(cause), HasSubstr("10/60s")))
        << text;
  }
}

TEST(DurationOption, IsReadInAllItsUnits) {
  const std::pair<const char*, duration> cases[] = {
      {"90s", 90s}, {"250ms", 250ms}, {"15m", 15min}, {"15min", 15min}, {"1.5m", 90s},
      {"2h", 2h},   {"1d", 24h},      {"90", 90s},    {"0", 0s},        {"0.25", 250ms},
  };
  for (const auto& [text, value] : cases) EXPECT_EQ(parse_duration_option(text), value) << text;
}

TEST(DurationOption, RefusalNamesTextCauseAndExample) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "number"},    {"soon", "number"}, {"s", "number"},  {"90 s", "unit"},
      {"90S", "unit"},   {"5w", "unit"},     {"-1s", "range"}, {"1e300s", "range"},
      {"367d", "range"}, {"nan", "range"},   {"inf", "range"},
  };
  for (const auto& [text, cause] : cases) {
    EXPECT_THAT(trouble_with_duration(text),
                AllOf(HasSubstr(std::string("'") + text + "'"), HasSubstr(cause), HasSubstr("90s")))
        << text;
  }
}

TEST(Limit, IsWrittenAsItIsRead) {
  for (const char* text : {"10/1m", "10/61s", "200000tok/1m", "1000/1d", "7/250ms", "5/90m"}) {
    const limit l = parse_limit(text);
    EXPECT_EQ(parse_limit(to_string(l)), l) << text << " became " << to_string(l);
  }
  EXPECT_EQ(to_string(parse_limit("1000/24h")), "1000/1d");
  EXPECT_EQ(to_string(parse_limit("10/61s")), "10/61s");
  EXPECT_EQ(to_string(parse_limit("200000tok/61s")), "200000tok/61s");
}

}  // namespace
}  // namespace sluice::pipeline
