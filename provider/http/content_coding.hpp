// Content codings (RFC 9110, section 8.4): gzip and deflate, which some gateways apply although
// "identity" was asked for. Decoded by zlib, and never beyond a given size.
#pragma once

#include <cstddef>
#include <string>

#include "provider/answer.hpp"

namespace sluice::provider {

/// What decoding a body came to.
enum class decoded {
  done,         ///< the body is plain, and the answer says so; also when it was never encoded
  unsupported,  ///< a coding that is not spoken here; nothing was changed
  over_limit,   ///< the plain body has more than the bytes allowed; the body is cleared
  broken,       ///< the data are damaged or end too early; the body is cleared
};

/// Undoes the codings named in Content-Encoding and removes that header. A body that is said to be
/// encoded, and is JSON as it stands, is left as it is: some proxies forget to take the header off.
/// Uses at most `most` bytes and zlib's 64 KiB beyond the body itself, whatever the data say.
decoded decode_body(http_answer& answer, std::size_t most);

}  // namespace sluice::provider
