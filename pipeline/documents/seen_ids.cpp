#include "pipeline/documents/seen_ids.hpp"

#include <bit>
#include <cstring>

namespace sluice::pipeline {
namespace {

constexpr std::size_t table_count = 256;
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

seen_ids::seen_ids(std::array<std::uint64_t, 2> key) : key_(key), tables_(table_count) {}

std::optional<id_place> seen_ids::note(std::string_view id, id_place where) {
  std::uint64_t hash = siphash(key_, id);
  if (hash == 0) hash = 1;
  table& t = tables_[hash % table_count];
  // At most seven eighths full: probing stays short, and memory close to what is needed.
  if (t.used * 8 >= t.entries.size() * 7) t.grow();
  entry& e = t.find(hash);
  if (e.hash != 0) {
    id_place first;
    first.input = static_cast<std::uint32_t>(e.place >> line_bits);
    first.line = e.place & ((std::uint64_t{1} << line_bits) - 1);
    return first;
  }
  e.hash = hash;
  e.place = std::uint64_t{where.input} << line_bits | where.line;
  ++t.used;
  ++size_;
  return std::nullopt;
}

std::size_t seen_ids::bytes() const {
  std::size_t sum = tables_.size() * sizeof(table);
  for (const table& t : tables_) sum += t.entries.capacity() * sizeof(entry);
  return sum;
}

void seen_ids::table::grow() {
  std::vector<entry> old(entries.size() + entries.size() / 4 + 8);
  old.swap(entries);
  for (const entry& e : old)
    if (e.hash != 0) find(e.hash) = e;
}

seen_ids::entry& seen_ids::table::find(std::uint64_t hash) {
  // The low bits chose the table; the upper half of the rest chooses the place in it.
  std::size_t i = static_cast<std::size_t>(((hash >> 32U) * entries.size()) >> 32U);
  while (entries[i].hash != 0 && entries[i].hash != hash) i = i + 1 == entries.size() ? 0 : i + 1;
  return entries[i];
}

}  // namespace sluice::pipeline
