#include "app/sending.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "app/budget_command.hpp"
#include "app/display.hpp"
#include "app/exit_codes.hpp"
#include "app/gate/use_gate.hpp"
#include "app/interrupts.hpp"
#include "app/output_file.hpp"
#include "app/target.hpp"
#include "pipeline/documents/reader.hpp"
#include "pipeline/outcomes/fingerprint.hpp"
#include "pipeline/outcomes/queries.hpp"
#include "pipeline/real_clock.hpp"
#include "provider/http_endpoint.hpp"

namespace sluice::app {
namespace {

namespace asio = boost::asio;
using open_source =
    std::function<std::unique_ptr<pipeline::document_source>(asio::any_io_executor)>;

// What run and rerun have in common.
struct assignment {
  std::string command;
  settings with;
  nlohmann::json inputs;
  open_source open;
  bool again = false;
};

std::string limits_text(const std::vector<pipeline::limit>& limits) {
  if (limits.empty()) return "none";
  std::string text;
  for (const pipeline::limit& l : limits) text += (text.empty() ? "" : " ") + to_string(l);
  return text;
}

std::string shell_quoted(const std::string& text) {
  const char* const plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// The command that takes up what is left, or nothing when nothing is.
std::string rerun_text(const settings& s, const pipeline::batch_result& r) {
  if (r.failed + r.deferred == 0) return "";
  std::string text = "sluice rerun";
  if (s.store != settings().store) text += " --store " + shell_quoted(s.store);
  return text;
}

std::string tally_json(const pipeline::batch_result& r) {
  nlohmann::ordered_json j;
  j["documents"] = r.documents;
  j["skipped"] = r.skipped;
  j["succeeded"] = r.succeeded;
  j["failed"] = r.failed;
  j["deferred"] = r.deferred;
  j["mismatched"] = r.mismatched;
  j["calls"] = r.calls;
  j["rate_limited"] = r.refused;
  if (r.stopped) j["stopped"] = retry::name(r.stopped->why);
  return j.dump();
}

pipeline::batch_options batch_options_of(const settings& s, bool again) {
  pipeline::batch_options o;
  o.concurrency = s.concurrency;
  o.limits = s.limits;
  o.shape = s.pace;
  o.patience.max_wait = s.max_wait;
  o.max_outage = s.max_outage;
  o.grace = s.grace;
  o.again = again;
  o.keep_bodies = s.keep_bodies;
  if (!s.record.empty()) o.recording = std::make_shared<pipeline::answer_recording>(s.record);
  if (!s.expect.empty())
    o.expected = std::make_shared<pipeline::expected_answers>(s.expect, s.compare);
  std::random_device entropy;
  o.seed = s.seed.value_or((std::uint64_t{entropy()} << 32U) ^ entropy());
  return o;
}

// Takes as many file descriptors as this process may have.
void take_descriptors() {
  // Store, log, signals and one connection; the fake endpoint has some of its own.
  constexpr rlim_t least = 20;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  if (files.rlim_cur < files.rlim_max) {
    rlimit more{files.rlim_max, files.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &more) == 0) files = more;
  }
  if (files.rlim_cur < least)
    throw settings_error(exit_codes::storage,
                         "only " + std::to_string(files.rlim_cur) +
                             " file descriptors are allowed to this process, and " +
                             std::to_string(least) + " are needed at least; raise ulimit -n");
}

// As many calls at once as there are file descriptors for, besides those in use and some to spare.
// The rest would queue behind documents that can never have a connection.
unsigned within_descriptors(unsigned wanted) {
  constexpr std::size_t spare = 6;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return wanted;
  std::error_code none;
  const std::filesystem::directory_iterator open("/proc/self/fd", none);
  const auto used = static_cast<std::size_t>(none ? 0 : std::distance(begin(open), end(open)));
  const std::size_t left = files.rlim_cur > used + spare ? files.rlim_cur - used - spare : 1;
  return static_cast<unsigned>(std::min<std::size_t>(wanted, left));
}

provider::http_options http_options_of(const target& to, pipeline::clock& time, std::string job) {
  provider::http_options o;
  o.url = to.url;
  o.api_key = to.key;
  o.key_goes = to.key_goes;
  o.via = to.via;
  o.ca_file = to.with.ca_file;
  o.client_cert = to.with.client_cert;
  o.client_key = to.with.client_key;
  o.job = std::move(job);
  o.connect_timeout = to.with.connect_timeout;
  o.idle_timeout = to.with.idle_timeout;
  o.timeout = to.with.timeout;
  o.max_response = to.with.max_response;
  o.keep_bodies = to.with.keep_bodies || !to.with.record.empty();
  o.max_idle = to.with.concurrency;
  o.now = [&time] { return time.now(); };
  return o;
}

std::unique_ptr<provider::http_endpoint> make_endpoint(asio::any_io_executor executor,
                                                       provider::http_options options) {
  try {
    return std::make_unique<provider::http_endpoint>(std::move(executor), std::move(options));
  } catch (const std::invalid_argument& e) {
    throw settings_error(retry::exit_code::configuration, e.what());
  }
}

// A store holds calls of the window before this run; the limit spans both.
void remember_recent_calls(pipeline::batch& batch, pipeline::clock& time, const target& to) {
  duration longest{};
  std::int64_t most = 0;
  for (const pipeline::limit& l : to.with.limits) {
    longest = std::max(longest, l.window + pipeline::ring::default_guard(l));
    if (l.unit == pipeline::limit_unit::requests) most = std::max(most, l.amount);
  }
  if (to.fake || longest == duration::zero()) return;
  const wall_time wall = time.wall_now();
  const instant now = time.now();
  const auto reach = std::chrono::ceil<wall_time::duration>(longest);
  const auto at_most = static_cast<std::size_t>(most) + to.with.concurrency;
  for (const wall_time at : pipeline::calls_since(to.with.store, to.display, wall - reach, at_most))
    if (at <= wall) batch.turns().remember(now - (wall - at));
}

// The live line, while the batch runs.
class live_line {
 public:
  live_line(display& to, pipeline::clock& time, pipeline::batch& watched,
            std::optional<duration> pace, std::optional<std::uint64_t> documents)
      : to_(to),
        time_(time),
        watched_(watched),
        pace_(pace),
        documents_(documents),
        bell_(time.make_alarm()) {}

  asio::awaitable<void> keep_drawing() {
    while (to_.live() && !over_) {
      live_state now;
      now.calls_under_way = watched_.turns().in_flight();
      const instant next = watched_.turns().next_turn();
      if (watched_.turns().queueing() > 0 && next > time_.now() && next < instant::max())
        now.next_turn = next - time_.now();
      now.pace = pace_;
      now.documents = documents_;
      to_.redraw(watched_.so_far(), now);
      co_await bell_->wait_until(time_.now() + std::chrono::milliseconds(250));
    }
  }
  void stop() {
    over_ = true;
    bell_->ring();
  }

 private:
  display& to_;
  pipeline::clock& time_;
  pipeline::batch& watched_;
  std::optional<duration> pace_;
  std::optional<std::uint64_t> documents_;
  std::unique_ptr<pipeline::alarm> bell_;
  bool over_ = false;
};

std::optional<duration> slowest_pace(const std::vector<pipeline::limit>& limits) {
  std::optional<duration> pace;
  for (const pipeline::limit& l : limits)
    if (l.unit == pipeline::limit_unit::requests)
      pace = std::max(pace.value_or(duration::zero()), l.window / l.amount);
  return pace;
}

// What ended a batch other than its own end.
struct failure {
  int exit = 0;
  std::string text;
};

failure failure_of(const std::exception_ptr& e) {
  try {
    std::rethrow_exception(e);
  } catch (const pipeline::store_error& error) {
    return {error.code(), error.what()};
  } catch (const pipeline::input_failure& error) {
    return {exit_codes::unreadable_input, error.what()};
  }
}

int send(assignment work) {
  std::signal(SIGPIPE, SIG_IGN);
  // A file at its size limit is then an error like a full disk, and no reason to die.
  std::signal(SIGXFSZ, SIG_IGN);
  take_descriptors();
  target to = make_target(std::move(work.with));
  const provider::request_template request = make_template(to.with);

  asio::io_context context(1);
  const auto executor = context.get_executor();
  pipeline::real_clock time(executor);
  const std::unique_ptr<pipeline::document_source> source = work.open(executor);
  auto store = std::make_unique<pipeline::run_store>(executor, time, to.with.store);
  pipeline::run_info info;
  info.command = work.command;
  info.endpoint = to.display;
  info.model = to.with.model;
  info.settings_json = settings_to_json(to.with);
  info.inputs_json = work.inputs.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);

  pipeline::fingerprinter prints(to.origin, to.with.model, request.parameters(),
                                 request.prompt_text());
  pipeline::document_view view;
  view.render = [&](const pipeline::document& d) {
    return request.render(d.id, d.text, d.messages);
  };
  view.inputs = [&](const pipeline::document& d) { return prints.of(d); };
  view.tokens = [&](const std::string& body) { return request.estimate_tokens(body); };

  display shown(to.with);
  const std::string job = std::to_string(::getpid());
  const auto budget =
      share_budget(to.with, job, [&](const std::string& text) { shown.warning(text); });
  if (const unsigned most = within_descriptors(to.with.concurrency); most < to.with.concurrency) {
    shown.warning("file descriptors are enough for " + std::to_string(most) +
                  " calls at once only; raise ulimit -n or lower --concurrency");
    to.with.concurrency = most;
  }
  pipeline::batch_options how = batch_options_of(to.with, work.again);
  how.budget = budget;
  const auto gate = use_gate(to.with, executor, time, how.seed);
  if (gate) {
    how.budget = gate;
    how.limits = to.with.limits;
  }
  const instant began = time.now();
  const auto endpoint = make_endpoint(executor, http_options_of(to, time, job));
  pipeline::batch batch(executor, time, *endpoint, *source, store.get(), *store, shown, view, how);
  const std::string run_id = store->begin_run(info);
  remember_recent_calls(batch, time, to);
  shown.run_started(run_id, to.display, limits_text(to.with.limits),
                    to.via ? to.via->host_and_port() : "");

  interrupts signals(context, [&](int number) {
    shown.interrupted(number, to.with.grace);
    batch.interrupt();
  });
  live_line line(shown, time, batch, slowest_pace(to.with.limits),
                 shown.live() ? source->expected() : std::nullopt);
  std::exception_ptr trouble;
  asio::co_spawn(context, line.keep_drawing(), [](std::exception_ptr) {});
  asio::co_spawn(context, batch.run(), [&](std::exception_ptr e, const pipeline::batch_result&) {
    trouble = e;
    signals.stop();
    line.stop();
    if (gate) gate->close();
    endpoint->abort();
  });
  if (gate)
    asio::co_spawn(context, gate->run(), [&](std::exception_ptr e) {
      if (e && !trouble) trouble = e;
    });
  context.run();

  const pipeline::batch_result result = batch.so_far();
  failure broken;
  if (trouble) broken = failure_of(trouble);
  int exit = exit_codes::of(result, signals.received());
  if (broken.exit != 0 && signals.received() == 0) exit = broken.exit;
  try {
    store->finish_run(exit, tally_json(result));
  } catch (const pipeline::store_error& e) {
    if (broken.exit == 0) broken = {e.code(), e.what()};
    if (signals.received() == 0) exit = exit_codes::storage;
  }
  store.reset();
  if (!broken.text.empty()) shown.trouble(broken.text);
  if (!to.with.record.empty() && result.calls == 0 && result.skipped > 0)
    shown.warning("nothing was asked, so --record kept nothing; --again asks anew");
  shown.run_ended(run_id, result, exit, rerun_text(to.with, result), time.now() - began);
  if (to.with.json) {
    output_file out("");
    out.write(pipeline::to_json(pipeline::summarise(to.with.store)) + "\n");
    out.commit();
  }
  return exit;
}

// A re-run asks as its run did; flags have the last word.
settings settings_of_rerun(const rerun_command& what, const pipeline::run_info& of) {
  settings s = what.base;
  apply(s, settings_from_json(of.settings_json), "settings of run " + of.id,
        retry::exit_code::configuration);
  // Naming an endpoint is a way to say that the fake one is not meant.
  if (what.flags.contains("endpoint")) s.fake = false;
  apply(s, what.flags, "command line", exit_codes::usage);
  return s;
}

}  // namespace

int run(const run_command& what) {
  assignment work;
  work.command = "run";
  work.with = what.with;
  work.inputs = what.inputs;
  work.again = what.with.again;
  work.open = [&what](asio::any_io_executor executor) {
    return pipeline::open_documents(std::move(executor), what.inputs);
  };
  return send(std::move(work));
}

int rerun(const rerun_command& what) {
  settings asked = what.base;
  apply(asked, what.flags, "command line", exit_codes::usage);
  using pipeline::selection;
  const selection which = what.ids           ? selection::ids
                          : what.failed_only ? selection::failed
                                             : selection::failed_and_deferred;
  const std::vector<std::string> ids = what.ids.value_or(std::vector<std::string>());
  pipeline::rerun_choice choice = pipeline::rerun_targets(asked.store, what.run, which, ids);
  if (!choice.unknown_ids.empty()) {
    std::string text =
        "the store " + asked.store + " knows no document '" + choice.unknown_ids.front() + "'";
    if (choice.unknown_ids.size() > 1)
      text += " (nor " + std::to_string(choice.unknown_ids.size() - 1) + " more)";
    throw settings_error(exit_codes::unreadable_input,
                         text + "; `sluice results` lists the IDs; nothing was sent");
  }
  assignment work;
  work.command = "rerun";
  work.with = settings_of_rerun(what, choice.of);
  work.inputs = nlohmann::json::array({choice.of.id});
  work.again = true;
  work.open = [&choice](asio::any_io_executor executor) {
    return pipeline::open_rerun(std::move(executor), std::move(choice.targets));
  };
  return send(std::move(work));
}

}  // namespace sluice::app
