// Everything that the fuzzers have found worth keeping, once more.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/fuzz/targets.hpp"

namespace sluice::fuzz {
namespace {

namespace fs = std::filesystem;

class Corpus : public ::testing::TestWithParam<target> {};

TEST_P(Corpus, IsReadWithoutHarm) {
  const fs::path folder =
      fs::path(SLUICE_SOURCE_DIR) / "tests" / "fuzz" / "corpus" / GetParam().name;
  unsigned files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().filename().string());
    std::ifstream in(entry.path(), std::ios::binary);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    GetParam().run(bytes.str());
    ++files;
  }
  EXPECT_GE(files, 3U) << folder;
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Corpus, ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& which) { return std::string(which.param.name); });

}  // namespace
}  // namespace sluice::fuzz
