#include "pipeline/admission/gate_line.hpp"

#include <algorithm>

namespace sluice::pipeline {
namespace {

// Without limits there is no guard that a slot could outlast.
constexpr duration unlimited_use = std::chrono::seconds(5);

instant after(instant from, duration by) {
  return by > instant::max() - from ? instant::max() : from + by;
}

}  // namespace

gate_line::gate_line(budget_state state, duration ahead)
    : state_(std::move(state)),
      ahead_(ahead),
      ring_(state_.settings.limits, pace::smooth, state_.record) {
  // Turns that a file's jobs were promised may have been taken since.
  for (const planned_turn& p : state_.line) ring_.grant(p.at, p.cost);
  state_.line.clear();
  under_way_ = std::move(state_.under_way);
  state_.under_way.clear();
}

// FNV-1a: nobody who has the token gains by a collision.
std::uint64_t gate_line::client_of(std::string_view job, std::string_view attempt) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto mix = [&](char c) { hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U; };
  for (const char c : job) mix(c);
  mix('\0');
  for (const char c : attempt) mix(c);
  return hash;
}

duration gate_line::use_within() const {
  return state_.settings.limits.empty() ? unlimited_use : ring_.use_within();
}

turn_news gate_line::ask(const turn_request& r, instant now) {
  turn_news news;
  news.client = client_of(r.job, r.attempt);
  begin(now);
  const auto call = std::find_if(under_way_.begin(), under_way_.end(),
                                 [&](const call_under_way& c) { return c.client == news.client; });
  if (call != under_way_.end()) {
    if (now < call->at + use_within()) {
      call->longest = r.longest;
      news.what = turn_news::kind::granted;
      news.number = call->number;
      news.when = call->at;
      news.repeated = true;
      return news;
    }
    // It never heard of its slot, or it would not ask: the slot is burnt.
    under_way_.erase(call);
    ++revision_;
  }
  const auto known = waiters_.find(news.client);
  const bool fresh = known == waiters_.end();
  if (fresh) {
    ring_.follow(r.shape);
    if (!ring_.forecast(now, r.cost)) {
      news.what = turn_news::kind::too_costly;
      return news;
    }
  }
  waiter& mine = fresh ? join(r, news.client, now) : known->second;
  if (r.ready && (!mine.asked.ready || mine.gone_at || fresh)) mine.ready_since = now;
  mine.asked.ready = r.ready;
  mine.asked.max_wait = r.max_wait;
  mine.gone_at.reset();
  stale_ = true;
  plan(now);
  news.when = mine.due;
  if (fresh && mine.due > deadline(mine)) {
    news.what = turn_news::kind::refused;
    leave(news.client);
    return news;
  }
  if (!r.ready && mine.due <= after(now, near_by)) {
    news.what = turn_news::kind::near;
    mine.told_near = true;
    job_of(mine).called_at = now;
  }
  return news;
}

void gate_line::begin(instant now) {
  if (began_) return;
  began_ = now;
  duration window{};
  for (const limit& l : state_.settings.limits) window = std::max(window, l.window);
  instant last = instant::min();
  for (const ring_state::track& t : state_.record.tracks)
    if (t.last_cost > 0) last = std::max(last, t.last_at);
  // Who waits for two windows has been refused.
  if (last > now - 2 * window) gathered_ = after(now, regather);
}

gate_line::waiter& gate_line::join(const turn_request& r, std::uint64_t client, instant now) {
  class_line& mine = class_of(r.priority);
  job& j = mine.jobs[r.job];
  // Whoever stays away has no claim to what it missed; a moment after its turn is not away.
  const bool away = j.last_turn == instant::min() || after(j.last_turn, courtesy) < now;
  if (j.line.empty() && away) {
    j.since = now - r.waited;
    j.place = ++places_;
    // In line before the gate was started again, and slower to come back than others.
    const bool returns = j.since < *began_;
    j.round = std::max(j.round, returns ? 1 : mine.round + 1);
  }
  j.line.push_back(client);
  waiter w;
  w.asked = r;
  w.client = client;
  w.since = now;
  return waiters_.insert_or_assign(client, std::move(w)).first->second;
}

void gate_line::leave(std::uint64_t client) {
  const auto it = waiters_.find(client);
  if (it == waiters_.end()) return;
  auto& line = job_of(it->second).line;
  line.erase(std::find(line.begin(), line.end(), client));
  waiters_.erase(it);
  stale_ = true;
}

void gate_line::pause(std::uint64_t client, instant now) {
  const auto it = waiters_.find(client);
  if (it != waiters_.end()) it->second.gone_at = after(now, kept_for);
}

void gate_line::untold(std::uint64_t number) {
  for (call_under_way& c : under_way_)
    if (c.number == number) c.longest = std::min(c.longest, use_within());
}

bool gate_line::done(std::uint64_t number, std::uint64_t client, const call_report& how,
                     instant now) {
  const auto call = std::find_if(
      under_way_.begin(), under_way_.end(),
      [&](const call_under_way& c) { return c.number == number && c.client == client; });
  const bool known = call != under_way_.end();
  if (known) {
    if (how.status == 429) ring_.unexplained_refusal(call->at, now);
    if (how.tokens) ring_.settle(number, *how.tokens);
    under_way_.erase(call);
  }
  if (how.retry_after) ring_.cool_down(after(now, *how.retry_after));
  ++revision_;
  stale_ = true;
  return known;
}

// Successive turns of a job are in successive rounds.
std::vector<std::uint64_t> gate_line::in_order() const {
  // As a job's rank, and then the client.
  using place = std::tuple<std::uint64_t, instant, std::uint64_t, std::uint64_t>;
  std::array<std::vector<place>, 2> places;
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    for (const auto& [name, j] : classes_[c].jobs) {
      std::uint64_t round = j.round;
      for (const std::uint64_t client : j.line)
        places[c].emplace_back(round++, j.since, j.place, client);
    }
    std::sort(places[c].begin(), places[c].end());
  }
  std::vector<std::uint64_t> order;
  order.reserve(waiters_.size());
  unsigned streak = streak_;
  std::size_t first = 0;
  std::size_t second = 0;
  while (first < places[0].size() || second < places[1].size()) {
    const bool ahead =
        first < places[0].size() && (streak < priority_share || second == places[1].size());
    order.push_back(std::get<3>(ahead ? places[0][first++] : places[1][second++]));
    streak = ahead ? streak + 1 : 0;
  }
  return order;
}

void gate_line::plan(instant now) {
  if (!stale_) return;
  stale_ = false;
  ring ahead = ring_;
  for (const std::uint64_t client : in_order()) {
    waiter& w = waiters_.at(client);
    ahead.follow(w.asked.shape);
    w.due = ahead.forecast(now, w.asked.cost).value_or(instant::max());
    ahead.grant(w.due, w.asked.cost);
  }
}

std::optional<instant> gate_line::turn_of(std::uint64_t client, instant now) const {
  const auto it = waiters_.find(client);
  if (it == waiters_.end()) return std::nullopt;
  return std::max(it->second.due, now);
}

// A job alone never times out on its own calls: each waits for the one before it.
instant gate_line::deadline(const waiter& w) const {
  const job& j = job_of(w);
  instant from = std::max({w.since, j.last_turn, ring_.not_before()});
  const auto mine = std::find(j.line.begin(), j.line.end(), w.client);
  if (mine != j.line.begin() && mine != j.line.end())
    from = std::max(from, waiters_.at(*std::prev(mine)).due);
  return after(from, w.asked.max_wait);
}

bool gate_line::may_go(std::uint64_t client) const {
  const waiter& w = waiters_.at(client);
  return w.asked.ready && !w.gone_at;
}

const gate_line::waiter* gate_line::first_of(const class_line& c) const {
  const waiter* best = nullptr;
  const job* of = nullptr;
  for (const auto& [name, j] : c.jobs) {
    const auto it = std::find_if(j.line.begin(), j.line.end(),
                                 [this](std::uint64_t client) { return may_go(client); });
    if (it == j.line.end()) continue;
    if (of != nullptr && of->before(j)) continue;
    best = &waiters_.at(*it);
    of = &j;
  }
  return best;
}

bool gate_line::priority_goes_first() const {
  return streak_ < priority_share;
}

const gate_line::waiter* gate_line::next() const {
  const waiter* const ahead = first_of(classes_[0]);
  const waiter* const other = first_of(classes_[1]);
  if (ahead == nullptr || other == nullptr) return ahead != nullptr ? ahead : other;
  return priority_goes_first() ? ahead : other;
}

// Until when the candidate lets one go first that had its turn, or was told to connect, a moment
// ago.
std::optional<instant> gate_line::awaited(const waiter& candidate, instant now) const {
  std::optional<instant> until;
  const job& its = job_of(candidate);
  const auto look = [&](const class_line& c, bool all) {
    for (const auto& [name, j] : c.jobs) {
      if (std::any_of(j.line.begin(), j.line.end(),
                      [this](std::uint64_t client) { return may_go(client); }))
        continue;
      const instant from = j.line.empty() ? j.last_turn : std::max(j.last_turn, j.called_at);
      if ((all || j.before(its)) && from != instant::min() && now < from + courtesy)
        until = std::max(until.value_or(from + courtesy), from + courtesy);
    }
  };
  look(class_of(candidate.asked.priority), false);
  if (!candidate.asked.priority && priority_goes_first()) look(classes_[0], true);
  return until;
}

bool gate_line::room() const {
  const std::uint32_t most = state_.settings.max_in_flight;
  return most == 0 || under_way_.size() < most;
}

void gate_line::tidy(instant now) {
  const std::size_t before = under_way_.size();
  std::erase_if(under_way_, [&](const call_under_way& c) { return after(c.at, c.longest) <= now; });
  if (under_way_.size() != before) ++revision_;
  std::vector<std::uint64_t> gone;
  for (const auto& [client, w] : waiters_)
    if (w.gone_at && *w.gone_at <= now) gone.push_back(client);
  for (const std::uint64_t client : gone) leave(client);
  for (class_line& c : classes_)
    std::erase_if(c.jobs, [&](const auto& entry) {
      const job& j = entry.second;
      return j.line.empty() &&
             (j.last_turn == instant::min() || after(j.last_turn, courtesy) < now);
    });
}

void gate_line::refuse_the_late(instant now, std::vector<turn_news>& news) {
  std::vector<std::uint64_t> late;
  for (const class_line& c : classes_)
    for (const auto& [name, j] : c.jobs)
      if (!j.line.empty() && deadline(waiters_.at(j.line.front())) < now)
        late.push_back(j.line.front());
  for (const std::uint64_t client : late) {
    turn_news n;
    n.what = turn_news::kind::refused;
    n.client = client;
    n.when = std::max(now, waiters_.at(client).due);
    news.push_back(n);
    leave(client);
  }
}

void gate_line::call_the_near(instant now, std::vector<turn_news>& news) {
  for (auto& [client, w] : waiters_) {
    if (w.asked.ready || w.told_near || w.gone_at || w.due > after(now, near_by)) continue;
    w.told_near = true;
    job_of(w).called_at = now;
    turn_news n;
    n.what = turn_news::kind::near;
    n.client = client;
    n.when = w.due;
    news.push_back(n);
  }
}

turn_news gate_line::grant(std::uint64_t client, instant due, instant at) {
  const waiter w = waiters_.at(client);
  turn_news n;
  n.what = turn_news::kind::granted;
  n.client = client;
  n.number = ring_.grant(at, w.asked.cost);
  n.when = at;
  n.due = due;
  under_way_.push_back(call_under_way{n.number, client, at, w.asked.longest});
  class_line& c = class_of(w.asked.priority);
  job& j = job_of(w);
  c.round = std::max(c.round, j.round);
  ++j.round;
  j.since = at;
  j.place = ++places_;
  j.last_turn = at;
  streak_ = w.asked.priority ? streak_ + 1 : 0;
  leave(client);
  ++revision_;
  return n;
}

std::vector<turn_news> gate_line::advance(instant now) {
  std::vector<turn_news> news;
  begin(now);
  tidy(now);
  bool hindered = !room() || now < gathered_;
  while (room() && now >= gathered_) {
    const waiter* const candidate = next();
    if (candidate == nullptr) break;
    ring_.follow(candidate->asked.shape);
    const auto due = ring_.forecast(now, candidate->asked.cost);
    if (!due || *due > after(now, ahead_)) break;
    hindered = awaited(*candidate, now).has_value();
    if (hindered) break;
    const instant from = std::max(candidate->ready_since, unhindered_since_);
    const auto possible = ring_.forecast(from, candidate->asked.cost);
    news.push_back(grant(candidate->client, std::min(possible.value_or(*due), *due), *due));
    hindered = !room();
  }
  if (hindered) unhindered_since_ = now;
  // Whoever is late and due at once has had its turn above.
  refuse_the_late(now, news);
  plan(now);
  call_the_near(now, news);
  return news;
}

instant gate_line::next_event(instant now) const {
  instant when = instant::max();
  const auto at = [&](instant t) { when = std::min(when, t); };
  if (const waiter* const candidate = next(); candidate != nullptr && room()) {
    ring ahead = ring_;
    ahead.follow(candidate->asked.shape);
    const auto due = ahead.forecast(now, candidate->asked.cost);
    const auto others = awaited(*candidate, now);
    if (due) at(std::max({*due - ahead_, others.value_or(*due - ahead_), gathered_}));
  }
  for (const auto& [client, w] : waiters_) {
    if (w.gone_at) at(*w.gone_at);
    if (!w.asked.ready && !w.told_near && !w.gone_at) at(w.due - near_by);
  }
  for (const class_line& c : classes_)
    for (const auto& [name, j] : c.jobs)
      if (!j.line.empty())
        at(after(deadline(waiters_.at(j.line.front())), std::chrono::milliseconds(1)));
  for (const call_under_way& c : under_way_) at(after(c.at, c.longest));
  return std::max(when, now);
}

budget_state gate_line::save() const {
  budget_state s = state_;
  s.record = ring_.save();
  s.under_way = under_way_;
  return s;
}

std::map<std::string, std::size_t> gate_line::line_by_job() const {
  std::map<std::string, std::size_t> result;
  for (const class_line& c : classes_)
    for (const auto& [name, j] : c.jobs)
      if (!j.line.empty()) result[name] += j.line.size();
  return result;
}

}  // namespace sluice::pipeline
