// The libFuzzer binary. SLUICE_FUZZ_TARGET names what to feed: one build serves all targets.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/targets.hpp"

namespace {
const sluice::fuzz::target* chosen = nullptr;
}

// The names are libFuzzer's.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("SLUICE_FUZZ_TARGET");
  chosen = sluice::fuzz::find_target(name == nullptr ? "" : name);
  if (chosen == nullptr) {
    std::fputs("set SLUICE_FUZZ_TARGET to one of:\n", stderr);
    for (const auto& t : sluice::fuzz::targets())
      std::fprintf(stderr, "  %.*s\n", static_cast<int>(t.name.size()), t.name.data());
    std::exit(64);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
