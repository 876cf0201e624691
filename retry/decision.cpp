#include "retry/decision.hpp"

#include <algorithm>

namespace sluice::retry {
namespace {

constexpr duration longest_backoff = std::chrono::seconds(20);
constexpr duration first_backoff = std::chrono::seconds(1);
constexpr duration least_backoff = std::chrono::milliseconds(100);
constexpr duration hint_jitter = std::chrono::seconds(2);
constexpr unsigned unhinted_tries = 3;
constexpr unsigned certificate_tries = 3;
constexpr duration certificate_gap = std::chrono::seconds(10);

decision end_with(decision::act what, reason why) {
  const row& r = row_of(why);
  decision d;
  d.what = what;
  d.why = why;
  d.end = r.end;
  d.kind = r.kind;
  d.exit = r.stops_run;
  return d;
}

decision give_up(reason why) {
  return end_with(decision::act::give_up, why);
}

decision again_after(reason why, duration delay, std::optional<duration> jitter) {
  decision d;
  d.what = decision::act::again;
  d.why = why;
  d.delay = delay;
  d.jitter = jitter;
  return d;
}

// A 429: never the document's fault, so bounded by patience and the run's budget, then put off.
decision refused_for_rate(const signal& s, document_history& document, const run_history& run,
                          const bounds& within, random& rng) {
  if (s.hint && *s.hint > within.max_wait) {
    decision d = end_with(decision::act::stop_run, reason::wait_too_long);
    d.cool_down = s.hint;
    return d;
  }
  duration base{};
  duration extra{};
  const bool hinted = s.hint && *s.hint > duration::zero();
  if (hinted) {
    base = *s.hint;
    extra = rng.between(duration::zero(), hint_jitter);
  } else if (s.hint) {
    extra = std::max(least_backoff, full_jitter(document.unhinted_refusals, rng));
  } else {
    base = within.window;
    extra = rng.between(duration::zero(), hint_jitter);
  }
  const duration wait = base + extra;
  const auto put_off = [&](reason why) {
    decision d = give_up(why);
    // The others still have to keep away.
    d.cool_down = wait;
    d.jitter = extra;
    return d;
  };
  if (s.should_retry == false) return put_off(reason::rate_limited);
  if (!hinted && ++document.unhinted_refusals > unhinted_tries)
    return put_off(reason::rate_limited);
  if (document.refused_since && *document.refused_since + wait > within.patience)
    return put_off(reason::patience_used);
  if (run.calls >= within.calls_per_document * run.documents)
    return put_off(reason::call_budget_used);
  decision d = again_after(reason::rate_limited, wait, extra);
  d.cool_down = wait;
  return d;
}

decision refused_certificate(const run_history& run) {
  if (run.successes > 0 && run.certificate_probes < certificate_tries) {
    // It worked a moment ago: a proxy or a clock in trouble, perhaps for seconds.
    decision d = again_after(reason::certificate_refused, certificate_gap, std::nullopt);
    d.cool_down = certificate_gap;
    return d;
  }
  return end_with(decision::act::stop_run, reason::certificate_refused);
}

}  // namespace

duration full_jitter(unsigned n, random& rng) {
  const duration bound =
      std::min<duration>(longest_backoff, first_backoff * (1LL << std::min(n, 10U)));
  return rng.between(duration::zero(), bound);
}

decision decide(const signal& s, document_history& document, const run_history& run,
                const bounds& within, random& rng) {
  reason why = s.why;
  // A key that worked a moment ago is not refused: it is this document that may not be sent.
  if (why == reason::forbidden && run.successes > 0) why = reason::forbidden_document;
  const row& r = row_of(why);

  switch (r.whose) {
    case scope::success:
      return end_with(decision::act::done, reason::ok);
    case scope::rate:
      return refused_for_rate(s, document, run, within, rng);
    case scope::account:
      return end_with(decision::act::stop_run, why);
    case scope::setup:
      if (why == reason::certificate_refused) return refused_certificate(run);
      return end_with(decision::act::stop_run, why);
    case scope::later:
      if (r.stops_run == exit_code::none) return give_up(why);
      {
        decision d = end_with(decision::act::stop_run, why);
        d.cool_down = s.hint;
        return d;
      }
    case scope::unsent:
      // Nothing was sent, so nothing is charged; the breaker bounds this.
      {
        const duration extra = std::max(least_backoff, full_jitter(document.charged + 1, rng));
        return again_after(why, extra, extra);
      }
    case scope::endpoint:
    case scope::document:
      break;
  }

  auto& used = document.again_for[static_cast<std::size_t>(why)];
  bool allowed = r.again == patiently || used < r.again;
  // The endpoint's own word: "false" forbids, "true" grants one where the table has none.
  if (s.should_retry) allowed = *s.should_retry && (allowed || used < once);
  if (++document.charged >= within.hard_cap) allowed = false;
  if (!allowed) return give_up(why);
  if (s.hint && *s.hint > within.max_wait) {
    decision d = end_with(decision::act::stop_run, reason::wait_too_long);
    d.cool_down = s.hint;
    return d;
  }
  const duration jitter = std::max(least_backoff, full_jitter(used, rng));
  ++used;
  const duration hint = s.hint.value_or(duration::zero());
  return again_after(why, std::max(hint, jitter), hint >= jitter ? duration::zero() : jitter);
}

}  // namespace sluice::retry
