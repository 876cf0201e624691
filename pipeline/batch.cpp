#include "pipeline/batch.hpp"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "pipeline/admission/shared_budget.hpp"
#include "pipeline/documents/jsonl.hpp"

namespace sluice::pipeline {

namespace {

// Whether an earlier run's outcome stands, for a document with the same inputs.
bool finished_before(const fingerprint& inputs, const std::optional<prior_outcome>& prior) {
  return prior && prior->inputs == inputs && prior->outcome != retry::outcome::deferred &&
         prior->kind != retry::outcome_class::transient;
}

}  // namespace

// One document on its way.
struct batch::journey {
  explicit journey(document d) : doc(std::move(d)) {}

  document doc;
  std::uint64_t order = 0;
  std::string body;
  fingerprint inputs{};
  retry::document_history history;
  std::optional<instant> first_refused;
  instant taken{};
  instant granted{};
  wall_time sent_at{};
  duration waited{};
  duration queued{};
  unsigned attempts = 0;
  unsigned resends = 0;
  bool retrying = false;
  bool sent = false;  ///< the last report is of a call, not of a connection that was not had
  provider::attempt_report last;
};

batch::batch(asio::any_io_executor executor, clock& time, provider::endpoint& to,
             document_source& from, history* past, recorder& into, observer& watcher,
             document_view view, batch_options options)
    : executor_(std::move(executor)),
      clock_(time),
      endpoint_(to),
      source_(from),
      history_(past),
      recorder_(into),
      observer_(watcher),
      view_(std::move(view)),
      options_(std::move(options)),
      random_(options_.seed),
      admission_(time,
                 options_.budget
                     ? options_.budget
                     : std::make_shared<local_ledger>(ring(options_.limits, options_.shape)),
                 options_.patience.max_wait),
      permits_(time, options_.concurrency),
      reader_turn_(time, 1),
      breaker_(options_.max_outage),
      grace_bell_(time.make_alarm()) {
  // A refusal without a hint waits for the window of the rate, not for that of a quota.
  std::optional<duration> window;
  for (const limit& l : options_.limits) {
    if (l.unit != limit_unit::requests || l.window > options_.patience.max_wait) continue;
    window = std::min(window.value_or(l.window), l.window);
  }
  if (window) options_.patience.window = *window;
}

batch::~batch() = default;

asio::awaitable<batch_result> batch::run() {
  using operation = decltype(asio::co_spawn(executor_, worker(), asio::deferred));
  const std::size_t hands = std::size_t{options_.concurrency} * options_.hands_per_permit;
  std::vector<operation> workers;
  workers.reserve(hands + 1);
  for (std::size_t i = 0; i < hands; ++i)
    workers.push_back(asio::co_spawn(executor_, worker(), asio::deferred));
  workers.push_back(asio::co_spawn(executor_, end_grace(), asio::deferred));
  in_hand_ = static_cast<unsigned>(hands);
  auto group = asio::experimental::make_parallel_group(std::move(workers));
  auto [order, errors] =
      co_await std::move(group).async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
  if (failure_) std::rethrow_exception(failure_);
  for (const std::exception_ptr& e : errors)
    if (e) std::rethrow_exception(e);
  co_return result_;
}

// Ends the calls that outlast the grace period of an interrupt.
asio::awaitable<void> batch::end_grace() {
  while (!finished_) {
    const instant until = grace_until_.value_or(instant::max());
    if (clock_.now() >= until) {
      endpoint_.abort();
      source_.abort();
      co_return;
    }
    co_await grace_bell_->wait_until(until);
  }
}

asio::awaitable<void> batch::worker() {
  try {
    while (!exhausted_ && failure_ == nullptr) {
      std::optional<source_item> item;
      {
        const priority mine{true, next_order_++};
        const permit turn = co_await reader_turn_.acquire(mine);
        if (exhausted_ || failure_ != nullptr) break;
        // After an interrupt the rest is written down as deferred only while that is quick.
        if (interrupted_ && grace_until_ && clock_.now() >= *grace_until_) break;
        item = co_await source_.next();
        if (!item) exhausted_ = true;
      }
      if (!item) break;
      co_await handle(std::move(*item));
    }
  } catch (...) {
    // Bad disk or unreadable batch: stop paying; what is in flight still ends.
    if (!failure_) failure_ = std::current_exception();
    stop_waiting();
    source_.abort();
  }
  if (--in_hand_ == 0) {
    finished_ = true;
    grace_bell_->ring();
  }
}

asio::awaitable<void> batch::handle(source_item item) {
  ++result_.documents;
  if (auto* bad = std::get_if<bad_document>(&item)) {
    document shell;
    shell.id = bad->id;
    shell.from = bad->from;
    journey j(std::move(shell));
    j.taken = clock_.now();
    j.last.detail = bad->detail;
    const retry::row& r = retry::row_of(bad->why);
    co_await end(j, r.end, r.why, r.kind);
    co_return;
  }
  journey j(std::move(std::get<document>(item)));
  j.taken = clock_.now();
  j.order = ++next_order_;
  if (view_.inputs) j.inputs = view_.inputs(j.doc);
  if (history_ != nullptr && !options_.again) {
    const auto prior = history_->find(j.doc.id);
    if (finished_before(j.inputs, prior)) {
      // An answer that is there already is compared without asking for it again.
      if (options_.expected && prior->outcome == retry::outcome::succeeded) {
        j.last.text = history_->answer(j.doc.id);
        if (auto difference = options_.expected->differs(j.doc.id, j.last.text)) {
          co_await end_mismatched(j, std::move(*difference));
          co_return;
        }
      }
      ++result_.skipped;
      count(prior->outcome, prior->why);
      co_return;
    }
  }
  if (options_.expected) {
    if (auto reason = options_.expected->missing(j.doc.id)) {
      co_await end_mismatched(j, std::move(*reason));
      co_return;
    }
  }
  ++run_.documents;
  j.body = view_.render(j.doc);
  co_await travel(j);
}

// The order of the steps is the design: permit, connection, slot, send, signal, decision, record.
asio::awaitable<void> batch::travel(journey& j) {
  while (true) {
    const instant queued_at = clock_.now();
    const priority mine{!j.retrying, j.order};
    permit held = co_await permits_.acquire(mine);
    std::optional<provider::attempt_report> report;
    try {
      if (held && !stopping()) report = co_await one_call(j);
    } catch (const budget_misuse& e) {
      // The budget's limit or token was changed under a run: its documents are deferred, not
      // dropped.
      stop_cause cause;
      cause.why = retry::reason::budget_refused;
      cause.exit = e.code();
      cause.detail = e.what();
      stop(std::move(cause));
    }
    if (!report) {
      j.waited += clock_.now() - queued_at;
      if (result_.stopped) {
        co_await end(j, retry::outcome::deferred, result_.stopped->why, retry::outcome_class::none);
      } else if (failure_ == nullptr) {
        const retry::row& r = retry::row_of(retry::reason::too_large);
        j.last.detail = "costs more than a limit allows at all";
        co_await end(j, r.end, r.why, r.kind);
      }
      co_return;
    }
    j.queued = (j.granted > queued_at ? j.granted : clock_.now()) - queued_at;
    j.waited += j.queued;
    j.last = std::move(*report);
    const instant now = clock_.now();

    if (j.first_refused) j.history.refused_since = now - *j.first_refused;
    retry::decision verdict =
        retry::decide(j.last.signal, j.history, run_, options_.patience, random_);
    if (j.last.signal.why == retry::reason::rate_limited && !j.first_refused) j.first_refused = now;
    if (j.last.signal.why == retry::reason::interrupted) {
      verdict.what = retry::decision::act::give_up;
      verdict.end = retry::outcome::deferred;
    }
    note_attempt(j, j.last, verdict);
    act_on(j.last, verdict, j.granted);

    if (verdict.what == retry::decision::act::again && !stopping()) {
      held = permit();
      j.retrying = true;
      // A cool-down holds everybody back in admission; only the document's own wait is slept here.
      if (!verdict.cool_down && verdict.delay > duration::zero()) {
        const instant until = now + verdict.delay;
        const auto bell = clock_.make_alarm();
        backing_off_.emplace(j.order, bell.get());
        while (!stopping() && clock_.now() < until) co_await bell->wait_until(until);
        backing_off_.erase(j.order);
        j.waited += clock_.now() - now;
      }
      continue;
    }
    if (verdict.what == retry::decision::act::again) {
      // The run stopped while this one would have gone on.
      const auto why = result_.stopped ? result_.stopped->why : retry::reason::run_stopped;
      if (failure_ == nullptr)
        co_await end(j, retry::outcome::deferred, why, retry::outcome_class::none);
      co_return;
    }
    // The permit is freed when the outcome is on disk.
    if (options_.expected && verdict.end == retry::outcome::succeeded) {
      if (auto difference = options_.expected->differs(j.doc.id, j.last.text)) {
        co_await end_mismatched(j, std::move(*difference));
        co_return;
      }
    }
    co_await end(j, verdict.end, verdict.why, verdict.kind);
    co_return;
  }
}

// One turn through connection, slot and send. Nothing: admission is closed, or will never admit
// this.
asio::awaitable<std::optional<provider::attempt_report>> batch::one_call(journey& j) {
  const call_cost cost{view_.tokens ? view_.tokens(j.body) : 0};
  const priority rank{!j.retrying, j.order};
  while (true) {
    std::optional<admission::place> place;
    place.emplace(admission_, rank, cost);
    std::unique_ptr<provider::connection> line;
    std::optional<provider::slot> slot;
    while (!slot) {
      co_await admission_.near(*place);
      if (!line && !admission_.closed()) {
        provider::readiness ready = co_await endpoint_.make_ready();
        if (auto* trouble = std::get_if<provider::attempt_report>(&ready)) {
          j.sent = false;
          j.granted = instant{};
          j.sent_at = clock_.wall_now();
          co_return std::optional<provider::attempt_report>(std::move(*trouble));
        }
        line = std::move(std::get<std::unique_ptr<provider::connection>>(ready));
      }
      const auto alive = [this, &line] { return line && endpoint_.alive(*line); };
      std::function<bool()> ready_check = alive;
      admission::turn turn = co_await admission_.take(*place, std::move(ready_check));
      if (auto* granted = std::get_if<provider::slot>(&turn)) {
        slot.emplace(std::move(*granted));
        break;
      }
      switch (std::get<no_slot>(turn)) {
        case no_slot::not_ready:
          line.reset();
          continue;
        case no_slot::too_far: {
          stop_cause cause;
          cause.why = retry::reason::daily_limit;
          cause.exit = retry::exit_code::come_back_later;
          cause.detail = "the --limit of a long window is used up";
          cause.come_back = admission_.too_far_by();
          stop(std::move(cause));
          co_return std::nullopt;
        }
        case no_slot::refused: {
          stop_cause cause;
          cause.why = retry::reason::budget_refused;
          cause.exit = retry::exit_code::come_back_later;
          cause.detail = admission_.refusal();
          if (admission_.too_far_by() > duration::zero()) cause.come_back = admission_.too_far_by();
          stop(std::move(cause));
          co_return std::nullopt;
        }
        case no_slot::closed:
        case no_slot::too_costly:
          co_return std::nullopt;
      }
    }
    place.reset();
    j.granted = slot->granted_at();
    j.sent_at = clock_.wall_now();
    const std::uint64_t number = slot->id();
    provider::call what(std::move(j.body), j.doc.id, j.attempts + 1);
    ++run_.calls;
    if (under_way_++ == 0) calling_since_ = clock_.now();
    provider::attempt_report report =
        co_await endpoint_.send(std::move(*slot), std::move(line), what);
    if (--under_way_ == 0) result_.calling += clock_.now() - calling_since_;
    j.body = std::move(what.body);
    admission_.finished(number);
    if (report.tokens.prompt_tokens && report.tokens.completion_tokens)
      admission_.settle(number, *report.tokens.prompt_tokens + *report.tokens.completion_tokens);
    if (report.slot_burnt) {
      --run_.calls;
      continue;
    }
    j.sent = true;
    ++j.attempts;
    ++result_.calls;
    // The one resend of a stale connection, and a followed redirect, cost a slot but no attempt.
    if ((report.stale_connection || report.redirected) && j.resends < 2 && !stopping()) {
      ++j.resends;
      retry::decision resend;
      resend.what = retry::decision::act::again;
      resend.why = report.signal.why;
      note_attempt(j, report, resend);
      continue;
    }
    co_return std::optional<provider::attempt_report>(std::move(report));
  }
}

void batch::note_attempt(journey& j, const provider::attempt_report& report,
                         const retry::decision& verdict) {
  attempt_record r;
  r.document_id = j.doc.id;
  r.attempt = j.attempts;
  r.why = report.signal.why;
  r.http_status = report.signal.status;
  r.request_id = report.request_id;
  r.hints = report.hints;
  r.detail = report.detail;
  if (options_.keep_bodies) r.raw_body = report.raw_body;
  r.tokens = report.tokens;
  r.took = report.took;
  r.queued = j.queued;
  r.retry_after = report.signal.hint;
  r.jitter = verdict.jitter;
  r.may_have_been_billed = report.signal.may_have_been_billed;
  r.sent_at = j.sent_at;
  if (report.signal.status == 429) ++result_.refused;
  observer_.attempt_ended(r, verdict);
  // What was never sent is no attempt, and has no number of its own.
  if (j.sent) recorder_.attempt(std::move(r));
}

void batch::act_on(const provider::attempt_report& report, const retry::decision& verdict,
                   instant granted) {
  const retry::reason why = report.signal.why;
  const instant now = clock_.now();
  if (why == retry::reason::ok) {
    ++run_.successes;
    run_.certificate_probes = 0;
  }
  if (why == retry::reason::certificate_refused && verdict.what == retry::decision::act::again) {
    // Those under way together with the last probe tell nothing new.
    if (run_.certificate_probes == 0 || now >= next_certificate_probe_) {
      ++run_.certificate_probes;
      next_certificate_probe_ = now + verdict.delay / 2;
    }
  }
  if (why == retry::reason::interrupted) return;

  const bool was_open = breaker_.open();
  breaker_.note(retry::row_of(why).whose, now, random_);
  if (breaker_.open() || was_open) admission_.probe_only(breaker_.open(), breaker_.probe_at());
  if (breaker_.given_up(now)) {
    stop_cause cause;
    cause.why = retry::reason::endpoint_down;
    cause.exit = retry::exit_code::unavailable;
    cause.detail = report.detail;
    stop(std::move(cause));
  }
  if (verdict.cool_down && verdict.what != retry::decision::act::stop_run)
    admission_.cool_down(*verdict.cool_down);
  if (why == retry::reason::rate_limited) admission_.unexplained_refusal(granted);
  if (verdict.what == retry::decision::act::stop_run) {
    stop_cause cause;
    cause.why = verdict.why;
    cause.exit = verdict.exit;
    cause.detail = report.detail;
    cause.come_back = verdict.cool_down;
    stop(std::move(cause));
  }
}

asio::awaitable<void> batch::end(journey& j, retry::outcome how, retry::reason why,
                                 retry::outcome_class kind) {
  outcome_record r;
  r.document_id = j.doc.id;
  r.outcome = how;
  r.why = why;
  r.kind = kind;
  r.text = std::move(j.last.text);
  r.detail = j.last.detail;
  r.attempts = j.attempts;
  r.http_status = j.last.signal.status;
  r.request_id = j.last.request_id;
  r.tokens = j.last.tokens;
  r.waited = j.waited;
  r.took = clock_.now() - j.taken;
  r.inputs = j.inputs;
  r.from = j.doc.from;
  if (j.doc.from.from == origin::kind::standard_input)
    r.kept_document = jsonl_line(j.doc.id, j.doc.text, j.doc.messages);
  r.ended_at = clock_.wall_now();
  // What was paid for is on record first, even when it cannot be kept as a fixture.
  std::exception_ptr not_kept;
  try {
    keep_answer(j, r);
  } catch (const storage_failure&) {
    not_kept = std::current_exception();
  }
  const outcome_record told = r;
  co_await recorder_.outcome(std::move(r));
  count(how, why);
  result_.waited += j.waited;
  observer_.document_ended(told);
  if (not_kept) std::rethrow_exception(not_kept);
}

asio::awaitable<void> batch::end_mismatched(journey& j, std::string difference) {
  const retry::row& r = retry::row_of(retry::reason::mismatched);
  j.last.detail = std::move(difference);
  co_await end(j, r.end, r.why, r.kind);
}

// Of the calls of a document the one that decided about it for good, whatever it said.
void batch::keep_answer(const journey& j, const outcome_record& r) {
  const bool lasting = r.outcome != retry::outcome::deferred &&
                       r.kind != retry::outcome_class::transient && r.http_status != 0;
  if (!options_.recording || !lasting || !j.sent) return;
  recorded_answer a;
  a.id = j.doc.id;
  a.request = j.body;
  a.status = r.http_status;
  a.has_text = j.last.signal.why == retry::reason::ok;
  a.text = r.text;
  a.body = j.last.raw_body;
  options_.recording->add(a);
}

void batch::count(retry::outcome how, retry::reason why) {
  switch (how) {
    case retry::outcome::succeeded:
      ++result_.succeeded;
      return;
    case retry::outcome::failed:
      ++result_.failed;
      break;
    case retry::outcome::deferred:
      ++result_.deferred;
      break;
    case retry::outcome::mismatched:
      ++result_.mismatched;
      break;
  }
  ++result_.by_reason[why];
}

void batch::stop(stop_cause cause) {
  if (result_.stopped) return;
  observer_.run_stopping(cause);
  result_.stopped.emplace(std::move(cause));
  stop_waiting();
}

void batch::stop_waiting() {
  admission_.close();
  permits_.close();
  for (auto& [order, bell] : backing_off_) bell->ring();
}

void batch::interrupt() {
  interrupted_ = true;
  source_.abort();
  grace_until_ = clock_.now() + options_.grace;
  grace_bell_->ring();
  stop(stop_cause());
}

}  // namespace sluice::pipeline
