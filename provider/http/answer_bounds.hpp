// How far the reading of one answer goes, whoever reads it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::provider {

inline constexpr std::uint32_t most_answer_header = 64U << 10U;
/// A real server sends one or two; a flood of them is no answer.
inline constexpr int most_interim_answers = 16;
/// One read from a connection.
inline constexpr std::size_t read_size = std::size_t{16} << 10U;

}  // namespace sluice::provider
