// Why an attempt ended as it did: the fixed vocabulary shared by signals, decisions, outcomes and
// logs.
#pragma once

#include <optional>
#include <string_view>

namespace sluice::retry {

/// What one attempt, or a document's end, came to. Each has a fixed snake_case name (see `name`),
/// written to the store and the logs; never rename one without a store migration.
enum class reason {
  ok,
  // 429 and its kin: the endpoint asks everybody to slow down.
  rate_limited,
  // The endpoint's trouble, worth another try.
  server_error,  ///< any 5xx, 408, 409, 425, 498, 499, overloaded_error
  server_loading,
  timed_out,
  connection_lost,
  malformed_response,
  empty_response,
  not_json,
  unexpected_tool_call,
  unexpected_stream,
  unsupported_encoding,
  response_too_large,
  // Nothing was sent.
  dns_failure,
  connect_failure,
  tls_failure,  ///< handshake reset or timed out, not a verification failure
  // The document's own fault, for ever.
  bad_request,
  too_large,
  content_filter,
  truncated,
  refused,
  forbidden_document,  ///< a 403 after successes
  empty_input,
  input_error,
  duplicate_id,
  document_missing,  ///< a re-run could not find the document where it came from
  // The account: the run stops.
  key_refused,
  forbidden,
  billing,
  // The set-up: the run stops.
  not_found,
  method_refused,
  proxy_refused,
  redirected,
  certificate_refused,
  host_unknown,
  // Not now.
  daily_limit,
  wait_too_long,
  budget_refused,
  call_budget_used,
  patience_used,
  endpoint_down,
  interrupted,
  run_stopped,
  // Not a fault at all.
  mismatched,
};

/// The fixed name, e.g. "rate_limited".
std::string_view name(reason r);

/// The reason of that name, if there is one.
std::optional<reason> reason_named(std::string_view text);

}  // namespace sluice::retry
