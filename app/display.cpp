#include "app/display.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "app/logfmt.hpp"
#include "app/settings.hpp"
#include "app/verdict.hpp"
#include "retry/table.hpp"

namespace sluice::app {
namespace {

spdlog::level::level_enum level_of(const settings& s, bool terminal) {
  if (s.log_level_given) return spdlog::level::from_str(s.log_level);
  if (s.quiet) return spdlog::level::err;
  return terminal ? spdlog::level::warn : spdlog::level::info;
}

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
  return 80;
}

std::string short_time(duration d) {
  const auto s = std::chrono::ceil<std::chrono::seconds>(d).count();
  if (s < 120) return fmt::format("{} s", s);
  if (s < 7200) return fmt::format("{} min", (s + 59) / 60);
  return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
}

}  // namespace

display::display(const settings& s)
    : terminal_(::isatty(STDERR_FILENO) != 0), quiet_(s.quiet), silent_(s.log_level == "off") {
  const char* kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::strcmp(kind, "dumb") == 0;
  live_ = terminal_ && !dumb && !s.quiet && !silent_;
  log_ =
      std::make_shared<spdlog::logger>("sluice", std::make_shared<spdlog::sinks::stderr_sink_st>());
  log_->set_pattern("%v");
  log_->set_level(level_of(s, terminal_));
}

display::~display() {
  clear();
}

void display::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void display::plain(const std::string& line) {
  clear();
  std::fputs((line + "\n").c_str(), stderr);
}

void display::run_started(const std::string& run, const std::string& endpoint,
                          const std::string& limits, const std::string& via) {
  event_line line("run_started");
  line.add("run", run).add("endpoint", endpoint).add("limit", limits);
  if (!via.empty()) line.add("proxy", via);
  clear();
  log_->info(line.text());
}

void display::attempt_ended(const pipeline::attempt_record& r, const retry::decision& d) {
  const bool ok = r.why == retry::reason::ok;
  const auto level = ok ? spdlog::level::info : spdlog::level::warn;
  if (!log_->should_log(level)) return;
  event_line line(ok ? "model_call_ok" : "model_call_failed");
  line.add("doc", r.document_id).add("attempt", std::uint64_t{r.attempt});
  if (r.http_status != 0) line.add("status", static_cast<std::uint64_t>(r.http_status));
  if (!ok) line.add("reason", retry::name(r.why));
  if (r.retry_after) line.add("retry_after_seconds", *r.retry_after);
  line.add("model_wait_seconds", r.queued).add("duration_seconds", r.took.total);
  if (!ok && d.what == retry::decision::act::again) {
    line.add("next", "again");
    line.add("again_in_seconds", d.delay);
  }
  if (r.may_have_been_billed) line.add("may_have_been_billed", "true");
  if (!r.request_id.empty()) line.add("request_id", r.request_id);
  if (!ok && !r.detail.empty()) line.add("detail", r.detail);
  clear();
  log_->log(level, line.text());
}

void display::document_ended(const pipeline::outcome_record& r) {
  if (r.outcome == retry::outcome::succeeded) return;
  // A run that stops defers all that is left: one line says so, not thousands.
  const bool deferred = r.outcome == retry::outcome::deferred;
  const auto level = deferred ? spdlog::level::debug : spdlog::level::warn;
  if (!log_->should_log(level)) return;
  event_line line(fmt::format("document_{}", retry::name(r.outcome)));
  line.add("doc", r.document_id).add("reason", retry::name(r.why));
  if (r.kind != retry::outcome_class::none) line.add("class", retry::name(r.kind));
  line.add("attempts", std::uint64_t{r.attempts});
  if (!r.detail.empty()) line.add("detail", r.detail);
  clear();
  log_->log(level, line.text());
}

void display::run_stopping(const pipeline::stop_cause& cause) {
  event_line line("run_stopping");
  line.add("reason", retry::name(cause.why));
  if (cause.come_back) line.add("come_back_in_seconds", *cause.come_back);
  if (!cause.detail.empty()) line.add("detail", cause.detail);
  line.add("remedy", retry::row_of(cause.why).remedy);
  clear();
  log_->log(cause.why == retry::reason::interrupted ? spdlog::level::info : spdlog::level::err,
            line.text());
}

void display::interrupted(int signal, duration grace) {
  event_line line("interrupted");
  line.add("signal", std::uint64_t(static_cast<unsigned>(signal))).add("grace_seconds", grace);
  clear();
  log_->warn(line.text());
}

void display::warning(const std::string& what) {
  event_line line("warning");
  line.add("detail", what);
  clear();
  log_->warn(line.text());
}

void display::trouble(const std::string& what) {
  if (silent_) return;
  plain("sluice: " + what);
}

void display::redraw(const pipeline::batch_result& so_far, const live_state& now) {
  if (!live_) return;
  const std::uint64_t done = so_far.succeeded + so_far.failed + so_far.deferred + so_far.mismatched;
  std::string text = now.documents ? fmt::format("{}/{} done", done, *now.documents)
                                   : fmt::format("{} done", done);
  text += fmt::format(", {} failed, {} deferred, {} refused", so_far.failed, so_far.deferred,
                      so_far.refused);
  if (now.next_turn && *now.next_turn > std::chrono::milliseconds(500))
    text += fmt::format("; next turn in {}", short_time(*now.next_turn));
  else if (now.calls_under_way > 0)
    text += fmt::format("; waiting for {} answer{}", now.calls_under_way,
                        now.calls_under_way == 1 ? "" : "s");
  if (now.documents && now.pace && *now.documents > done)
    text += fmt::format("; about {} left",
                        short_time(*now.pace * static_cast<long>(*now.documents - done)));
  if (text.size() >= terminal_width()) text.resize(terminal_width() - 1);
  std::fputs(("\r" + text + "\033[K").c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void display::run_ended(const std::string& run, const pipeline::batch_result& result, int exit,
                        const std::string& again, duration elapsed) {
  if (silent_ || (quiet_ && exit == 0)) return;
  const std::string sentence = verdict_sentence(result, exit);
  if (terminal_) {
    plain(sentence);
    for (const std::string& line : remedies(result)) plain("  " + line);
    if (!again.empty()) plain("Take up what is left with: " + again);
  } else {
    event_line line("run_ended");
    line.add("run", run).add("exit", static_cast<std::uint64_t>(exit));
    line.add("documents", result.documents).add("succeeded", result.succeeded);
    line.add("failed", result.failed).add("deferred", result.deferred);
    line.add("mismatched", result.mismatched).add("skipped", result.skipped);
    line.add("calls", result.calls).add("rate_limited", result.refused);
    line.add("elapsed_seconds", elapsed);
    line.add("waiting_seconds", std::max(duration::zero(), elapsed - result.calling));
    line.add("verdict", sentence);
    plain(line.text());
    for (const auto& [why, count] : result.by_reason) {
      const std::string_view remedy = retry::row_of(why).remedy;
      if (remedy.empty()) continue;
      event_line advice("remedy");
      advice.add("reason", retry::name(why)).add("documents", count).add("remedy", remedy);
      plain(advice.text());
    }
    if (!again.empty()) {
      event_line next("what_is_left");
      next.add("command", again);
      plain(next.text());
    }
  }
  plain("model_wait_seconds=" + seconds_text(result.waited));
}

}  // namespace sluice::app
