// The store of one run: a SQLite file that every attempt and outcome is written to, and that knows
// what earlier runs left behind. The tables are in schema.cpp.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <optional>
#include <string>

#include "pipeline/clock.hpp"
#include "pipeline/outcomes/records.hpp"

namespace sluice::pipeline {

/// Another run holds the store (exit 75).
class store_busy : public store_error {
 public:
  explicit store_busy(const std::string& text) : store_error(75, text) {}
};

/// A newer Sluice wrote the store (exit 78).
class store_too_new : public store_error {
 public:
  explicit store_too_new(const std::string& text) : store_error(78, text) {}
};

/// What is kept of an invocation. The first five are given to begin_run; the rest comes back.
struct run_info {
  std::string command;
  std::string endpoint;  ///< for display and for rerun; without credentials
  std::string model;
  std::string settings_json;  ///< what rerun takes over; never the key
  std::string inputs_json;

  std::string id;
  wall_time started{};
  std::optional<wall_time> ended;
  std::optional<int> exit;  ///< absent: still going on, or killed
  std::string summary_json;
};

/// Writes on a thread of its own with one commit for many records; everything else runs on the I/O
/// thread. Must be destroyed before the io_context it completes on; destroying it writes what is
/// queued.
class run_store final : public recorder, public history {
 public:
  /// Takes the run lock (PATH.lock, freed by the kernel when the process ends) and opens or creates
  /// the file, mode 0600. Throws store_busy, store_too_new or storage_failure. `time` is read for
  /// wall time only.
  run_store(asio::any_io_executor io, clock& time, std::string path);
  ~run_store() override;
  run_store(const run_store&) = delete;
  run_store& operator=(const run_store&) = delete;

  /// Writes down that a run begins; records belong to it from here on. Returns its ID, which sorts
  /// after every earlier one of this store even when the clock has gone back.
  std::string begin_run(const run_info& what);
  /// Writes down how the run ended, after everything queued. Throws storage_failure.
  void finish_run(int exit, const std::string& summary_json);

  void attempt(attempt_record r) override;
  asio::awaitable<void> outcome(outcome_record r) override;
  std::optional<prior_outcome> find(std::string_view document_id) override;
  std::string answer(std::string_view document_id) override;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace sluice::pipeline
