#include "pipeline/documents/seen_ids.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "pipeline/documents/spilled_ids.hpp"

namespace sluice::pipeline {
namespace {

constexpr unsigned line_bits = 40;

struct sip_state {
  std::uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }

  void absorb(std::uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

}  // namespace

std::uint64_t siphash(std::array<std::uint64_t, 2> key, std::string_view bytes) {
  sip_state s{key[0] ^ 0x736f6d6570736575ULL, key[1] ^ 0x646f72616e646f6dULL,
              key[0] ^ 0x6c7967656e657261ULL, key[1] ^ 0x7465646279746573ULL};
  const auto total = static_cast<std::uint64_t>(bytes.size());
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    s.absorb(word);
    bytes.remove_prefix(8);
  }
  std::uint64_t last = total << 56U;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    last |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  s.absorb(last);
  s.v2 ^= 0xFF;
  for (int i = 0; i < 4; ++i) s.round();
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

seen_ids::seen_ids(std::array<std::uint64_t, 2> key, std::size_t most_in_memory)
    : key_(key), most_in_memory_(most_in_memory) {}

seen_ids::~seen_ids() = default;

std::optional<id_place> seen_ids::note(std::string_view id, id_place where) {
  const std::uint64_t hash = siphash(key_, id);
  std::optional<std::uint64_t> known;
  if (const auto here = latest_.find(hash); here != latest_.end()) known = here->second;
  if (!known && spilled_) {
    try {
      known = spilled_->find(hash);
    } catch (const sqlite::error& e) {
      throw storage_failure(
          std::string("the temporary file of the IDs seen so far cannot be read (") + e.what() +
          "); check the folder that TMPDIR names, then run the same command again to go on");
    }
  }
  if (known) {
    id_place first;
    first.input = static_cast<std::uint32_t>(*known >> line_bits);
    first.line = *known & ((std::uint64_t{1} << line_bits) - 1);
    return first;
  }
  latest_.emplace(hash, std::uint64_t{where.input} << line_bits | where.line);
  if (latest_.size() >= most_in_memory_) spill();
  return std::nullopt;
}

void seen_ids::spill() {
  std::vector<spilled_ids::entry> sorted(latest_.begin(), latest_.end());
  std::sort(sorted.begin(), sorted.end());
  try {
    if (!spilled_) spilled_ = std::make_unique<spilled_ids>();
    spilled_->add(sorted);
    latest_.clear();
  } catch (const sqlite::error&) {
    // No room for the file: memory has to do. Tried again when there is twice as much.
    most_in_memory_ *= 2;
  }
}

}  // namespace sluice::pipeline
