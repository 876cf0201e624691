// Selections of rows; report.cpp turns them into JSON.
#include "pipeline/outcomes/queries.hpp"

#include <set>

#include "pipeline/outcomes/rows.hpp"
#include "pipeline/outcomes/store_view.hpp"

namespace sluice::pipeline {
namespace {

wall_time from_ms(std::int64_t ms) {
  return wall_time(std::chrono::milliseconds(ms));
}

std::uint64_t count(const sqlite::statement& s, int column) {
  return static_cast<std::uint64_t>(s.integer(column));
}

void add_outcomes(store_view& v, summary& into) {
  sqlite::statement s = v.prepare("WITH " + v.counted() +
                                  " SELECT outcome, class, reason, count(*), sum(waited_ns) "
                                  "FROM counted GROUP BY outcome, class, reason");
  while (s.step()) {
    const std::uint64_t n = count(s, 3);
    const auto how = retry::outcome_named(s.text(0));
    into.documents += n;
    if (how == retry::outcome::succeeded) into.succeeded += n;
    if (how == retry::outcome::deferred) into.deferred += n;
    if (how == retry::outcome::mismatched) into.mismatched += n;
    if (how == retry::outcome::failed) {
      into.failed += n;
      (s.text(1) == "transient" ? into.failed_transient : into.failed_permanent) += n;
    }
    if (how != retry::outcome::succeeded) into.by_reason[std::string(s.text(2))] += n;
    if (!v.whole()) into.model_wait += s.time(4);
  }
  if (!v.whole()) return;
  // Like the calls, the waiting is that of all runs.
  sqlite::statement waited = v.prepare("SELECT sum(waited_ns) FROM outcomes");
  if (waited.step()) into.model_wait = waited.time(0);
}

void add_calls(store_view& v, summary& into) {
  sqlite::statement s = v.prepare(
      "SELECT count(*), sum(http_status = 429), sum(attempt > 1), "
      "count(DISTINCT CASE WHEN attempt > 1 THEN document END), sum(prompt_tokens), "
      "sum(completion_tokens), min(jitter_ns), max(jitter_ns), count(retry_after_ns) "
      "FROM attempts WHERE " +
      v.of_run());
  if (!s.step()) return;
  into.calls = count(s, 0);
  into.rate_limited = count(s, 1);
  into.retries = count(s, 2);
  into.documents_retried = count(s, 3);
  into.prompt_tokens = s.maybe_integer(4);
  into.completion_tokens = s.maybe_integer(5);
  if (!s.null(6)) into.jitter_min = s.time(6);
  if (!s.null(7)) into.jitter_max = s.time(7);
  const std::int64_t hints = s.integer(8);
  if (hints == 0) return;

  sqlite::statement nth = v.prepare("SELECT retry_after_ns FROM attempts WHERE " + v.of_run() +
                                    " AND retry_after_ns IS NOT NULL "
                                    "ORDER BY retry_after_ns LIMIT 1 OFFSET ?1");
  const auto percentile = [&](std::int64_t percent) {
    const sqlite::reset_after guard(nth);
    nth.bind(1, std::int64_t{(percent * hints + 99) / 100 - 1});
    nth.step();
    return nth.time(0);
  };
  into.retry_after_p50 = percentile(50);
  into.retry_after_p95 = percentile(95);
}

void add_elapsed(store_view& v, summary& into) {
  // A run that was killed lasted until the last thing known of it.
  sqlite::statement s = v.prepare(
      "SELECT sum(max(0, coalesce(ended_ms, "
      "  (SELECT max(ended_ms) FROM outcomes WHERE run = runs.number), started_ms) - started_ms)) "
      "FROM runs WHERE " +
      v.of_runs());
  if (s.step()) into.elapsed = std::chrono::milliseconds(s.integer(0));
}

run_info info_of(store_view& v) {
  sqlite::statement s = v.prepare(
      "SELECT id, command, endpoint, model, settings, inputs, started_ms, ended_ms, exit_code, "
      "summary FROM runs WHERE number = ?1");
  s.bind(1, v.run());
  s.step();
  run_info r;
  r.id = s.text(0);
  r.command = s.text(1);
  r.endpoint = s.text(2);
  r.model = s.text(3);
  r.settings_json = s.text(4);
  r.inputs_json = s.text(5);
  r.started = from_ms(s.integer(6));
  if (!s.null(7)) r.ended = from_ms(s.integer(7));
  if (!s.null(8)) r.exit = static_cast<int>(s.integer(8));
  r.summary_json = s.text(9);
  return r;
}

rerun_target target_of(const sqlite::statement& s) {
  rerun_target t;
  t.id = s.text(0);
  t.from.from = origin_named(s.text(1));
  t.from.path = s.text(2);
  t.from.line = count(s, 3);
  t.kept_document = s.text(4);
  t.from.unnamed = s.integer(5) != 0;
  return t;
}

std::string target_columns(const store_view& v) {
  return std::string("d.id, o.origin, o.origin_path, o.origin_line, o.kept_document, ") +
         (v.version() < 2 ? "0 " : "d.unnamed ");
}

void choose_by_id(store_view& v, const std::vector<std::string>& ids, rerun_choice& into) {
  // A document and a line that is called so are two.
  sqlite::statement s = v.prepare("SELECT " + target_columns(v) +
                                  "FROM documents d JOIN outcomes o ON o.document = d.number "
                                  "WHERE d.id = ?1 AND o.run = "
                                  "  (SELECT max(run) FROM outcomes WHERE document = d.number)");
  std::set<std::string> taken;
  for (const std::string& id : ids) {
    if (!taken.insert(id).second) continue;
    const sqlite::reset_after guard(s);
    s.bind(1, std::string_view(id));
    const std::size_t before = into.targets.size();
    while (s.step()) into.targets.push_back(target_of(s));
    if (into.targets.size() == before) into.unknown_ids.push_back(id);
  }
}

// The latest outcome decides, but the document must have ended so in that run as well.
void choose_by_run(store_view& v, selection which, rerun_choice& into) {
  const std::string wanted = which == selection::failed ? "('failed')" : "('failed', 'deferred')";
  sqlite::statement s =
      v.prepare("SELECT " + target_columns(v) +
                "FROM outcomes then_ JOIN documents d ON d.number = then_.document "
                "JOIN outcomes o ON o.document = d.number AND o.run = "
                "  (SELECT max(run) FROM outcomes WHERE document = d.number) "
                "WHERE then_.run = ?1 AND then_.outcome IN " +
                wanted + " AND o.outcome IN " + wanted + " ORDER BY d.number");
  s.bind(1, v.run());
  while (s.step()) into.targets.push_back(target_of(s));
}

}  // namespace

summary summarise(const std::string& path, const std::optional<std::string>& run) {
  store_view v(path, run);
  const run_info info = info_of(v);
  summary s;
  s.run = info.id;
  s.unfinished = !info.exit;
  s.exit = info.exit;
  add_outcomes(v, s);
  add_calls(v, s);
  add_elapsed(v, s);
  return s;
}

void for_each_result(const std::string& path, const std::optional<std::string>& run,
                     const std::function<void(const result_row&)>& each) {
  store_view v(path, run);
  sqlite::statement s = v.prepare(
      "WITH " + v.counted() +
      " SELECT d.id, r.id, o.outcome, o.reason, o.class, o.text, o.attempts, o.http_status, "
      "o.request_id, o.prompt_tokens, o.completion_tokens, o.waited_ns, o.took_ns, o.detail "
      "FROM counted o JOIN documents d ON d.number = o.document JOIN runs r ON r.number = o.run "
      "ORDER BY d.number");
  while (s.step()) {
    result_row row;
    row.id = s.text(0);
    row.run = s.text(1);
    row.outcome = s.text(2);
    row.reason = s.text(3);
    row.kind = s.text(4);
    row.text = s.text(5);
    row.attempts = count(s, 6);
    row.http_status = static_cast<int>(s.integer(7));
    row.request_id = s.text(8);
    row.prompt_tokens = s.maybe_integer(9);
    row.completion_tokens = s.maybe_integer(10);
    row.waited = s.time(11);
    row.took = s.time(12);
    row.detail = s.text(13);
    each(row);
  }
}

run_info find_run(const std::string& path, const std::optional<std::string>& run) {
  store_view v(path, run);
  return info_of(v);
}

std::vector<wall_time> calls_since(const std::string& path, const std::string& endpoint,
                                   wall_time since, std::size_t most) {
  store_view v(path, std::nullopt);
  // Rows come in the order in which calls ended, close enough to look only at the newest.
  sqlite::statement s = v.prepare(
      "SELECT sent_ms, endpoint FROM "
      "  (SELECT sent_ms, run FROM attempts ORDER BY rowid DESC LIMIT ?1) a "
      "JOIN runs r ON r.number = a.run WHERE sent_ms >= ?2 AND endpoint = ?3 ORDER BY sent_ms");
  s.bind(1, static_cast<std::int64_t>(most));
  s.bind(2, std::int64_t{since.time_since_epoch().count()});
  s.bind(3, std::string_view(endpoint));
  std::vector<wall_time> calls;
  while (s.step()) calls.push_back(from_ms(s.integer(0)));
  return calls;
}

rerun_choice rerun_targets(const std::string& path, const std::optional<std::string>& run,
                           selection which, const std::vector<std::string>& ids) {
  store_view v(path, run);
  rerun_choice choice;
  choice.of = info_of(v);
  if (which == selection::ids)
    choose_by_id(v, ids, choice);
  else
    choose_by_run(v, which, choice);
  return choice;
}

}  // namespace sluice::pipeline
