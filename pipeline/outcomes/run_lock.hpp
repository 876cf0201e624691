// The lock that keeps a second run off a store.
#pragma once

#include <string>

namespace sluice::pipeline {

/// Holds an flock on a file beside the store; the kernel frees it when the process ends, however it
/// ends. The file stays: that it exists means nothing.
class run_lock {
 public:
  /// Throws store_busy when another process holds it, storage_failure when it cannot be taken.
  explicit run_lock(const std::string& path);
  ~run_lock();
  run_lock(const run_lock&) = delete;
  run_lock& operator=(const run_lock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace sluice::pipeline
