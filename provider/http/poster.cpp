#include "provider/http/poster.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "provider/http/connect.hpp"
#include "provider/http/exchange.hpp"
#include "provider/http/line.hpp"
#include "provider/http/watchdog.hpp"

namespace sluice::provider {
namespace {

constexpr std::size_t largest_answer = std::size_t{64} << 10U;
constexpr std::string_view completions = "/chat/completions";

iovec piece(const std::string& text) {
  // sendmsg does not write through this pointer.
  return iovec{const_cast<char*>(text.data()), text.size()};
}

std::string prefix_of(const base_url& url) {
  const auto at = url.target.find(completions);
  return url.target.substr(0, at);
}

}  // namespace

struct poster::core {
  core(asio::any_io_executor executor, poster_options given)
      : options(std::move(given)),
        deadlines(std::make_shared<watchdog>(executor)),
        idle(1),
        dial(executor, options.url, direct, tls_files{options.ca_file, {}, {}}, {},
             options.connect_timeout, *deadlines, idle) {
    if (std::any_of(options.token.begin(), options.token.end(),
                    [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }))
      throw std::invalid_argument("the gate's token holds a control character; write it anew");
  }

  std::string head(const std::string& path, const std::string& body) const {
    std::string out = body.empty() ? "GET " : "POST ";
    out +=
        prefix_of(options.url) + path + " HTTP/1.1\r\nHost: " + options.url.host_field() + "\r\n";
    if (!options.token.empty()) out += "X-Sluice-Token: " + options.token + "\r\n";
    out += "User-Agent: sluice\r\nAccept: application/json\r\n";
    if (!body.empty())
      out += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
             "\r\n";
    return out + "\r\n";
  }

  poster_options options;
  // A gate stands within one's own network.
  std::optional<proxy> direct;
  std::shared_ptr<watchdog> deadlines;
  line_pool idle;
  connector dial;
};

poster::poster(asio::any_io_executor executor, poster_options options)
    : core_(std::make_shared<core>(std::move(executor), std::move(options))) {}

poster::~poster() = default;

void poster::abort() {
  core_->dial.abort();
  core_->deadlines->abort();
}

asio::awaitable<post_result> poster::send(std::string path, std::string body, duration within) {
  const std::shared_ptr<core> c = core_;
  const std::string head = c->head(path, body);
  const std::array<iovec, 2> request{piece(head), piece(body)};
  const exchange_limits limits{within, within, largest_answer};
  post_result out;
  while (true) {
    std::unique_ptr<line> on = c->idle.take(c->options.now());
    if (!on) {
      line_or_reason opened = co_await c->dial.open();
      if (const auto* none = std::get_if<no_line>(&opened)) {
        out.cause = none->cause;
        if (none->why == retry::reason::interrupted) out.ended = post_result::how::aborted;
        if (none->why == retry::reason::certificate_refused) out.ended = post_result::how::mistaken;
        co_return out;
      }
      on = std::move(std::get<std::unique_ptr<line>>(opened));
    }
    const bool reused = on->reused;
    exchange_result got = co_await exchange(*on, *c->deadlines, request, limits);
    switch (got.ended) {
      case exchange_result::how::answered:
        out.ended = post_result::how::answered;
        out.status = got.answer.status;
        out.body = std::move(got.answer.body);
        if (got.keep_alive) c->idle.give(std::move(on), c->options.now());
        co_return out;
      case exchange_result::how::aborted:
        out.ended = post_result::how::aborted;
        co_return out;
      case exchange_result::how::lost:
        out.reached = true;
        if (reused && got.received == 0) continue;
        out.cause = "connection lost (" + got.cause + ")";
        co_return out;
      case exchange_result::how::timed_out:
      case exchange_result::how::idled_out:
        out.cause = "no answer within " + seconds_text(within);
        co_return out;
      case exchange_result::how::over_limit:
        out.ended = post_result::how::mistaken;
        out.cause = "the answer is over 64 KiB";
        co_return out;
      case exchange_result::how::malformed:
        out.ended = post_result::how::mistaken;
        out.cause = got.cause;
        co_return out;
    }
  }
}

}  // namespace sluice::provider
