#include "app/gate/upstream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/string.hpp>
#include <charconv>
#include <nlohmann/json.hpp>
#include <random>

#include "provider/answer.hpp"
#include "provider/http/connect.hpp"
#include "provider/http/content_coding.hpp"

namespace sluice::app {
namespace {

using boost::beast::iequals;
using how = provider::relay_result::how;
using namespace std::chrono_literals;

constexpr std::size_t most_idle = 256;
constexpr std::size_t longest_name = 200;
// A connection may turn out closed, or a slot may be over before there is one; not for ever.
constexpr int most_slots = 3;
constexpr duration lease_margin = 30s;
constexpr duration longest_cool_down = 24h;
constexpr std::int64_t longest_wait_ms = std::int64_t{1000} * 60 * 60 * 24;
// Of answers that may hold a hint or the tokens used, so much is looked at.
constexpr std::size_t most_looked_at = std::size_t{1} << 20U;
constexpr std::string_view own_prefix = "x-sluice-";
constexpr std::string_view job_field = "X-Sluice-Job";
constexpr std::string_view wait_field = "X-Sluice-Max-Wait-Ms";

const std::string* field_of(const provider::header_fields& fields, std::string_view name) {
  const auto it = std::find_if(fields.begin(), fields.end(),
                               [&](const auto& f) { return iequals(f.first, name); });
  return it == fields.end() ? nullptr : &it->second;
}

bool nameable(std::string_view text) {
  return !text.empty() && text.size() <= longest_name &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

iovec piece(const std::string& text) {
  // Nothing is written through this pointer.
  return iovec{const_cast<char*>(text.data()), text.size()};
}

// An endpoint counts the answer's tokens too, up to what was asked for.
std::int64_t estimated_tokens(const std::string& body) {
  auto tokens = static_cast<std::int64_t>(body.size() / 4 + 1);
  const auto j = nlohmann::json::parse(body, nullptr, false);
  if (!j.is_object()) return tokens;
  for (const char* name : {"max_completion_tokens", "max_tokens"}) {
    const auto it = j.find(name);
    if (it == j.end() || !it->is_number_integer()) continue;
    return tokens + std::clamp<std::int64_t>(it->get<std::int64_t>(), 0, 10'000'000);
  }
  return tokens;
}

// Hands an answer on, and keeps of it what the gate has to know.
class looking_sink final : public provider::answer_sink {
 public:
  looking_sink(provider::answer_sink& to, caller_watch& watch, bool tokens)
      : to_(to), watch_(watch), tokens_(tokens) {}

  asio::awaitable<bool> pass(const provider::relay_head* head, std::string_view body,
                             bool last) override {
    if (head != nullptr) take_in(*head);
    if (keep_ && seen_.body.size() + body.size() <= most_looked_at)
      seen_.body += body;
    else
      keep_ = false;
    return to_.pass(head, body, last);
  }
  bool gone() const override { return watch_.gone() || to_.gone(); }

  pipeline::call_report report() {
    pipeline::call_report r;
    if (seen_.status == 0) return r;
    r.status = seen_.status;
    if (!keep_) seen_.body.clear();
    seen_.received =
        std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
    provider::decode_body(seen_, most_looked_at);
    provider::attempt_report said;
    provider::interpret(seen_, {}, said);
    if (seen_.status == 429 || seen_.status >= 500)
      if (said.signal.hint) r.retry_after = std::min(*said.signal.hint, longest_cool_down);
    if (tokens_ && said.tokens.prompt_tokens)
      r.tokens = *said.tokens.prompt_tokens + said.tokens.completion_tokens.value_or(0);
    return r;
  }

 private:
  void take_in(const provider::relay_head& head) {
    seen_.status = head.status;
    for (const auto& [name, value] : head.fields) {
      std::string lower(name);
      for (char& c : lower)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
      seen_.headers.emplace_back(std::move(lower), value);
    }
    keep_ = head.status >= 400 || tokens_;
  }

  provider::answer_sink& to_;
  caller_watch& watch_;
  bool tokens_;
  bool keep_ = false;
  provider::http_answer seen_;
};

}  // namespace

bool is_completions(std::string_view target) {
  return target.substr(0, target.find('?')) == completions_path;
}

gate_response openai_problem(int status, const std::string& code, const std::string& message,
                             bool again) {
  nlohmann::ordered_json error;
  error["message"] = "sluice gate: " + message;
  error["type"] = "sluice_gate";
  error["param"] = nullptr;
  error["code"] = code;
  nlohmann::ordered_json j;
  j["error"] = std::move(error);
  gate_response r(status, j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (!again) r.headers.emplace_back("x-should-retry", "false");
  return r;
}

namespace {

gate_response out_of_time(duration most, duration turn_in) {
  return openai_problem(503, "admission_timeout",
                        fmt::format("no turn within {:.1f} s: it would be in {:.1f} s",
                                    to_seconds(most), to_seconds(turn_in)),
                        false);
}

gate_response refusal(const pipeline::slot_answer& a) {
  if (a.error == "no_turn_in_time")
    return openai_problem(503, "admission_timeout", "no turn in time: " + a.message, false);
  if (a.status == 422) return openai_problem(400, a.error, "the call " + a.message, false);
  return openai_problem(503, a.error, a.message, false);
}

}  // namespace

struct upstream::core {
  core(asio::any_io_executor on, pipeline::clock& time, pipeline::gate_keeper& k,
       upstream_options given)
      : executor(std::move(on)),
        clock(time),
        keeper(k),
        options(std::move(given)),
        deadlines(std::make_shared<provider::watchdog>(executor)),
        idle(most_idle),
        dial(executor, options.url, options.via, options.files, {}, options.connect_timeout,
             *deadlines, idle),
        last_call(executor) {
    std::random_device seed;
    prefix = fmt::format("passed-{:08x}{:08x}-", seed(), seed());
    const auto& limits = keeper.line().settings().limits;
    tokens = std::any_of(limits.begin(), limits.end(), [](const pipeline::limit& l) {
      return l.unit == pipeline::limit_unit::tokens;
    });
  }

  // One slot and the connection to use it on.
  struct turn {
    std::unique_ptr<provider::line> on;
    std::uint64_t number = 0;
    std::uint64_t client = 0;
    instant good_until{};  ///< the slot
    std::optional<gate_response> refused;

    turn() = default;
  };

  std::optional<pipeline::turn_request> request_of(const upstream_call& call) const;
  std::string head_of(const upstream_call& call) const;
  asio::awaitable<turn> take_turn(pipeline::turn_request r, instant give_up, caller_watch& watch);
  asio::awaitable<void> connect(turn& t);
  bool full() const;
  asio::awaitable<pipeline::slot_answer> ask(const pipeline::turn_request& r, bool ready,
                                             duration poll, caller_watch& watch);
  asio::awaitable<void> leave(const pipeline::turn_request& r);
  asio::awaitable<upstream_outcome> pass(const upstream_call& call, caller_watch& watch,
                                         provider::answer_sink& to);

  asio::any_io_executor executor;
  pipeline::clock& clock;
  pipeline::gate_keeper& keeper;
  upstream_options options;
  std::shared_ptr<provider::watchdog> deadlines;
  provider::line_pool idle;
  provider::connector dial;
  asio::steady_timer last_call;
  std::string prefix;
  std::uint64_t attempts = 0;
  std::size_t under_way = 0;
  bool tokens = false;
  bool stopped = false;
};

// Nothing: a field of ours says something that cannot be.
std::optional<pipeline::turn_request> upstream::core::request_of(const upstream_call& call) const {
  pipeline::turn_request r;
  const std::string* job = field_of(call.fields, job_field);
  r.job = job != nullptr ? *job : call.client;
  if (!nameable(r.job)) return std::nullopt;
  r.max_wait = options.admission_timeout;
  if (const std::string* wait = field_of(call.fields, wait_field)) {
    std::int64_t ms = -1;
    const auto [end, error] = std::from_chars(wait->data(), wait->data() + wait->size(), ms);
    if (error != std::errc() || end != wait->data() + wait->size() || ms < 0 ||
        ms > longest_wait_ms)
      return std::nullopt;
    r.max_wait = std::chrono::milliseconds(ms);
  }
  r.longest = options.longest_call + lease_margin;
  if (tokens) r.cost.tokens = estimated_tokens(call.body);
  return r;
}

// What is said to the gate, and what belongs to the caller's connection, is not the endpoint's.
std::string upstream::core::head_of(const upstream_call& call) const {
  provider::header_fields fields = call.fields;
  provider::remove_hop_by_hop(fields);
  std::string target = options.url.target;
  if (const auto query = call.target.find('?'); query != std::string::npos)
    target += (target.find('?') == std::string::npos ? '?' : '&') + call.target.substr(query + 1);
  std::string out = "POST " + target + " HTTP/1.1\r\nHost: " + options.url.host_field() + "\r\n";
  for (const auto& [name, value] : fields) {
    const bool job = iequals(name, job_field) && options.url.loopback();
    const bool ours = name.size() > own_prefix.size() &&
                      iequals(std::string_view(name).substr(0, own_prefix.size()), own_prefix);
    if ((ours && !job) || iequals(name, "host") || iequals(name, "content-length") ||
        iequals(name, "expect"))
      continue;
    out += name + ": " + value + "\r\n";
  }
  return out + "Content-Length: " + std::to_string(call.body.size()) + "\r\n\r\n";
}

asio::awaitable<pipeline::slot_answer> upstream::core::ask(const pipeline::turn_request& r,
                                                           bool ready, duration poll,
                                                           caller_watch& watch) {
  pipeline::slot_question q;
  q.what = r;
  q.what.ready = ready;
  q.poll = poll;
  pipeline::gate_keeper::poll asking(clock);
  watch.then([&asking] { asking.hang_up(); });
  if (watch.gone()) asking.hang_up();
  pipeline::slot_answer answer = co_await keeper.question(q, asking);
  watch.then({});
  co_return answer;
}

// Whoever asks and hangs up leaves the line.
asio::awaitable<void> upstream::core::leave(const pipeline::turn_request& r) {
  pipeline::slot_question q;
  q.what = r;
  q.what.ready = true;
  pipeline::gate_keeper::poll poll(clock);
  poll.hang_up();
  co_await keeper.question(q, poll);
}

asio::awaitable<void> upstream::core::connect(turn& t) {
  t.on = idle.take(clock.now());
  if (t.on) co_return;
  provider::line_or_reason opened = co_await dial.open();
  if (auto* on = std::get_if<std::unique_ptr<provider::line>>(&opened))
    t.on = std::move(*on);
  else
    t.refused = openai_problem(502, "upstream_unreachable",
                               std::get<provider::no_line>(opened).cause, true);
}

// A turn comes when another call ends, and so does its connection.
bool upstream::core::full() const {
  const std::uint32_t most = keeper.line().settings().max_in_flight;
  return most != 0 && keeper.line().in_flight() >= most;
}

// Keeps its place, connects when the turn is near, and takes the turn. A batch may be patient with
// its own calls and with cool-downs; whoever waits here waits for one answer, so for it the timeout
// is the longest wait, whatever it is for.
asio::awaitable<upstream::core::turn> upstream::core::take_turn(pipeline::turn_request r,
                                                                instant give_up,
                                                                caller_watch& watch) {
  turn t;
  r.attempt = prefix + std::to_string(++attempts);
  bool ready = false;
  duration poll{};
  while (true) {
    const pipeline::slot_answer a = co_await ask(r, ready, poll, watch);
    const instant now = clock.now();
    if (a.status == 200) {
      const auto id = pipeline::parse_slot_id(a.slot);
      if (id) std::tie(t.number, t.client) = *id;
      t.good_until = now + a.use_within;
      if (t.on && !t.on->alive()) t.on.reset();
      if (!t.on && !watch.gone()) co_await connect(t);
      if (t.refused) keeper.done(t.number, t.client, {});
      co_return t;
    }
    const bool late = a.status == 202 && (now >= give_up || a.turn_in > give_up - now);
    if (a.status != 202 || late || watch.gone()) {
      if (t.on) idle.give(std::move(t.on), now);
      if (late || watch.gone()) co_await leave(r);
      t.refused = late ? out_of_time(r.max_wait, a.turn_in) : refusal(a);
      co_return t;
    }
    poll = give_up - now;
    if (ready || a.turn_in > pipeline::gate_line::near_by) continue;
    ready = true;
    if (full()) continue;
    co_await connect(t);
    if (t.refused) {
      co_await leave(r);
      co_return t;
    }
  }
}

asio::awaitable<upstream_outcome> upstream::core::pass(const upstream_call& call,
                                                       caller_watch& watch,
                                                       provider::answer_sink& to) {
  upstream_outcome out;
  const auto wanted = request_of(call);
  if (!wanted) {
    out.own = openai_problem(
        400, "bad_request",
        "X-Sluice-Job has 1 to 200 bytes, X-Sluice-Max-Wait-Ms is a number up to 86400000", false);
    co_return out;
  }
  const std::string head = head_of(call);
  const std::array<iovec, 2> request{piece(head), piece(call.body)};
  const provider::relay_limits within{options.longest_call, options.longest_call};
  const instant give_up = clock.now() + wanted->max_wait;
  for (int slots = 1;; ++slots) {
    pipeline::turn_request r = *wanted;
    if (slots > 1) r.max_wait = std::max<duration>(give_up - clock.now(), 0ns);
    turn t = co_await take_turn(r, give_up, watch);
    if (t.refused) {
      out.own = std::move(t.refused);
      co_return out;
    }
    // Everything from here to `done` is bounded, and the slot is reported ended in any case.
    if (watch.gone() || !t.on || clock.now() > t.good_until) {
      keeper.done(t.number, t.client, {});
      if (!watch.gone() && slots < most_slots) continue;
      out.own = openai_problem(502, "upstream_unreachable", "the connection was lost", true);
      co_return out;
    }
    looking_sink sink(to, watch, tokens);
    const bool reused = t.on->reused;
    provider::line* const on = t.on.get();
    watch.then([on] {
      boost::system::error_code ignored;
      on->socket.cancel(ignored);
    });
    const provider::relay_result got =
        co_await provider::relay(*t.on, *deadlines, request, within, sink);
    watch.then({});
    keeper.done(t.number, t.client, sink.report());
    if (got.ended == how::answered) {
      if (got.keep_alive) idle.give(std::move(t.on), clock.now());
      out.whole = true;
      co_return out;
    }
    if (got.ended == how::lost && reused && got.received == 0 && slots < most_slots) continue;
    if (got.head_passed) co_return out;
    const std::string from = "no answer from " + options.url.host_and_port();
    if (got.ended == how::timed_out)
      out.own = openai_problem(504, "upstream_timeout", from + " in time", true);
    else
      out.own = openai_problem(502, "upstream_failed", from + ": " + got.cause, true);
    co_return out;
  }
}

upstream::upstream(asio::any_io_executor executor, pipeline::clock& time,
                   pipeline::gate_keeper& keeper, upstream_options options)
    : core_(std::make_unique<core>(std::move(executor), time, keeper, std::move(options))) {}

upstream::~upstream() = default;

asio::awaitable<upstream_outcome> upstream::pass(const upstream_call& call, caller_watch& watch,
                                                 provider::answer_sink& to) {
  ++core_->under_way;
  struct leaving {
    core& of;
    explicit leaving(core& c) : of(c) {}
    ~leaving() {
      if (--of.under_way == 0) of.last_call.cancel();
    }
    leaving(const leaving&) = delete;
    leaving& operator=(const leaving&) = delete;
  };
  const leaving counted(*core_);
  upstream_outcome out = co_await core_->pass(call, watch, to);
  co_return out;
}

void upstream::stop() {
  if (std::exchange(core_->stopped, true) || core_->under_way == 0) return;
  core_->last_call.expires_after(core_->options.grace);
  core_->last_call.async_wait([c = core_.get()](boost::system::error_code ec) {
    if (ec) return;
    c->dial.abort();
    c->deadlines->abort();
  });
}

}  // namespace sluice::app
