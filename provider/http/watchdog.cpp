#include "provider/http/watchdog.hpp"

#include <algorithm>

namespace sluice::provider {

watchdog::watch::watch(watchdog& by, asio::ip::tcp::socket& socket)
    : by_(by.shared_from_this()), socket_(socket), place_(by.watches_.size()) {
  by.watches_.push_back(this);
}

watchdog::watch::~watch() {
  by_->watches_[place_] = by_->watches_.back();
  by_->watches_[place_]->place_ = place_;
  by_->watches_.pop_back();
  // An armed timer is outstanding work: with nothing under way the context may end.
  if (by_->watches_.empty() && by_->armed_for_ != steady::time_point::max()) {
    by_->armed_for_ = steady::time_point::max();
    by_->timer_.cancel();
  }
}

void watchdog::watch::until(steady::time_point deadline) {
  deadline_ = deadline;
  if (deadline < by_->armed_for_) by_->arm(deadline);
}

void watchdog::arm(steady::time_point when) {
  armed_for_ = when;
  timer_.expires_at(when);
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    // Cancelled by a newer arming, which has a wait of its own.
    if (error) return;
    if (const auto self = weak.lock()) self->look();
  });
}

void watchdog::look() {
  // Cancelled too late to be told so.
  if (armed_for_ == steady::time_point::max()) return;
  const steady::time_point now = steady::now();
  steady::time_point next = steady::time_point::max();
  for (watch* w : watches_) {
    if (w->deadline_ <= now) {
      w->expired_ = true;
      w->deadline_ = steady::time_point::max();
      boost::system::error_code ignored;
      w->socket_.cancel(ignored);
    } else {
      next = std::min(next, w->deadline_);
    }
  }
  armed_for_ = steady::time_point::max();
  if (next != steady::time_point::max()) arm(next);
}

void watchdog::abort() {
  for (watch* w : watches_) {
    w->aborted_ = true;
    boost::system::error_code ignored;
    w->socket_.cancel(ignored);
  }
}

}  // namespace sluice::provider
