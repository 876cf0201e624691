// Compresses test data, as a gateway would.
#pragma once

#include <zlib.h>

#include <array>
#include <stdexcept>
#include <string>

namespace sluice::testing {

enum class wrapper { gzip, zlib, none };

inline std::string compress(const std::string& text, wrapper how) {
  z_stream stream{};
  const int bits = how == wrapper::gzip ? 15 + 16 : how == wrapper::zlib ? 15 : -15;
  if (deflateInit2(&stream, 9, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("zlib cannot be set up");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  std::string out;
  std::array<char, 16384> piece{};
  int said = Z_OK;
  while (said == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    said = deflate(&stream, Z_FINISH);
    out.append(piece.data(), piece.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return out;
}

}  // namespace sluice::testing
