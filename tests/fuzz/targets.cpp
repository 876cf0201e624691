#include "tests/fuzz/targets.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "app/gate/caller_checks.hpp"
#include "app/gate/routes.hpp"
#include "fixtures/fake_service.hpp"
#include "fixtures/scenario.hpp"
#include "fixtures/simulation/sim_clock.hpp"
#include "pipeline/admission/budget_state.hpp"
#include "pipeline/admission/limit.hpp"
#include "pipeline/answers/difference.hpp"
#include "pipeline/answers/recorded_answer.hpp"
#include "pipeline/documents/jsonl.hpp"
#include "pipeline/documents/lines.hpp"
#include "pipeline/documents/utf8.hpp"
#include "provider/answer.hpp"
#include "provider/base_url.hpp"
#include "provider/event_stream.hpp"
#include "provider/hints.hpp"
#include "provider/text.hpp"
#include "retry/signal.hpp"
#include "tests/support/await.hpp"

namespace sluice::fuzz {
namespace {

constexpr std::string_view key = "sk-fuzz-0123456789abcdef";

void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

// Takes what stands before the mark, and the mark, off the front.
std::string_view take_until(std::string_view& rest, std::string_view mark) {
  const auto at = rest.find(mark);
  const std::string_view part = rest.substr(0, at);
  rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + mark.size());
  return part;
}

provider::field_list take_fields(std::string_view& rest) {
  provider::field_list fields;
  while (!rest.empty()) {
    std::string_view line = take_until(rest, "\n");
    if (line.empty()) break;
    const std::string name = provider::lower_case(take_until(line, ": "));
    fields.emplace_back(name, std::string(line));
  }
  return fields;
}

void check_wait(const std::optional<duration>& wait) {
  if (wait) must(*wait >= duration::zero() && *wait <= retry::longest_hint, "a wait is in range");
}

// "STATUS\nname: value\n...\n\nbody"
void answer(std::string_view input) {
  provider::http_answer a;
  const std::string status(take_until(input, "\n").substr(0, 4));
  a.status = std::clamp(std::atoi(status.c_str()), 100, 999);
  a.headers = take_fields(input);
  a.body = std::string(input);
  a.received = wall_time(std::chrono::seconds(1'796'019'483));
  provider::attempt_report report;
  provider::interpret(a, key, report);
  if (report.signal.why == retry::reason::ok)
    must(!provider::blank(report.text), "a success has something to read");
  check_wait(report.signal.hint);
  must(report.detail.size() <= 200, "a detail is short");
  for (const std::string& kept :
       {report.text, report.detail, report.hints, report.request_id, report.finish_reason})
    must(kept.find(key) == std::string::npos, "the key is kept nowhere");
}

// "words\nname: value\n..."
void hints(std::string_view input) {
  const wall_time now(std::chrono::seconds(1'796'019'483));
  const std::string_view words = take_until(input, "\n");
  const provider::field_list headers = take_fields(input);
  using provider::bare_number;
  for (const bare_number unit :
       {bare_number::seconds, bare_number::milliseconds, bare_number::seconds_or_epoch}) {
    check_wait(provider::parse_wait(words, now, unit));
    for (const auto& [name, value] : headers) check_wait(provider::parse_wait(value, now, unit));
  }
  check_wait(provider::wait_in_words(words));
  for (const bool resets : {false, true}) {
    const provider::hint found =
        provider::find_hint({headers, headers, headers, words, now, resets});
    check_wait(found.wait);
  }
}

void stream(std::string_view input) {
  provider::looks_like_stream(input);
  provider::read_stream(input);
}

void settings(std::string_view input) {
  try {
    const pipeline::limit l = pipeline::parse_limit(input);
    must(l.amount > 0 && l.window > duration::zero(), "a limit is of something");
    must(pipeline::parse_limit(to_string(l)) == l, "a limit reads as it is written");
  } catch (const std::invalid_argument&) {
  }
  try {
    must(pipeline::parse_duration_option(input) >= duration::zero(), "no time is negative");
  } catch (const std::invalid_argument&) {
  }
  try {
    const provider::base_url url = provider::parse_base_url(input);
    must(!url.host.empty() && url.port != 0, "an address leads somewhere");
    url.follow(input);
  } catch (const std::invalid_argument&) {
  }
  provider::safe_url(input);
}

// Bytes in pieces of sizes that the bytes themselves choose.
class pieces final : public pipeline::byte_stream {
 public:
  explicit pieces(std::string_view bytes) : rest_(bytes) {}
  pipeline::asio::awaitable<std::size_t> read_some(std::span<char> into) override {
    const std::size_t wish = rest_.empty() ? 0 : static_cast<unsigned char>(rest_.front()) % 7U + 1;
    const std::size_t n = std::min({rest_.size(), into.size(), wish});
    std::memcpy(into.data(), rest_.data(), n);
    rest_.remove_prefix(n);
    co_return n;
  }

 private:
  std::string_view rest_;
};

void jsonl(std::string_view input) {
  boost::asio::io_context context;
  pipeline::line_reader reader(std::make_unique<pieces>(input));
  pipeline::text_line line;
  std::uint64_t number = 0;
  while (testing::run_to_end(context, reader.next(line))) {
    must(line.number == ++number, "lines are counted");
    must(line.text.find('\n') == std::string::npos, "a line is one line");
    const auto parsed = pipeline::parse_jsonl(line.text);
    const auto* e = std::get_if<pipeline::jsonl_entry>(&parsed);
    if (e == nullptr) continue;
    must(!e->id.empty() && e->id.size() <= pipeline::longest_id, "an ID is there and not long");
    must(pipeline::to_valid_utf8(e->text) == e->text, "a text is UTF-8");
    const std::string again = pipeline::jsonl_line(e->id, e->text, e->messages);
    const auto reparsed = pipeline::parse_jsonl(again);
    const auto* same = std::get_if<pipeline::jsonl_entry>(&reparsed);
    must(same != nullptr && same->id == e->id && same->text == e->text &&
             same->messages == e->messages,
         "a kept document reads as it was");
  }
}

void scenario(std::string_view input) {
  try {
    const auto script = fixtures::parse_scenario(input, "fuzz");
    if (script)
      for (unsigned nth = 1; nth < 5; ++nth) script(nth, "a document");
  } catch (const std::invalid_argument&) {
  }
}

// CRC-64/XZ, bit by bit: on purpose not the program's own.
std::uint64_t crc(std::string_view bytes) {
  std::uint64_t value = ~std::uint64_t{0};
  for (const char c : bytes) {
    value ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit)
      value = (value >> 1U) ^ ((value & 1U) != 0 ? 0xC96C5795D7870F42ULL : 0);
  }
  return ~value;
}

void check_budget(std::string_view bytes) {
  const auto parsed = pipeline::parse_budget(bytes);
  const auto* state = std::get_if<pipeline::budget_state>(&parsed);
  if (state == nullptr) return;
  const auto again = pipeline::parse_budget(pipeline::serialise(*state));
  const auto* same = std::get_if<pipeline::budget_state>(&again);
  must(same != nullptr && *same == *state, "a budget reads as it was written");
}

// The bytes as they are, and with length and checksum made right, so that the inside is reached
// too.
void budget(std::string_view input) {
  check_budget(input);
  std::string sealed(input);
  if (sealed.size() < 24) return;
  const auto put = [&](std::size_t at, std::uint64_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) sealed[at + i] = static_cast<char>(value >> (8 * i));
  };
  put(12, sealed.size(), 4);
  put(sealed.size() - 8, crc(std::string_view(sealed).substr(0, sealed.size() - 8)), 8);
  check_budget(sealed);
}

void recorded(std::string_view input) {
  const auto parsed = pipeline::parse_recorded_answer(input);
  if (const auto* a = std::get_if<pipeline::recorded_answer>(&parsed)) {
    const auto again = pipeline::parse_recorded_answer(pipeline::recorded_answer_line(*a));
    const auto* same = std::get_if<pipeline::recorded_answer>(&again);
    must(same != nullptr && same->id == a->id && same->request == a->request &&
             same->text == a->text && same->body == a->body,
         "a recorded answer reads as it was");
  }
  const std::string_view one = take_until(input, "\n");
  using pipeline::comparison;
  for (const comparison how : {comparison::exact, comparison::whitespace, comparison::json}) {
    const auto difference = pipeline::difference(one, input, how);
    must(how == comparison::json || !pipeline::difference(one, one, how),
         "nothing differs from itself");
    if (difference) must(difference->find('\n') == std::string::npos, "a difference is one line");
  }
}

void fake_call(std::string_view input) {
  fixtures::fake_options options;
  options.limit.reset();
  fixtures::fake_service service(options);
  fixtures::fake_request request;
  request.method = "POST";
  request.target = "/v1/chat/completions";
  request.body = std::string(input);
  const auto reply = service.handle(request, duration::zero());
  must(reply.status == 200 || reply.status == 400, "a call is answered or refused");
}

class no_disk final : public pipeline::gate_store {
  pipeline::asio::awaitable<void> write(std::string) override { co_return; }
};

// "METHOD /target\nname: value\n...\n\nbody", from a caller who hangs up when all has been said.
void gate_call(std::string_view input) {
  app::gate_request request;
  request.method = std::string(take_until(input, " "));
  request.target = std::string(take_until(input, "\n"));
  const provider::field_list fields = take_fields(input);
  request.body = std::string(input);

  app::caller who;
  who.target = request.target;
  who.host = provider::header_value(fields, "host").value_or("");
  who.token = provider::header_value(fields, "x-sluice-token").value_or("");
  who.authorization = provider::header_value(fields, "authorization").value_or("");
  who.from_a_page = provider::header_value(fields, "origin").has_value();
  const app::caller_rules rules{std::string(key), {"localhost"}};
  const bool welcome = !app::check_caller(who, rules);
  must(!welcome || (app::host_of(who.host) == "localhost" && !who.from_a_page),
       "only our own name is answered to, and no page");

  boost::asio::io_context context;
  fixtures::sim_clock time(context);
  no_disk store;
  pipeline::budget_settings limits;
  limits.limits.emplace_back();
  pipeline::gate_keeper keeper(time, pipeline::fresh_budget(limits, "boot"), store);
  app::routes routes(time, keeper);
  app::caller_watch watch;
  unsigned ended = 0;
  app::gate_response answer;
  boost::asio::co_spawn(context, keeper.run(), [&](std::exception_ptr e) {
    must(!e, "the keeper throws nothing");
    ++ended;
  });
  boost::asio::co_spawn(context, routes.answer(request, watch),
                        [&](std::exception_ptr e, app::gate_response told) {
                          must(!e, "an answer throws nothing");
                          answer = std::move(told);
                          ++ended;
                        });
  context.poll();
  watch.hung_up();
  time.run_until([&] { return ended == 1; }, std::chrono::hours(1));
  must(answer.status >= 200 && answer.status < 600, "an answer has a status");
  keeper.stop();
  time.run_until([&] { return ended == 2; }, std::chrono::hours(1));
}

constexpr std::array all{
    target{"answer", answer},       target{"hints", hints},       target{"stream", stream},
    target{"jsonl", jsonl},         target{"scenario", scenario}, target{"budget", budget},
    target{"settings", settings},   target{"recorded", recorded}, target{"fake_call", fake_call},
    target{"gate_call", gate_call},
};

}  // namespace

std::span<const target> targets() {
  return all;
}

const target* find_target(std::string_view name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const target& t) { return t.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace sluice::fuzz
