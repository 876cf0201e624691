// UTF-8: is it, and what to show when it is not.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::pipeline {

/// The offset of the first byte that does not belong to well-formed UTF-8 (RFC 3629: no overlong
/// forms, no surrogates, nothing above U+10FFFF), or nothing when all of it is well-formed.
std::optional<std::size_t> first_invalid_utf8(std::string_view bytes);

/// The same text with every malformed byte replaced by U+FFFD.
std::string to_valid_utf8(std::string_view bytes);

/// For messages: valid UTF-8 on one line, control characters replaced, cut at `most` bytes.
std::string printable(std::string_view bytes, std::size_t most = 200);

/// True when there is nothing but white space, Unicode's included. Takes valid UTF-8.
bool blank(std::string_view text);

}  // namespace sluice::pipeline
