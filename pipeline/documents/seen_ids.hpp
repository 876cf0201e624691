// The IDs that a batch has had so far, as keyed 64-bit hashes: the latest in memory, the others in
// a temporary file, so that memory does not grow with the batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace sluice::pipeline {

/// SipHash-2-4 (Aumasson and Bernstein, 2012): a hash that nobody without the key can make collide.
std::uint64_t siphash(std::array<std::uint64_t, 2> key, std::string_view bytes);

/// Where an ID stood first: which input, and its line there.
struct id_place {
  std::uint32_t input = 0;  ///< at most 2^24 - 1
  std::uint64_t line = 0;   ///< at most 2^40 - 1
};

class spilled_ids;

/// A set of IDs that remembers where each stood. Two IDs among a million are mistaken for the same
/// with a probability of 3 in 10^8. The temporary file has no name and goes with its process; where
/// it cannot be written, everything stays in memory (some 40 bytes per ID).
class seen_ids {
 public:
  static constexpr std::size_t usual_in_memory = std::size_t{1} << 15U;

  explicit seen_ids(std::array<std::uint64_t, 2> key, std::size_t most_in_memory = usual_in_memory);
  ~seen_ids();
  seen_ids(const seen_ids&) = delete;
  seen_ids& operator=(const seen_ids&) = delete;

  /// Remembers the ID unless it is known; then says where it stood. Throws storage_failure when the
  /// temporary file cannot be read any more.
  std::optional<id_place> note(std::string_view id, id_place where);
  std::size_t in_memory() const { return latest_.size(); }

 private:
  void spill();

  std::array<std::uint64_t, 2> key_;
  std::size_t most_in_memory_;
  std::unordered_map<std::uint64_t, std::uint64_t> latest_;
  std::unique_ptr<spilled_ids> spilled_;
};

}  // namespace sluice::pipeline
