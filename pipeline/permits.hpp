// The in-flight semaphore: how many calls may be queueing for a turn or under way at once. Held by
// RAII, handed straight to the first waiter; retries stand ahead of new documents.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <map>
#include <memory>
#include <utility>

#include "pipeline/admission/admission.hpp"
#include "pipeline/clock.hpp"

namespace sluice::pipeline {

class permits;

/// One permit; freed at the end of its life. Empty when the semaphore was closed.
class permit {
 public:
  permit() = default;
  explicit permit(permits& from) : from_(&from) {}
  permit(permit&& other) noexcept : from_(std::exchange(other.from_, nullptr)) {}
  permit& operator=(permit&& other) noexcept {
    std::swap(from_, other.from_);
    return *this;
  }
  permit(const permit&) = delete;
  permit& operator=(const permit&) = delete;
  ~permit();
  explicit operator bool() const { return from_ != nullptr; }

 private:
  permits* from_ = nullptr;
};

class permits {
 public:
  permits(clock& time, unsigned count) : clock_(time), free_(count) {}
  permits(const permits&) = delete;
  permits& operator=(const permits&) = delete;

  /// Waits for a permit, or returns an empty one when closed.
  asio::awaitable<permit> acquire(priority rank) {
    if (closed_) co_return permit();
    if (free_ > 0) {
      --free_;
      co_return permit(*this);
    }
    waiter mine(clock_.make_alarm());
    const auto at = queue_.emplace(rank, &mine);
    while (!mine.granted && !closed_) co_await mine.bell->wait_until(instant::max());
    if (mine.granted) co_return permit(*this);
    queue_.erase(at);
    co_return permit();
  }

  /// Nobody gets one any more; those waiting return empty-handed.
  void close() {
    closed_ = true;
    for (auto& [rank, w] : queue_) w->bell->ring();
  }

 private:
  friend class permit;
  struct waiter {
    explicit waiter(std::unique_ptr<alarm> a) : bell(std::move(a)) {}
    std::unique_ptr<alarm> bell;
    bool granted = false;
  };

  void release() {
    if (closed_ || queue_.empty()) {
      ++free_;
      return;
    }
    waiter* first = queue_.begin()->second;
    queue_.erase(queue_.begin());
    first->granted = true;
    first->bell->ring();
  }

  clock& clock_;
  unsigned free_;
  bool closed_ = false;
  std::multimap<priority, waiter*> queue_;
};

inline permit::~permit() {
  if (from_ != nullptr) from_->release();
}

}  // namespace sluice::pipeline
