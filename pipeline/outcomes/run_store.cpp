#include "pipeline/outcomes/run_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/async_result.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>

#include "pipeline/outcomes/group_writer.hpp"
#include "pipeline/outcomes/run_lock.hpp"
#include "pipeline/outcomes/schema.hpp"

namespace sluice::pipeline {
namespace {

namespace fs = std::filesystem;

// One store under one name, however it is spelled, so that its lock is one too. Absolute, so that
// SQLite cannot take it for a URI or for memory.
std::string settled_path(const std::string& path) {
  if (path.empty()) throw storage_failure("store: an empty name; name a file with --store");
  std::error_code ec;
  fs::path full = fs::weakly_canonical(fs::absolute(path, ec), ec);
  if (ec) full = fs::absolute(path);
  if (fs::is_directory(full, ec))
    throw storage_failure("store " + path + ": is a folder; name a file with --store");
  return full.string();
}

// Made here and not by SQLite, for its mode; the log and the lock take after it.
void make_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
  if (fd < 0) {
    const int cause = errno;
    throw storage_failure("store " + path +
                          ": cannot be opened for writing: " + std::strerror(cause) + "; " +
                          (cause == ENOENT || cause == ENOTDIR
                               ? "check that the folder exists"
                               : "give this user the right to write it and its folder") +
                          ", or name another --store");
  }
  ::close(fd);
}

// Tells one file from another that has taken its name; zeros when there is none.
std::pair<dev_t, ino_t> file_identity(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino};
}

// "20261130T061803Z", in UTC: sorts as text does.
std::string stamp(wall_time t) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(t));
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  const std::size_t n = std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return {text, n};
}

std::string run_id(const std::string& time_part, unsigned number) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string id = time_part + "-";
  for (int shift = 12; shift >= 0; shift -= 4)
    id += digits[(number >> static_cast<unsigned>(shift)) & 15U];
  return id;
}

// An ID of its own time, or, when that is not after `last`, the next one after it.
std::string next_run_id(wall_time now, const std::string& last) {
  // The lower half of the numbers, so that there are always some left above.
  std::string fresh = run_id(stamp(now), std::random_device()() & 0x7FFFU);
  const std::size_t dash = last.find('-');
  if (dash == std::string::npos || stamp(now) > last.substr(0, dash)) return fresh;
  // Count on in its last four digits; when they are used up, four more sort after them.
  std::string id = last;
  for (std::size_t i = id.size() - 1; i > dash && id.size() - i <= 4; --i) {
    if (id[i] != 'f') {
      id[i] = id[i] == '9' ? 'a' : static_cast<char>(id[i] + 1);
      return id;
    }
    id[i] = '0';
  }
  return last + "0000";
}

// Completes an awaiting coroutine, and keeps its io_context running until then.
template <class Handler>
class waiter final : public waiting_writer {
 public:
  waiter(Handler handler, const asio::any_io_executor& io)
      : handler_(std::move(handler)), work_(asio::make_work_guard(io)) {}
  void finish(std::exception_ptr failure) override {
    Handler handler = std::move(handler_);
    std::move(handler)(std::move(failure));
  }

 private:
  Handler handler_;
  asio::executor_work_guard<asio::any_io_executor> work_;
};

}  // namespace

struct run_store::state {
  state(asio::any_io_executor executor, clock& c, const std::string& at)
      : io(std::move(executor)), time(c), path(settled_path(at)), lock(path + ".lock"), db(open()) {
    look_back();
    std::error_code ec;
    folder = fs::current_path(ec).string();
    identity = file_identity(path);
    writer.emplace(db, [this](std::vector<settled_write> done) { complete(std::move(done)); });
  }

  // A store without outcomes needs no look-ups at all.
  void look_back() {
    if (prior || db.number("SELECT EXISTS (SELECT 1 FROM outcomes)") == 0) return;
    reading.emplace(path, sqlite::access::read);
    const std::string latest =
        " FROM documents d JOIN outcomes o ON o.document = d.number "
        "WHERE d.id = ?1 AND d.unnamed = 0 AND o.run < ?2 ORDER BY o.run DESC LIMIT 1";
    prior.emplace(*reading, ("SELECT o.outcome, o.class, o.reason, o.inputs" + latest).c_str());
    // Texts may be long, and few ask for them.
    prior_text.emplace(*reading, ("SELECT o.text" + latest).c_str());
  }

  // Whether there is a row of an earlier run.
  bool step_to_latest(sqlite::statement& query, std::string_view document_id) const {
    query.bind(1, document_id);
    // Before begin_run, everything is of an earlier run.
    query.bind(2, run == 0 ? INT64_MAX : run);
    return query.step();
  }

  sqlite::database open() {
    make_file(path);
    sqlite::database d(path, sqlite::access::write);
    if (d.read_only())
      throw storage_failure("store " + path +
                            ": it cannot be written to; give this user the right to write it, or "
                            "name another --store");
    schema::version_of(d);  // before anything is changed
    d.execute(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 2000;"
        "PRAGMA journal_size_limit = 67108864; PRAGMA cache_size = -8192");
    schema::bring_up_to_date(d);
    return d;
  }

  // On the writing thread: one trip to the I/O thread for all.
  void complete(std::vector<settled_write> done) {
    asio::post(io, [done = std::move(done)]() mutable {
      for (settled_write& one : done) one.who->finish(std::move(one.failure));
    });
  }

  asio::any_io_executor io;
  clock& time;
  std::string path;
  run_lock lock;
  sqlite::database db;
  std::optional<sqlite::database> reading;
  std::optional<sqlite::statement> prior;
  std::optional<sqlite::statement> prior_text;
  std::pair<dev_t, ino_t> identity;
  std::string folder;
  std::int64_t run = 0;  ///< 0: none has begun
  std::optional<group_writer> writer;
};

run_store::run_store(asio::any_io_executor io, clock& time, std::string path)
    : state_(std::make_unique<state>(std::move(io), time, path)) {}

run_store::~run_store() = default;

std::string run_store::begin_run(const run_info& what) {
  state& s = *state_;
  s.writer->drain();
  s.look_back();
  const wall_time now = s.time.wall_now();
  std::string last;
  {
    sqlite::statement latest(s.db, "SELECT id FROM runs ORDER BY number DESC LIMIT 1");
    if (latest.step()) last = latest.text(0);
  }
  std::string id = next_run_id(now, last);
  sqlite::statement add(s.db,
                        "INSERT INTO runs (id, started_ms, command, endpoint, model, settings, "
                        "inputs) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) RETURNING number");
  add.bind(1, std::string_view(id));
  add.bind(2, std::int64_t{now.time_since_epoch().count()});
  add.bind(3, std::string_view(what.command));
  add.bind(4, std::string_view(what.endpoint));
  add.bind(5, std::string_view(what.model));
  add.bind(6, std::string_view(what.settings_json));
  add.bind(7, std::string_view(what.inputs_json));
  add.step();
  s.run = add.integer(0);
  while (add.step()) {
  }
  return id;
}

void run_store::finish_run(int exit, const std::string& summary_json) {
  state& s = *state_;
  s.writer->drain();
  sqlite::statement end(
      s.db, "UPDATE runs SET ended_ms = ?2, exit_code = ?3, summary = ?4 WHERE number = ?1");
  end.bind(1, s.run);
  end.bind(2, std::int64_t{s.time.wall_now().time_since_epoch().count()});
  end.bind(3, std::int64_t{exit});
  end.bind(4, std::string_view(summary_json));
  end.run();
  // What was written to a file without a name is gone with this process.
  if (file_identity(s.path) != s.identity)
    throw storage_failure(
        "store " + s.path +
        ": it was removed or replaced while the run went on, so its outcomes are "
        "lost; keep other programs away from it, then run the same command again");
}

void run_store::attempt(attempt_record r) {
  state_->writer->add(state_->run, std::move(r));
}

asio::awaitable<void> run_store::outcome(outcome_record r) {
  if (state_->run == 0) throw std::logic_error("an outcome before its run has begun");
  // A re-run may be started from another folder.
  if (!r.from.path.empty() && r.from.path.front() != '/')
    r.from.path = state_->folder + "/" + r.from.path;
  return asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr)>(
      [this](auto handler, outcome_record record) {
        auto who = std::make_unique<waiter<decltype(handler)>>(std::move(handler), state_->io);
        state_->writer->add(state_->run, std::move(record), std::move(who));
      },
      asio::use_awaitable, std::move(r));
}

std::string run_store::answer(std::string_view document_id) {
  state& s = *state_;
  if (!s.prior_text) return {};
  const sqlite::reset_after guard(*s.prior_text);
  if (!s.step_to_latest(*s.prior_text, document_id)) return {};
  return std::string(s.prior_text->text(0));
}

std::optional<prior_outcome> run_store::find(std::string_view document_id) {
  state& s = *state_;
  if (!s.prior) return std::nullopt;
  const sqlite::reset_after guard(*s.prior);
  if (!s.step_to_latest(*s.prior, document_id)) return std::nullopt;
  const auto how = retry::outcome_named(s.prior->text(0));
  const auto kind = retry::outcome_class_named(s.prior->text(1));
  const auto why = retry::reason_named(s.prior->text(2));
  const auto inputs = s.prior->blob(3);
  prior_outcome found;
  if (!how || !kind || !why || inputs.size() != found.inputs.size())
    throw storage_failure("store " + s.path + ": damaged at document " + std::string(document_id) +
                          "; restore it from a backup, or name another --store");
  found.outcome = *how;
  found.kind = *kind;
  found.why = *why;
  std::copy(inputs.begin(), inputs.end(), found.inputs.begin());
  return found;
}

}  // namespace sluice::pipeline
