#include "pipeline/documents/seen_ids.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <string>

namespace sluice::pipeline {
namespace {

std::string name(std::uint64_t i) {
  return "doc-" + std::to_string(i);
}

// Notes `many` IDs and looks some of them up again.
void fill_and_ask(seen_ids& seen, std::uint64_t many) {
  for (std::uint64_t i = 0; i < many; ++i) ASSERT_FALSE(seen.note(name(i), id_place{7, i})) << i;
  for (std::uint64_t i = 0; i < many; i += 97) {
    const auto first = seen.note(name(i), id_place{});
    ASSERT_TRUE(first) << i;
    EXPECT_EQ(first->input, 7U);
    EXPECT_EQ(first->line, i);
  }
}

TEST(SeenIds, HashIsThePublishedOne) {
  // The last entry of the table of vectors in the reference implementation: 15 bytes 00..0e.
  std::string bytes;
  for (int i = 0; i < 15; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(siphash({0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL}, bytes), 0xa129ca6149be45e5ULL);
}

TEST(SeenIds, RemembersAllButKeepsOnlyTheLatestInMemory) {
  seen_ids seen({1, 2}, 1000);
  fill_and_ask(seen, 50'500);
  EXPECT_EQ(seen.in_memory(), 500U);
}

TEST(SeenIds, PlacesMayBeLarge) {
  seen_ids seen({1, 2}, 1);
  const id_place last{(1U << 24U) - 1, (std::uint64_t{1} << 40U) - 1};
  ASSERT_FALSE(seen.note("", last));
  EXPECT_EQ(seen.in_memory(), 0U);
  const auto first = seen.note("", id_place{});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->input, last.input);
  EXPECT_EQ(first->line, last.line);
}

// The whole process may not write large files while this lives.
class small_files {
 public:
  explicit small_files(rlim_t most) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit now{most, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~small_files() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }
  small_files(const small_files&) = delete;
  small_files& operator=(const small_files&) = delete;

 private:
  rlimit old_{};
  void (*old_handler_)(int) = SIG_DFL;
};

TEST(SeenIds, StayInMemoryWhenTheTemporaryFileIsFull) {
  const small_files limited(rlim_t{1} << 20U);
  seen_ids seen({1, 2}, 8'000);
  fill_and_ask(seen, 300'000);
  EXPECT_GT(seen.in_memory(), 100'000U);
}

}  // namespace
}  // namespace sluice::pipeline
