// What people and cron see of a run: the log on standard error, one live line on a terminal, and
// the verdict at the end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "pipeline/batch.hpp"

namespace spdlog {
class logger;
}

namespace sluice::app {

struct settings;

/// What the live line tells besides the counts, asked for when it is drawn.
struct live_state {
  std::uint64_t calls_under_way = 0;
  std::optional<duration> next_turn;       ///< until the next call may go
  std::optional<duration> pace;            ///< between calls, as far as the limit tells
  std::optional<std::uint64_t> documents;  ///< in the whole batch, when it can be told
};

/// Watches a batch. Everything goes to standard error.
class display final : public pipeline::observer {
 public:
  /// On a terminal only warnings are logged, and one line is kept up to date; elsewhere there is
  /// only the log, from `info` up. --log-level changes both; --quiet keeps to errors.
  explicit display(const settings& s);
  ~display() override;

  void attempt_ended(const pipeline::attempt_record& r, const retry::decision& d) override;
  void document_ended(const pipeline::outcome_record& r) override;
  void run_stopping(const pipeline::stop_cause& cause) override;

  /// `via` is the proxy, or empty.
  void run_started(const std::string& run, const std::string& endpoint, const std::string& limits,
                   const std::string& via);
  void interrupted(int signal, duration grace);
  void trouble(const std::string& what);
  void warning(const std::string& what);

  /// Draws the live line anew, if there is one.
  void redraw(const pipeline::batch_result& so_far, const live_state& now);
  bool live() const { return live_; }

  /// The verdict. `again` is the command that takes up what is left, or empty.
  void run_ended(const std::string& run, const pipeline::batch_result& result, int exit,
                 const std::string& again, duration elapsed);

 private:
  void clear();
  void plain(const std::string& line);

  std::shared_ptr<spdlog::logger> log_;
  bool terminal_;
  bool live_;
  bool quiet_;
  bool silent_;
  bool drawn_ = false;
};

}  // namespace sluice::app
