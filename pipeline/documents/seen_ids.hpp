// The IDs that a batch has had so far, as keyed 64-bit hashes: a million take about 21 MiB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace sluice::pipeline {

/// SipHash-2-4 (Aumasson and Bernstein, 2012): a hash that nobody without the key can make collide.
std::uint64_t siphash(std::array<std::uint64_t, 2> key, std::string_view bytes);

/// Where an ID stood first: which input, and its line there.
struct id_place {
  std::uint32_t input = 0;  ///< at most 2^24 - 1
  std::uint64_t line = 0;   ///< at most 2^40 - 1
};

/// A set of IDs that remembers where each stood. Two IDs among a million are mistaken for the same
/// with a probability of 3 in 10^8.
class seen_ids {
 public:
  explicit seen_ids(std::array<std::uint64_t, 2> key);
  /// Remembers the ID unless it is known; then says where it stood.
  std::optional<id_place> note(std::string_view id, id_place where);
  std::size_t size() const { return size_; }
  /// Memory held by the tables.
  std::size_t bytes() const;

 private:
  struct entry {
    std::uint64_t hash = 0;  ///< 0: free
    std::uint64_t place = 0;
  };
  // Many small tables instead of a large one, so that growing never holds the set twice.
  struct table {
    std::vector<entry> entries;
    std::size_t used = 0;
    void grow();
    entry& find(std::uint64_t hash);
  };

  std::array<std::uint64_t, 2> key_;
  std::vector<table> tables_;
  std::size_t size_ = 0;
};

}  // namespace sluice::pipeline
