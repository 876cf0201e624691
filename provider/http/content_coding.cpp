#include "provider/http/content_coding.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <vector>

#include "provider/text.hpp"

namespace sluice::provider {
namespace {

constexpr std::size_t piece_size = std::size_t{16} << 10U;
// Nobody compresses what is compressed thrice on purpose.
constexpr std::size_t most_codings = 3;

// The "windowBits" of inflateInit2.
constexpr int gzip_or_zlib = 15 + 32;
constexpr int raw_deflate = -15;

class inflater {
 public:
  explicit inflater(int window_bits) {
    // Only memory can be missing: the arguments are constants.
    if (inflateInit2(&stream_, window_bits) != Z_OK) throw std::bad_alloc();
  }
  ~inflater() { inflateEnd(&stream_); }
  inflater(const inflater&) = delete;
  inflater& operator=(const inflater&) = delete;

  decoded run(const std::string& from, std::size_t most, std::string& into) {
    // zlib does not write through this pointer.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data()));
    stream_.avail_in = static_cast<uInt>(from.size());
    std::array<char, piece_size> piece{};
    while (true) {
      stream_.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream_.avail_out = static_cast<uInt>(piece.size());
      const int said = inflate(&stream_, Z_NO_FLUSH);
      const std::size_t got = piece.size() - stream_.avail_out;
      if (got > most - into.size()) return decoded::over_limit;
      into.append(piece.data(), got);
      if (said == Z_STREAM_END) {
        // Several gzip members make one body (RFC 1952, section 2.2); other bytes do not count.
        const bool another =
            stream_.avail_in >= 2 && stream_.next_in[0] == 0x1f && stream_.next_in[1] == 0x8b;
        if (!another) return decoded::done;
        inflateReset(&stream_);
      } else if (said != Z_OK) {
        return decoded::broken;
      } else if (stream_.avail_in == 0 && stream_.avail_out > 0) {
        return decoded::broken;  // it ends too early
      }
    }
  }

 private:
  z_stream stream_{};
};

std::vector<std::string> codings_of(const http_answer& answer) {
  std::vector<std::string> out;
  for (const auto& [name, value] : answer.headers) {
    if (name != "content-encoding") continue;
    for (std::size_t from = 0; from <= value.size();) {
      const std::size_t end = std::min(value.find(',', from), value.size());
      std::string one = lower_case(value.substr(from, end - from));
      one.erase(0, one.find_first_not_of(" \t"));
      one.erase(one.find_last_not_of(" \t") + 1);
      if (!one.empty() && one != "identity") out.push_back(std::move(one));
      from = end + 1;
    }
  }
  return out;
}

bool looks_like_json(const std::string& body) {
  const auto first = body.find_first_not_of(" \t\r\n");
  return first == std::string::npos || body[first] == '{' || body[first] == '[';
}

decoded decode_one(const std::string& coding, std::string& body, std::size_t most) {
  std::string plain;
  decoded how = inflater(gzip_or_zlib).run(body, most, plain);
  if (how == decoded::broken && coding == "deflate" && plain.empty()) {
    // Called deflate as well, by servers that leave the zlib wrapper off.
    how = inflater(raw_deflate).run(body, most, plain);
  }
  if (how != decoded::done) std::string().swap(plain);
  body.swap(plain);
  return how;
}

}  // namespace

decoded decode_body(http_answer& answer, std::size_t most) {
  const std::vector<std::string> codings = codings_of(answer);
  if (codings.empty()) return decoded::done;
  const bool known = std::ranges::all_of(
      codings, [](const std::string& c) { return c == "gzip" || c == "x-gzip" || c == "deflate"; });
  if (!looks_like_json(answer.body)) {
    if (!known || codings.size() > most_codings) return decoded::unsupported;
    for (auto coding = codings.rbegin(); coding != codings.rend(); ++coding)
      if (const decoded how = decode_one(*coding, answer.body, most); how != decoded::done)
        return how;
  }
  std::erase_if(answer.headers, [](const auto& h) { return h.first == "content-encoding"; });
  return decoded::done;
}

}  // namespace sluice::provider
