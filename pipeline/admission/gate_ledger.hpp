// A ledger whose grants are written down by a gate: it stands in the gate's line for the first of
// this job, at most one turn ahead. While the gate cannot be reached nobody sends.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/admission/gate_protocol.hpp"
#include "pipeline/admission/ledger.hpp"
#include "pipeline/clock.hpp"
#include "retry/random.hpp"

namespace sluice::pipeline {

/// What one request to a gate came to.
struct gate_reply {
  enum class how { answered, failed, mistaken, aborted };
  how ended = how::failed;  ///< mistaken: trying again changes nothing
  int status = 0;
  std::string body;
  std::string cause;     ///< for people, unless answered
  bool reached = false;  ///< somebody had the question, until the connection was lost

  gate_reply() = default;
};

/// The way to a gate: one request at a time. HTTP, or memory in simulations.
class gate_wire {
 public:
  virtual ~gate_wire() = default;
  virtual asio::awaitable<gate_reply> send(std::string path, std::string body, duration within) = 0;
  /// What is under way comes back as `aborted`, and the gate takes it as hung up.
  virtual void abort() = 0;
};

/// How a job uses a gate.
struct gate_use {
  std::string name;  ///< the gate's, for people
  std::string job;   ///< unlike any other's
  pace shape = pace::smooth;
  bool priority = false;
  duration admission_timeout = std::chrono::seconds(90);
  duration longest_call = std::chrono::seconds(150);  ///< longer than --timeout
  std::optional<std::vector<limit>> limits;           ///< only when asked for by name
  std::uint64_t seed = 1;
};

class gate_ledger final : public ledger {
 public:
  /// `asking` is for turns, `telling` for how calls ended.
  gate_ledger(asio::any_io_executor executor, clock& time, std::unique_ptr<gate_wire> asking,
              std::unique_ptr<gate_wire> telling, gate_use how);
  gate_ledger(const gate_ledger&) = delete;
  gate_ledger& operator=(const gate_ledger&) = delete;

  /// Talks to the gate, until close() and what is to be told is told, or two seconds later.
  asio::awaitable<void> run();
  void close();

  std::optional<instant> peek(instant now, call_cost cost) const override;
  prospect look(instant now, instant earliest, call_cost cost) override;
  prospect grant(instant now, call_cost cost) override;
  void stand_by(instant now) override;
  void withdraw(instant now) override;
  void finished(std::uint64_t number, instant now) override;
  void on_news(std::function<void()> bell) override { news_ = std::move(bell); }
  void cool_down(instant until, instant now) override;
  void unexplained_refusal(instant granted, instant now) override;
  void settle(std::uint64_t number, std::int64_t tokens) override;
  /// Nothing: the gate knows of its calls.
  void remember(instant) override {}
  duration use_within() const override { return use_within_; }
  instant not_before() const override { return not_before_; }
  std::string refusal() const override { return refusal_; }

 private:
  struct slot_in_hand {
    std::uint64_t number;
    std::string id;
    instant when;  ///< no later than the gate's grant
    duration use_within;
    bool good(instant now) const { return now <= when + use_within; }
  };
  struct ended_call {
    std::uint64_t number = 0;
    std::string id;
    call_report how;
    std::optional<instant> not_before;
    instant since{};
  };

  asio::awaitable<void> ask_for_turns();
  asio::awaitable<void> tell_of_ends();
  asio::awaitable<void> back_off(unsigned tries, instant no_later);
  bool something_to_ask(instant now) const;
  void take_in(const gate_reply& reply, instant asked_at);
  void take_in_slot(const slot_answer& a, instant asked_at);
  void fail(const std::string& cause, duration there);
  void reached();
  void mistake(const std::string& text);
  void refuse(instant when, std::string text);
  void give_back();
  void start_anew();
  duration poll_length() const;

  asio::any_io_executor executor_;
  clock& clock_;
  std::unique_ptr<gate_wire> asking_;
  std::unique_ptr<gate_wire> telling_;
  gate_use how_;
  retry::random random_;
  std::unique_ptr<alarm> asker_bell_;
  std::unique_ptr<alarm> teller_bell_;
  std::function<void()> news_;

  // The one turn that is asked for.
  bool wanted_ = false;
  instant wanted_since_{};
  bool standing_by_ = false;
  bool under_way_ = false;  ///< a question is
  call_cost cost_;
  std::uint64_t attempt_ = 1;
  bool near_ = false;
  instant ask_again_at_{};
  std::optional<instant> expected_;
  std::optional<slot_in_hand> hand_;
  bool never_ = false;
  std::optional<instant> refused_until_;
  unsigned late_ = 0;  ///< slots in a row that came too late to be used

  std::optional<instant> failing_since_;  ///< later by the time that a gate was there after all
  std::optional<instant> unanswered_since_;
  unsigned tries_ = 0;
  std::string mistake_;
  std::string refusal_;
  duration use_within_{};
  instant not_before_ = instant::min();
  std::map<std::uint64_t, std::string> calls_;  ///< slots under way
  std::deque<ended_call> ended_;
  std::string last_ended_;
  bool closed_ = false;
  instant close_by_ = instant::max();
};

}  // namespace sluice::pipeline
