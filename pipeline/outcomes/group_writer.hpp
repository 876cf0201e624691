// The writing thread: what comes in while one commit is on its way to the disk makes up the next.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "pipeline/outcomes/rows.hpp"

namespace sluice::pipeline {

/// Who waits for an outcome to be on disk.
class waiting_writer {
 public:
  virtual ~waiting_writer() = default;
  virtual void finish(std::exception_ptr failure) = 0;
};

/// One waiter, and what came of it (null: on disk).
struct settled_write {
  std::unique_ptr<waiting_writer> who;
  std::exception_ptr failure;
};

/// Writes records in batches, one transaction each, on a thread of its own. After a failure nothing
/// is written any more and every waiter is told of it.
class group_writer {
 public:
  using deliver = std::function<void(std::vector<settled_write>)>;

  /// `settled` is called on the writing thread, once for each commit.
  group_writer(sqlite::database& db, deliver settled);
  /// Writes what is queued, then ends.
  ~group_writer();
  group_writer(const group_writer&) = delete;
  group_writer& operator=(const group_writer&) = delete;

  void add(std::int64_t run, attempt_record r);
  void add(std::int64_t run, outcome_record r, std::unique_ptr<waiting_writer> who);

  /// Returns when everything queued has been settled. Throws what made writing fail, if it did.
  void drain();

 private:
  struct entry {
    std::int64_t run = 0;
    std::variant<attempt_record, outcome_record> what;
    std::unique_ptr<waiting_writer> who;
  };
  void loop();
  void commit(std::vector<entry>& batch);
  void begin();
  std::exception_ptr write(const entry& one);

  sqlite::database& db_;
  deliver settled_;
  row_writer rows_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable drained_;
  std::vector<entry> queue_;
  std::size_t outcomes_ = 0;  ///< in the queue
  bool draining_ = false;
  bool closing_ = false;
  bool committing_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace sluice::pipeline
