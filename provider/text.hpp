// Small helpers for text from the wire: ASCII case, blanks, removal of the key.
#pragma once

#include <string>
#include <string_view>

namespace sluice::provider {

/// ASCII letters only; every other byte counts as it is.
bool equal_ignoring_case(std::string_view a, std::string_view b);

/// ASCII letters in lower case.
std::string lower_case(std::string_view text);

/// True when there is nothing to see: only white space, among it the usual Unicode spaces.
bool blank(std::string_view text);

/// False for no key, for one below four bytes and for the placeholders that people give to servers
/// which want none: to remove "none" from every answer would protect nothing.
bool is_secret(std::string_view key);

/// Replaces the key by "[key]" wherever it stands, if it is a secret.
void remove_key(std::string& text, std::string_view key);

}  // namespace sluice::provider
