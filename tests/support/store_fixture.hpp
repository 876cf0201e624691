// A store with its own io_context and a clock that stands where it is put.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <string>

#include "pipeline/outcomes/run_store.hpp"
#include "tests/support/await.hpp"
#include "tests/support/scratch_folder.hpp"

namespace sluice::testing {

class standing_clock final : public pipeline::clock {
 public:
  instant now() const override { return instant{}; }
  wall_time wall_now() const override { return wall; }
  std::unique_ptr<pipeline::alarm> make_alarm() override {
    throw std::logic_error("the store does not wait");
  }
  wall_time wall{std::chrono::seconds(1'796'019'483)};  // 2026-11-30 06:18:03 UTC
};

inline pipeline::outcome_record ended(const std::string& id,
                                      retry::outcome how = retry::outcome::succeeded,
                                      retry::reason why = retry::reason::ok,
                                      retry::outcome_class kind = retry::outcome_class::none) {
  pipeline::outcome_record r;
  r.document_id = id;
  r.outcome = how;
  r.why = why;
  r.kind = kind;
  r.attempts = 1;
  r.text = "answer to " + id;
  r.from.path = "/in/" + id;
  return r;
}

inline pipeline::attempt_record called(const std::string& id, unsigned n, int status = 200) {
  pipeline::attempt_record r;
  r.document_id = id;
  r.attempt = n;
  r.http_status = status;
  r.why = status == 429 ? retry::reason::rate_limited : retry::reason::ok;
  return r;
}

class StoreTest : public ::testing::Test {
 protected:
  /// Opens the store and begins a run.
  std::unique_ptr<pipeline::run_store> begin(std::string* id = nullptr) {
    auto store = open();
    pipeline::run_info info;
    info.command = "run";
    info.endpoint = "http://llm.example/v1";
    info.model = "small";
    info.settings_json = R"({"limit":"10/60s"})";
    const std::string run = store->begin_run(info);
    if (id != nullptr) *id = run;
    return store;
  }
  std::unique_ptr<pipeline::run_store> open() {
    return std::make_unique<pipeline::run_store>(io.get_executor(), clock, path);
  }
  /// Returns when the outcome is on disk.
  void record(pipeline::run_store& store, pipeline::outcome_record r) {
    run_to_end(io, store.outcome(std::move(r)));
  }

  scratch_folder folder;
  std::string path = folder.at("sluice.db");
  boost::asio::io_context io;
  standing_clock clock;
};

}  // namespace sluice::testing
