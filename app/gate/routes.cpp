#include "app/gate/routes.hpp"

#include <nlohmann/json.hpp>

#include "app/gate/figures.hpp"
#include "app/gate/metrics.hpp"
#include "app/gate/page.hpp"

namespace sluice::app {
namespace {

constexpr std::string_view slots_path = "/v1/slots";
constexpr std::string_view done_end = "/done";

gate_response only(const char* method) {
  gate_response r = problem(405, "method_refused", std::string("only ") + method + " is answered");
  r.allow = method;
  return r;
}

}  // namespace

gate_response problem(int status, const std::string& error, const std::string& message) {
  nlohmann::ordered_json j;
  j["error"] = error;
  j["message"] = message;
  return {status, j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

asio::awaitable<gate_response> routes::answer(const gate_request& request, caller_watch& watch) {
  const std::string_view target = request.target;
  // What HEAD asks for differs from GET in the body alone, which the listener leaves out.
  const bool get = request.method == "GET" || request.method == "HEAD";
  const bool post = request.method == "POST";
  if (target == slots_path) {
    if (!post) co_return only("POST");
    co_return co_await slots(request, watch);
  }
  if (target.starts_with("/v1/slots/") && target.ends_with(done_end)) {
    if (!post) co_return only("POST");
    const std::size_t from = slots_path.size() + 1;
    if (target.size() > from + done_end.size())
      co_return done(request, target.substr(from, target.size() - from - done_end.size()));
  }
  if (target == "/") {
    if (!get) co_return only("GET, HEAD");
    co_return page();
  }
  if (target == "/v1/budget") {
    if (!get) co_return only("GET, HEAD");
    co_return gate_response(200, to_json(keeper_.line().settings()));
  }
  if (target == "/healthz") {
    if (!get) co_return only("GET, HEAD");
    gate_response r(keeper_.stopped() ? 503 : 200, keeper_.stopped() ? "closing\n" : "ok\n");
    r.type = "text/plain; charset=utf-8";
    co_return r;
  }
  if (target == "/metrics") {
    if (!get) co_return only("GET, HEAD");
    gate_response r(200, metrics_text(keeper_, clock_.now()));
    r.type = "text/plain; version=0.0.4; charset=utf-8";
    co_return r;
  }
  co_return problem(404, "not_found", "the gate has nothing here");
}

asio::awaitable<gate_response> routes::slots(const gate_request& request, caller_watch& watch) {
  const auto parsed = pipeline::parse_question(request.body);
  if (const auto* bad = std::get_if<pipeline::bad_question>(&parsed))
    co_return problem(400, "bad_request", bad->why);
  const auto& question = std::get<pipeline::slot_question>(parsed);
  pipeline::gate_keeper::poll poll(clock_);
  watch.then([&poll] { poll.hang_up(); });
  if (watch.gone()) poll.hang_up();
  const pipeline::slot_answer answer = co_await keeper_.question(question, poll);
  watch.then({});
  gate_response r(answer.status, to_json(answer));
  r.granted = poll.granted();
  co_return r;
}

gate_response routes::page() const {
  gate_response r(200, status_page(figures_of(keeper_, clock_.now())));
  r.type = "text/html; charset=utf-8";
  r.headers = {{"Content-Security-Policy", page_policy()},
               {"X-Content-Type-Options", "nosniff"},
               {"Referrer-Policy", "no-referrer"}};
  return r;
}

gate_response routes::done(const gate_request& request, std::string_view id) {
  const auto slot = pipeline::parse_slot_id(id);
  if (!slot) return problem(404, "no_such_slot", "this is not the ID of a slot");
  const auto parsed = pipeline::parse_report(request.body);
  if (const auto* bad = std::get_if<pipeline::bad_question>(&parsed))
    return problem(400, "bad_request", bad->why);
  const bool known =
      keeper_.done(slot->first, slot->second, std::get<pipeline::call_report>(parsed));
  return {200, known ? R"({"known":true})" : R"({"known":false})"};
}

void routes::unsent(const gate_response& response) {
  if (response.granted != 0) keeper_.untold(response.granted);
}

}  // namespace sluice::app
