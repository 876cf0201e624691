// A child process of one test: started with a clean environment, watched, and never left behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::testing {

/// How a child is started. Nothing is inherited but PATH, and TZ as UTC.
struct process_options {
  std::string program;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  std::string folder;                ///< working directory
  std::optional<std::string> input;  ///< on standard input; nothing: it is empty
  bool keep_input_open = false;      ///< no end of file after the input
  /// Files cannot grow beyond so many bytes: a full disk for whoever writes.
  std::optional<std::size_t> largest_file;
  std::optional<std::size_t> most_files;                       ///< open at once
  std::chrono::milliseconds bound = std::chrono::seconds(60);  ///< killed when it is over
};

/// How a child ended, and all that it said.
struct process_end {
  int exit = -1;         ///< -1 when a signal ended it
  int signal = 0;        ///< the signal that did
  bool overdue = false;  ///< killed because its time was over
  std::string out;
  std::string err;
};

/// A running child. Its end kills it, by its own ID. Throws std::system_error when it cannot start.
class process {
 public:
  explicit process(const process_options& options);
  ~process();
  process(process&&) noexcept;

  pid_t id() const;
  /// Does nothing once the child has ended.
  void send(int signal);
  /// Waits until standard error holds this text; false when the child ended or overran without.
  bool says(std::string_view text);
  /// Waits for its end, at most so long; whether it has ended.
  bool ends_within(std::chrono::milliseconds time);
  /// Waits for its end, or kills it when its bound is over.
  process_end wait();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

/// Starts it and waits for its end.
process_end run_process(const process_options& options);

}  // namespace sluice::testing
