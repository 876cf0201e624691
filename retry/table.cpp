#include "retry/table.hpp"

#include <array>

namespace sluice::retry {
namespace {

using enum reason;
constexpr auto good = outcome::succeeded;
constexpr auto fail = outcome::failed;
constexpr auto put_off = outcome::deferred;
constexpr auto none = outcome_class::none;
constexpr auto lasting = outcome_class::permanent;
constexpr auto passing = outcome_class::transient;
constexpr int go_on = exit_code::none;
constexpr int later = exit_code::come_back_later;
constexpr int key = exit_code::key_or_billing;
constexpr int config = exit_code::configuration;

// clang-format off
constexpr row rows[] = {
    // reason              name                    whose            again      end      class    stops   remedy
    {ok,                   "ok",                   scope::success,  never,     good,    none,    go_on,  ""},
    {rate_limited,         "rate_limited",         scope::rate,     patiently, put_off, none,    go_on,  "Others use this key: lower --limit, or share one budget between the jobs."},
    {server_error,         "server_error",         scope::endpoint, once,      fail,    passing, go_on,  "The endpoint answered with errors: check its health; the next run takes these up by itself."},
    {server_loading,       "server_loading",       scope::endpoint, patiently, put_off, none,    go_on,  "The server was still loading its model: run again when it is ready."},
    {timed_out,            "timed_out",            scope::endpoint, once,      fail,    passing, go_on,  "Answers take longer than --timeout or --idle-timeout allow: raise them, or shorten the answers."},
    {connection_lost,      "connection_lost",      scope::endpoint, once,      fail,    passing, go_on,  "Connections were cut after sending: check the network and any proxy in between."},
    {malformed_response,   "malformed_response",   scope::endpoint, once,      fail,    passing, go_on,  "The answers are not chat completions: check that --endpoint names an OpenAI-compatible API."},
    {empty_response,       "empty_response",       scope::document, once,      fail,    passing, go_on,  "The model answered with nothing: raise max_tokens or change the prompt."},
    {not_json,             "not_json",             scope::endpoint, once,      fail,    passing, go_on,  "A page came instead of JSON: check --endpoint and any login or proxy page in between."},
    {unexpected_tool_call, "unexpected_tool_call", scope::document, once,      fail,    passing, go_on,  "The model called a tool that was not offered: change the prompt or the model."},
    {unexpected_stream,    "unexpected_stream",    scope::setup,    never,     put_off, none,    config, "The endpoint streams although it was not asked to: turn streaming off there."},
    {unsupported_encoding, "unsupported_encoding", scope::endpoint, once,      fail,    passing, go_on,  "The endpoint compresses in a way that was not asked for: turn that off there."},
    {response_too_large,   "response_too_large",   scope::document, never,     fail,    lasting, go_on,  "The answer is over the size limit: lower max_tokens or raise --max-response."},
    {dns_failure,          "dns_failure",          scope::unsent,   patiently, put_off, none,    go_on,  "The endpoint's name could not be looked up: check DNS and the network."},
    {connect_failure,      "connect_failure",      scope::unsent,   patiently, put_off, none,    go_on,  "No connection to the endpoint: check that it runs and that --endpoint is right."},
    {tls_failure,          "tls_failure",          scope::unsent,   patiently, put_off, none,    go_on,  "The TLS handshake broke off: check the network and any proxy in between."},
    {bad_request,          "bad_request",          scope::document, never,     fail,    lasting, go_on,  "The endpoint refuses these requests as they are: look at `sluice results` for its words."},
    {too_large,            "too_large",            scope::document, never,     fail,    lasting, go_on,  "Shorten these documents, lower max_tokens, or use a model with a larger context."},
    {content_filter,       "content_filter",       scope::document, never,     fail,    lasting, go_on,  "The provider's content filter stopped these: change the document or the prompt."},
    {truncated,            "truncated",            scope::document, never,     fail,    lasting, go_on,  "The answers hit the token limit: raise max_tokens, then `sluice rerun --failed`."},
    {refused,              "refused",              scope::document, never,     fail,    lasting, go_on,  "The model declined: change the document or the prompt."},
    {forbidden_document,   "forbidden_document",   scope::document, never,     fail,    lasting, go_on,  "The endpoint forbids these documents though it took others: look at its words in `sluice results`."},
    {empty_input,          "empty_input",          scope::document, never,     fail,    lasting, go_on,  "These documents have no text: fill them or take them out of the batch."},
    {input_error,          "input_error",          scope::document, never,     fail,    lasting, go_on,  "These documents cannot be read: mend the lines named in `sluice results`."},
    {duplicate_id,         "duplicate_id",         scope::document, never,     fail,    lasting, go_on,  "An ID stands twice in the batch, the first was used: make the IDs unique."},
    {document_missing,     "document_missing",     scope::document, never,     fail,    lasting, go_on,  "These documents are no longer where they came from: run the batch again from their new place."},
    {key_refused,          "key_refused",          scope::account,  never,     put_off, none,    key,    "The endpoint refuses the key: check OPENAI_API_KEY or --api-key-file, then run again."},
    {forbidden,            "forbidden",            scope::account,  never,     put_off, none,    key,    "The key may not use this model or endpoint: check its permissions, then run again."},
    {billing,              "billing",              scope::account,  never,     put_off, none,    key,    "The account's quota or balance is used up: settle the bill, then run again."},
    {not_found,            "not_found",            scope::setup,    never,     put_off, none,    config, "The path or the model does not exist there: check --endpoint and --model."},
    {method_refused,       "method_refused",       scope::setup,    never,     put_off, none,    config, "The URL is not a chat-completions endpoint: check --endpoint."},
    {proxy_refused,        "proxy_refused",        scope::setup,    never,     put_off, none,    config, "The proxy refuses: check its credentials in HTTPS_PROXY or add the host to NO_PROXY."},
    {redirected,           "redirected",           scope::setup,    never,     put_off, none,    config, "The endpoint redirects elsewhere: set --endpoint to the address it names."},
    {certificate_refused,  "certificate_refused",  scope::setup,    never,     put_off, none,    config, "TLS cannot be had as it should: check --endpoint and the clock, or name files with --ca-file or --client-cert."},
    {host_unknown,         "host_unknown",         scope::setup,    never,     put_off, none,    config, "No such host: check the spelling of --endpoint."},
    {daily_limit,          "daily_limit",          scope::later,    never,     put_off, none,    later,  "The limit for the day is used up: run the same command again after the time named."},
    {wait_too_long,        "wait_too_long",        scope::later,    never,     put_off, none,    later,  "The endpoint asks for a longer wait than --max-wait: run the same command again after the time named."},
    {budget_refused,       "budget_refused",       scope::later,    never,     put_off, none,    later,  "The shared budget had no turn in time: run again later, or raise --admission-timeout."},
    {call_budget_used,     "call_budget_used",     scope::later,    never,     put_off, none,    go_on,  "Too many calls were refused: lower --limit, then run the same command again."},
    {patience_used,        "patience_used",        scope::later,    never,     put_off, none,    go_on,  "Refused for half an hour: lower --limit, then run the same command again."},
    {endpoint_down,        "endpoint_down",        scope::later,    never,     put_off, none,    exit_code::unavailable, "The endpoint has been down or refusing everyone: check its health, then run the same command again."},
    {interrupted,          "interrupted",          scope::later,    never,     put_off, none,    go_on,  "Interrupted: run the same command again to go on."},
    {run_stopped,          "run_stopped",          scope::later,    never,     put_off, none,    go_on,  "The run stopped before these: mend its cause, then run the same command again."},
    {mismatched,           "mismatched",           scope::document, never,     outcome::mismatched, lasting, go_on, "The answers differ from the recorded ones: see `sluice results`, then `sluice rerun --ids` or record anew."},
};
// clang-format on

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(rows); ++i)
    if (static_cast<std::size_t>(rows[i].why) != i) return false;
  return static_cast<std::size_t>(reason::mismatched) + 1 == std::size(rows);
}
static_assert(in_order(), "the table has one row per reason, in the order of the enumeration");

}  // namespace

std::span<const row> table() {
  return rows;
}

const row& row_of(reason r) {
  return rows[static_cast<std::size_t>(r)];
}

}  // namespace sluice::retry
