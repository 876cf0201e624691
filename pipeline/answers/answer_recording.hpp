// Keeps what was asked and answered in a fixture file, one line each, while a batch runs.
#pragma once

#include <string>

#include "pipeline/answers/recorded_answer.hpp"

namespace sluice::pipeline {

/// Adds to the file, which only its owner may read: prompts and answers are in it. A last line that
/// an earlier process left half written is taken off first.
class answer_recording {
 public:
  /// Throws storage_failure that names the file, the cause and the remedy.
  explicit answer_recording(std::string path);
  ~answer_recording();
  answer_recording(const answer_recording&) = delete;
  answer_recording& operator=(const answer_recording&) = delete;

  /// Throws storage_failure; then nothing of the line counts.
  void add(const recorded_answer& a);

 private:
  void drop_torn_line();
  [[noreturn]] void fail(const char* doing, int error) const;

  std::string path_;
  int fd_ = -1;
};

}  // namespace sluice::pipeline
