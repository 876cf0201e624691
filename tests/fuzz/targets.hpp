// What the fuzzers feed: each target reads bytes from outside as the program would, and aborts when
// what must always hold does not. Run by libFuzzer (scripts/fuzz) and, over the committed corpora,
// by the tests.
#pragma once

#include <span>
#include <string_view>

namespace sluice::fuzz {

struct target {
  std::string_view name;  ///< also the folder of its corpus
  void (*run)(std::string_view input);
};

std::span<const target> targets();

/// The target of that name, or null.
const target* find_target(std::string_view name);

}  // namespace sluice::fuzz
