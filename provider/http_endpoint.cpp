#include "provider/http_endpoint.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "provider/answer.hpp"
#include "provider/dialects.hpp"
#include "provider/http/connect.hpp"
#include "provider/http/content_coding.hpp"
#include "provider/http/exchange.hpp"
#include "provider/http/line.hpp"
#include "provider/http/watchdog.hpp"
#include "provider/text.hpp"

namespace sluice::provider {
namespace {

using retry::reason;

bool fit_for_a_header(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

// Everything of a request but the length and the body.
std::string request_head(const http_options& o, const std::string& target) {
  // A proxy is asked for the whole URL (RFC 9112, section 3.2.2); through a tunnel it sees nothing.
  const bool asks_proxy = o.via && !o.url.tls;
  std::string out = "POST " + (asks_proxy ? "http://" + o.url.host_field() : "") + target +
                    " HTTP/1.1\r\nHost: " + o.url.host_field() + "\r\n";
  if (asks_proxy && !o.via->authorization.empty())
    out += "Proxy-Authorization: " + o.via->authorization + "\r\n";
  if (!o.api_key.empty())
    out += (o.key_goes == key_header::api_key ? "api-key: " : "Authorization: Bearer ") +
           o.api_key + "\r\n";
  if (!o.job.empty() && o.url.loopback()) out += "X-Sluice-Job: " + o.job + "\r\n";
  out +=
      "User-Agent: sluice\r\n"
      "Accept: application/json\r\n"
      "Accept-Encoding: identity\r\n"
      "Content-Type: application/json\r\n"
      "Content-Length: ";
  return out;
}

const std::string* header(const http_answer& a, std::string_view name) {
  for (const auto& [field, value] : a.headers)
    if (field == name) return &value;
  return nullptr;
}

iovec piece(const std::string& text) {
  // sendmsg does not write through this pointer.
  return iovec{const_cast<char*>(text.data()), text.size()};
}

}  // namespace

struct http_endpoint::core : std::enable_shared_from_this<http_endpoint::core> {
  class lease;

  core(asio::any_io_executor executor, http_options given)
      : options(std::move(given)),
        deadlines(std::make_shared<watchdog>(executor)),
        idle(options.max_idle),
        dial(executor, options.url, options.via,
             tls_files{options.ca_file, options.client_cert, options.client_key}, options.lookup,
             options.connect_timeout, *deadlines, idle) {
    if (!options.now) throw std::invalid_argument("http_options: now is not set");
    if (!fit_for_a_header(options.api_key))
      throw std::invalid_argument(
          "the API key holds a control character; check OPENAI_API_KEY or the file named by "
          "--api-key-file");
    if (!fit_for_a_header(options.job))
      throw std::invalid_argument("the job name holds a control character; choose another");
    head = request_head(options, options.url.target);
  }

  attempt_report failed(reason why, const std::string& cause) const {
    attempt_report report;
    report.signal.why = why;
    report.detail = one_line(cause, options.api_key);
    return report;
  }

  void give_back(std::unique_ptr<line> l) {
    // After the endpoint's end its clock may be gone too.
    if (!closed) idle.give(std::move(l), options.now());
  }

  asio::awaitable<readiness> make_ready();
  asio::awaitable<attempt_report> send(slot turn, std::unique_ptr<connection> on, const call& what);
  void fill(attempt_report& report, exchange_result& got, bool was_reused, bool moved);
  void redirect(attempt_report& report, const http_answer& answer, bool moved);
  void read_answer(attempt_report& report, exchange_result& got, bool moved);
  void tell_of_proxy(attempt_report& report) const;
  void hide_secrets(attempt_report& report) const;

  http_options options;
  std::shared_ptr<watchdog> deadlines;
  line_pool idle;
  connector dial;
  std::string head;        // never changes: requests under way point into it
  std::string moved_head;  // for the target of a redirect, once there was one; likewise
  bool closed = false;
};

// The connection as the pipeline holds it.
class http_endpoint::core::lease final : public connection {
 public:
  lease(std::shared_ptr<core> from, std::unique_ptr<line> l)
      : from_(std::move(from)), line_(std::move(l)) {}
  ~lease() override {
    if (line_) from_->give_back(std::move(line_));
  }
  lease(const lease&) = delete;
  lease& operator=(const lease&) = delete;

  line& on() { return *line_; }
  std::unique_ptr<line> take() { return std::move(line_); }

 private:
  std::shared_ptr<core> from_;
  std::unique_ptr<line> line_;
};

asio::awaitable<readiness> http_endpoint::core::make_ready() {
  const auto self = shared_from_this();
  std::unique_ptr<line> ready = idle.take(options.now());
  if (!ready) {
    const steady::time_point start = steady::now();
    line_or_reason opened = co_await dial.open();
    if (const auto* none = std::get_if<no_line>(&opened)) {
      attempt_report report = failed(none->why, none->cause);
      report.took.total = steady::now() - start;
      co_return readiness(std::move(report));
    }
    ready = std::move(std::get<std::unique_ptr<line>>(opened));
  }
  co_return readiness(std::make_unique<lease>(self, std::move(ready)));
}

asio::awaitable<attempt_report> http_endpoint::core::send(slot turn, std::unique_ptr<connection> on,
                                                          const call& what) {
  auto* held = dynamic_cast<lease*>(on.get());
  if (held == nullptr) throw std::logic_error("send needs a connection that make_ready gave");
  const auto self = shared_from_this();
  if (turn.burnt(options.now())) {
    // The scope of this reason is "nothing was sent".
    attempt_report report = failed(reason::connect_failure, "the slot was burnt before its use");
    report.slot_burnt = true;
    co_return report;
  }
  const steady::time_point start = steady::now();
  std::unique_ptr<line> mine = held->take();
  const bool moved = !moved_head.empty();
  const std::string length = std::to_string(what.body.size()) + "\r\n\r\n";
  const std::array<iovec, 3> request{piece(moved ? moved_head : head), piece(length),
                                     piece(what.body)};
  const exchange_limits within{options.timeout, options.idle_timeout, options.max_response};
  exchange_result got = co_await exchange(*mine, *deadlines, request, within);

  attempt_report report;
  report.took.connect = std::exchange(mine->connecting, std::nullopt);
  report.took.tls = std::exchange(mine->handshaking, std::nullopt);
  report.took.first_byte = got.first_byte;
  fill(report, got, mine->reused, moved);
  hide_secrets(report);
  report.took.total = steady::now() - start;
  if (got.keep_alive) give_back(std::move(mine));
  co_return report;
}

// From the end of an exchange to the report. An answer is interpreted; all else is decided here.
void http_endpoint::core::fill(attempt_report& report, exchange_result& got, bool was_reused,
                               bool moved) {
  using how = exchange_result::how;
  const bool asks_proxy = options.via && !options.url.tls;
  const std::string peer =
      asks_proxy ? options.url.host_and_port() + " by the proxy " + options.via->host_and_port()
                 : options.url.host_and_port();
  retry::signal& signal = report.signal;
  signal.status = got.answer.status;
  std::string cause;
  // Cut off in its body, a refusal is a refusal all the same, and its headers say for how long.
  const bool told = got.header_done && tells_enough(got.answer.status);
  if (told && got.ended != how::answered && got.ended != how::aborted) {
    read_answer(report, got, moved);
    return;
  }
  switch (got.ended) {
    case how::answered:
      read_answer(report, got, moved);
      return;
    case how::timed_out:
    case how::idled_out:
      signal.why = reason::timed_out;
      signal.may_have_been_billed = true;
      cause = got.ended == how::timed_out
                  ? "no complete answer from " + peer + " within " + seconds_text(options.timeout)
                  : "nothing came from " + peer + " for " + seconds_text(options.idle_timeout);
      break;
    case how::aborted:
      signal.why = reason::interrupted;
      signal.may_have_been_billed = true;
      cause = "interrupted while waiting for " + peer;
      break;
    case how::lost:
      if (got.distrusted) {
        signal.why = reason::certificate_refused;
        cause = peer + ": " + got.cause;
        break;
      }
      signal.why = reason::connection_lost;
      report.stale_connection = was_reused && got.received == 0;
      signal.may_have_been_billed = got.written && !report.stale_connection;
      // Idle ones have most likely met the same end.
      if (report.stale_connection) idle.clear();
      cause =
          "connection to " + peer + " lost (" + got.cause + ") " +
          (got.received == 0 ? "before any answer"
                             : "after " + std::to_string(got.received) + " bytes of the answer");
      break;
    case how::over_limit:
      signal.why = reason::response_too_large;
      cause =
          "the answer of " + peer + " is over " + std::to_string(options.max_response) + " bytes";
      break;
    case how::malformed:
      // No answer to come will be another one.
      signal.why = got.wants_tls ? reason::method_refused : reason::malformed_response;
      cause = peer + ": " + got.cause;
      break;
  }
  report.detail = one_line(cause, options.api_key);
}

// An answer, or of one that was cut off what its header tells.
void http_endpoint::core::read_answer(attempt_report& report, exchange_result& got, bool moved) {
  const bool whole = got.ended == exchange_result::how::answered;
  const int status = got.answer.status;
  const decoded how = decode_body(got.answer, options.max_response);
  if (status >= 300 && status < 400) {
    redirect(report, got.answer, moved);
  } else {
    interpret(got.answer, options.api_key, report);
    // Of an error the status and the headers count, whatever became of its body.
    const bool body_counts = whole && status < 300;
    if (body_counts && how == decoded::over_limit) {
      report.signal.why = reason::response_too_large;
      report.detail = "the answer is over " + std::to_string(options.max_response) +
                      " bytes when it is unpacked";
    } else if (body_counts && how == decoded::broken) {
      report.signal.why = reason::malformed_response;
      report.detail = "the compressed answer is damaged";
    }
    if (options.via && !options.url.tls) tell_of_proxy(report);
  }
  if (options.keep_bodies) {
    report.raw_body = std::move(got.answer.body);
    remove_key(report.raw_body, options.api_key);
  }
}

// What is said by a proxy looks like the endpoint's own words.
void http_endpoint::core::tell_of_proxy(attempt_report& report) const {
  if (report.signal.why == reason::ok) return;
  std::string text = "by the proxy " + options.via->host_and_port();
  if (report.signal.why == reason::proxy_refused)
    text += "; check the user name and password in " + options.via->source;
  report.detail = one_line(text + ": " + report.detail, options.api_key);
}

// Nor does a proxy's page that repeats its credentials get any further.
void http_endpoint::core::hide_secrets(attempt_report& report) const {
  if (!options.via) return;
  std::string_view token = options.via->authorization;
  token.remove_prefix(std::min<std::size_t>(token.size(), 6));  // "Basic "
  for (std::string* text : {&report.text, &report.detail, &report.hints, &report.request_id,
                            &report.finish_reason, &report.raw_body}) {
    remove_key(*text, token);
    remove_key(*text, options.via->password);
  }
}

// 307 and 308 keep method and body (RFC 9110, section 15.4) and may be followed, once in a row and
// to the same origin only: the key goes nowhere else.
void http_endpoint::core::redirect(attempt_report& report, const http_answer& answer, bool moved) {
  report.signal.why = reason::redirected;
  const std::string* location = header(answer, "location");
  std::string cause = "redirected (" + std::to_string(answer.status) + ") ";
  cause += location == nullptr ? "nowhere" : "to " + safe_url(*location);
  const bool may_follow = (answer.status == 307 || answer.status == 308) && !moved;
  if (may_follow && location != nullptr) {
    if (const auto target = options.url.follow(*location)) {
      // Calls that were under way meanwhile are sent on to where the first one led.
      if (moved_head.empty()) moved_head = request_head(options, *target);
      report.redirected = true;
    }
  }
  report.detail = one_line(cause, options.api_key);
}

http_endpoint::http_endpoint(asio::any_io_executor executor, http_options options)
    : core_(std::make_shared<core>(std::move(executor), std::move(options))) {}

http_endpoint::~http_endpoint() {
  core_->closed = true;
  core_->idle.clear();
}

asio::awaitable<readiness> http_endpoint::make_ready() {
  return core_->make_ready();
}

bool http_endpoint::alive(connection& c) {
  auto* held = dynamic_cast<core::lease*>(&c);
  return held != nullptr && held->on().alive();
}

asio::awaitable<attempt_report> http_endpoint::send(slot turn, std::unique_ptr<connection> on,
                                                    const call& what) {
  return core_->send(std::move(turn), std::move(on), what);
}

void http_endpoint::abort() {
  core_->dial.abort();
  core_->deadlines->abort();
}

}  // namespace sluice::provider
