#include "pipeline/outcomes/rows.hpp"

#include <sqlite3.h>

namespace sluice::pipeline {
namespace {

constexpr const char* attempt_sql =
    "INSERT INTO attempts (document, run, attempt, reason, http_status, sent_ms, queued_ns, "
    "connect_ns, tls_ns, first_byte_ns, total_ns, retry_after_ns, jitter_ns, prompt_tokens, "
    "completion_tokens, may_be_billed, request_id, hints, detail, raw_body) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, "
    "?20)";

constexpr const char* outcome_sql =
    "INSERT INTO outcomes (document, run, outcome, reason, class, attempts, http_status, "
    "prompt_tokens, completion_tokens, waited_ns, took_ns, ended_ms, inputs, origin, origin_path, "
    "origin_line, request_id, detail, text, kept_document) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, "
    "?20)";

constexpr std::string_view origin_names[] = {"text_file", "jsonl_line", "standard_input"};

std::int64_t ms(wall_time t) {
  return t.time_since_epoch().count();
}

}  // namespace

std::string_view origin_name(origin::kind k) {
  return origin_names[static_cast<std::size_t>(k)];
}

origin::kind origin_named(std::string_view text) {
  for (std::size_t i = 0; i < std::size(origin_names); ++i)
    if (origin_names[i] == text) return static_cast<origin::kind>(i);
  throw storage_failure("the store holds an unknown kind of origin, \"" + std::string(text) +
                        "\"; restore it from a backup");
}

row_writer::row_writer(sqlite::database& db)
    : db_(db),
      find_document_(db, "SELECT number FROM documents WHERE id = ?1 AND unnamed = ?2"),
      add_document_(db, "INSERT INTO documents (id, unnamed) VALUES (?1, ?2)"),
      add_attempt_(db, attempt_sql),
      add_outcome_(db, outcome_sql) {}

std::int64_t row_writer::number_of(std::string_view document_id, bool unnamed) {
  {
    const sqlite::reset_after guard(find_document_);
    find_document_.bind(1, document_id);
    find_document_.bind(2, std::int64_t{unnamed});
    if (find_document_.step()) return find_document_.integer(0);
  }
  add_document_.bind(1, document_id);
  add_document_.bind(2, std::int64_t{unnamed});
  add_document_.run();
  return sqlite3_last_insert_rowid(db_.handle());
}

void row_writer::write(std::int64_t run, const attempt_record& r) {
  sqlite::statement& s = add_attempt_;
  // What has no ID is never sent.
  s.bind(1, number_of(r.document_id, false));
  s.bind(2, run);
  s.bind(3, std::int64_t{r.attempt});
  s.bind(4, retry::name(r.why));
  s.bind(5, std::int64_t{r.http_status});
  s.bind(6, ms(r.sent_at));
  s.bind(7, std::int64_t{r.queued.count()});
  s.bind(8, r.took.connect);
  s.bind(9, r.took.tls);
  s.bind(10, r.took.first_byte);
  s.bind(11, std::int64_t{r.took.total.count()});
  s.bind(12, r.retry_after);
  s.bind(13, r.jitter);
  s.bind(14, r.tokens.prompt_tokens);
  s.bind(15, r.tokens.completion_tokens);
  s.bind(16, std::int64_t{r.may_have_been_billed ? 1 : 0});
  s.bind(17, std::string_view(r.request_id));
  s.bind(18, std::string_view(r.hints));
  s.bind(19, std::string_view(r.detail));
  s.bind(20, std::string_view(r.raw_body));
  s.run();
}

void row_writer::write(std::int64_t run, const outcome_record& r) {
  sqlite::statement& s = add_outcome_;
  s.bind(1, number_of(r.document_id, r.from.unnamed));
  s.bind(2, run);
  s.bind(3, retry::name(r.outcome));
  s.bind(4, retry::name(r.why));
  s.bind(5, retry::name(r.kind));
  s.bind(6, std::int64_t{r.attempts});
  s.bind(7, std::int64_t{r.http_status});
  s.bind(8, r.tokens.prompt_tokens);
  s.bind(9, r.tokens.completion_tokens);
  s.bind(10, std::int64_t{r.waited.count()});
  s.bind(11, std::int64_t{r.took.count()});
  s.bind(12, ms(r.ended_at));
  s.bind(13, std::span<const std::uint8_t>(r.inputs));
  s.bind(14, origin_name(r.from.from));
  s.bind(15, std::string_view(r.from.path));
  s.bind(16, static_cast<std::int64_t>(r.from.line));
  s.bind(17, std::string_view(r.request_id));
  s.bind(18, std::string_view(r.detail));
  s.bind(19, std::string_view(r.text));
  s.bind(20, std::string_view(r.kept_document));
  s.run();
}

}  // namespace sluice::pipeline
