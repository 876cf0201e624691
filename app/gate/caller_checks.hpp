// Who may speak to the gate: its token, its name, and no browser page of another origin. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::app {

/// What a request says of its sender. Values as they came.
struct caller {
  std::string_view target;
  std::string_view host;
  bool one_host = true;            ///< exactly one Host field
  std::string_view token;          ///< X-Sluice-Token
  std::string_view authorization;  ///< Authorization
  bool from_a_page = false;        ///< has an Origin field, whatever it says
};

/// The status page, which a browser asks for: there the token may be a Basic password.
constexpr std::string_view page_target = "/";

struct caller_rules {
  std::string token;               ///< empty: none is asked for
  std::vector<std::string> hosts;  ///< names and addresses that are ours, lower case, without port
};

/// Why a caller is sent away.
struct turned_away {
  int status;
  const char* error;
  const char* message;
};

/// Nothing: welcome. A host other than ours is a page that had its name resolve to us (DNS
/// rebinding).
std::optional<turned_away> check_caller(const caller& who, const caller_rules& rules);

/// The host of a Host field, lower case, without port and brackets.
std::string host_of(std::string_view field);

/// Whether both are the same, in a time that tells nothing of where they differ.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace sluice::app
