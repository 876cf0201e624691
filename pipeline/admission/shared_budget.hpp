// A ledger that several jobs share: whatever is granted or planned stands where all of them look.
// Decides nothing itself (budget_line.hpp does) and never waits: it says when to look again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/admission/budget_line.hpp"
#include "pipeline/admission/ledger.hpp"
#include "pipeline/outcomes/records.hpp"

namespace sluice::pipeline {

/// Where the state of a shared budget stands: a file (budget_file.hpp), or memory in simulations.
/// Failures of the disk are storage_failure.
class budget_medium {
 public:
  virtual ~budget_medium() = default;

  /// Takes the lock that state is read and written under, or returns false at once.
  virtual bool try_lock() = 0;
  virtual void unlock() = 0;
  /// Who has the lock, for people: "process 4711".
  virtual std::string holder() const = 0;

  /// The state's bytes, or nothing when there are none. May be called without the lock.
  virtual std::optional<std::string> read() = 0;
  /// Replaces them, all or nothing; durable on return. Needs the lock.
  virtual void write(std::string_view bytes) = 0;
  /// Puts bytes that cannot be used out of the way and says where they are now. Needs the lock.
  virtual std::string set_aside() = 0;

  /// Changes when the machine starts anew, and instants with it.
  virtual std::string boot_id() const = 0;
  /// What people call it.
  virtual std::string name() const = 0;

  /// Takes one of `of` places for calls in flight over all jobs, if one is free. A place is freed
  /// by the end of the process, too.
  virtual bool take_place(unsigned of) = 0;
  virtual void free_place() = 0;
  /// Tells the others that this job wants a place, and whether any of them does.
  virtual void want_place(bool wanted) = 0;
  virtual bool others_want_place() const = 0;
};

/// The budget cannot be used as asked: another limit, or a place where locks do not hold (exit 78).
class budget_misuse : public store_error {
 public:
  explicit budget_misuse(const std::string& text) : store_error(78, text) {}
};

/// How a job shares a budget.
struct sharing {
  std::uint32_t process = 0;  ///< the process ID, for people
  std::uint64_t client = 1;   ///< tells it from all others that share the budget
  std::string job;            ///< its name, for people
  pace shape = pace::smooth;
  duration admission_timeout = std::chrono::seconds(90);
  /// What a new budget is to have. The budget's own settings count for everybody; asking for
  /// others by name is a mistake.
  std::vector<limit> limits;
  bool limits_asked_for = false;
  std::function<void(const std::string&)> warn;  ///< told what a person should know
};

class shared_budget final : public ledger {
 public:
  /// Looks at what there is. Throws budget_misuse when its limit is not the one asked for.
  shared_budget(std::unique_ptr<budget_medium> at, sharing how);
  shared_budget(const shared_budget&) = delete;
  shared_budget& operator=(const shared_budget&) = delete;

  /// The limits that count.
  const budget_settings& settings() const { return settings_; }

  std::optional<instant> peek(instant now, call_cost cost) const override;
  prospect look(instant now, instant earliest, call_cost cost) override;
  prospect grant(instant now, call_cost cost) override;
  void withdraw(instant now) override;
  void finished(std::uint64_t number, instant now) override;
  void cool_down(instant until, instant now) override;
  void unexplained_refusal(instant granted, instant now) override;
  void settle(std::uint64_t number, std::int64_t tokens) override;
  /// Nothing: the budget knows of its calls.
  void remember(instant) override {}
  duration use_within() const override { return outlook_.use_within(); }
  instant not_before() const override { return not_before_; }
  std::string refusal() const override { return refusal_; }

 private:
  using news = std::function<void(budget_line&, instant)>;

  prospect transact(instant now, call_cost cost, bool take);
  bool have_place(instant now);
  prospect busy(instant now);
  budget_state load(instant now, bool& anew);
  void adopt(const budget_settings& its);
  void tell(news what, instant now);
  bool flush(instant now);
  void finish(budget_line& line, const budget_state& before, bool anew, instant now);
  void warn(const std::string& text) const;

  std::unique_ptr<budget_medium> at_;
  sharing how_;
  budget_settings settings_;
  ring outlook_;  ///< as of the last look, with all planned turns
  std::optional<instant> planned_;
  bool in_line_ = false;
  instant previous_turn_ = instant::min();
  instant not_before_ = instant::min();
  std::optional<instant> busy_since_;
  std::vector<news> untold_;
  std::string refusal_;
  bool place_taken_ = false;
  unsigned places_in_use_ = 0;
  instant places_from_ = instant::min();
};

}  // namespace sluice::pipeline
