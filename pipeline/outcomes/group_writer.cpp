#include "pipeline/outcomes/group_writer.hpp"

#include <pthread.h>

#include <chrono>
#include <csignal>

namespace sluice::pipeline {
namespace {

// Attempts alone are not worth a commit; they may wait this long for an outcome.
constexpr auto linger = std::chrono::milliseconds(250);
constexpr std::size_t most_attempts = 4096;
// Each try waits for SQLite's own busy timeout.
constexpr int busy_tries = 60;

}  // namespace

group_writer::group_writer(sqlite::database& db, deliver settled)
    : db_(db), settled_(std::move(settled)), rows_(db) {
  // Signals are for the I/O thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

group_writer::~group_writer() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void group_writer::add(std::int64_t run, attempt_record r) {
  bool full = false;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(entry{run, std::move(r), nullptr});
    full = queue_.size() == 1 || queue_.size() >= most_attempts;
  }
  if (full) wake_.notify_one();
}

void group_writer::add(std::int64_t run, outcome_record r, std::unique_ptr<waiting_writer> who) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(entry{run, std::move(r), std::move(who)});
    ++outcomes_;
  }
  wake_.notify_one();
}

void group_writer::drain() {
  std::unique_lock lock(mutex_);
  draining_ = true;
  wake_.notify_one();
  drained_.wait(lock, [this] { return queue_.empty() && !committing_; });
  draining_ = false;
  if (failure_) std::rethrow_exception(failure_);
}

void group_writer::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    wake_.wait_for(lock, linger, [this] {
      return closing_ || draining_ || outcomes_ > 0 || queue_.size() >= most_attempts;
    });
    std::vector<entry> batch;
    batch.swap(queue_);
    outcomes_ = 0;
    committing_ = true;
    lock.unlock();
    commit(batch);
    batch.clear();
    lock.lock();
    committing_ = false;
    drained_.notify_all();
  }
}

void group_writer::commit(std::vector<entry>& batch) {
  std::vector<std::exception_ptr> refused(batch.size());
  std::exception_ptr failure;
  {
    const std::lock_guard lock(mutex_);
    failure = failure_;
  }
  if (!failure) {
    try {
      begin();
      for (std::size_t i = 0; i < batch.size(); ++i) refused[i] = write(batch[i]);
      db_.execute("COMMIT");
    } catch (...) {
      failure = std::current_exception();
      try {
        if (db_.in_transaction()) db_.execute("ROLLBACK");
      } catch (const storage_failure&) {
        // The transaction never ended, so nothing of it counts.
      }
      const std::lock_guard lock(mutex_);
      failure_ = failure;
    }
  }
  std::vector<settled_write> settled;
  for (std::size_t i = 0; i < batch.size(); ++i)
    if (batch[i].who)
      settled.push_back(settled_write{std::move(batch[i].who), failure ? failure : refused[i]});
  if (!settled.empty()) settled_(std::move(settled));
}

// Readers never hold up a writer in WAL mode; another program's write lock may, for a while.
void group_writer::begin() {
  for (int i = 1;; ++i) {
    try {
      db_.execute("BEGIN IMMEDIATE");
      return;
    } catch (const sqlite::error& e) {
      if (!e.busy() || i == busy_tries) throw;
    }
  }
}

// A record that is there already is refused by itself; the others of its batch are written.
std::exception_ptr group_writer::write(const entry& one) {
  try {
    std::visit([&](const auto& r) { rows_.write(one.run, r); }, one.what);
  } catch (const sqlite::error& e) {
    if (!e.constraint()) throw;
    if (const auto* r = std::get_if<outcome_record>(&one.what))
      return std::make_exception_ptr(
          std::logic_error("a second outcome of document " + r->document_id + " in one run"));
    // An attempt has nobody to tell, and its outcome is worth more than the complaint.
  }
  return nullptr;
}

}  // namespace sluice::pipeline
