// Whether an answer is the one expected, and where it differs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::pipeline {

/// How answers are compared: byte for byte, with every run of white space counting as one blank
/// and none at the ends, or as JSON values.
enum class comparison { exact, whitespace, json };

/// Nothing when they are the same; else one line for people that shows the first difference.
std::optional<std::string> difference(std::string_view expected, std::string_view got,
                                      comparison how);

}  // namespace sluice::pipeline
