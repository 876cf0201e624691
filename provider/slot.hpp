// A slot: the right to make one call. provider's send takes one by move, and only admission can
// make one, so the compiler keeps the rule that no call goes out without a turn.
#pragma once

#include <cstdint>
#include <utility>

#include "retry/time.hpp"

namespace sluice::pipeline {
class admission;
}

namespace sluice::testing {
class slot_maker_for_tests;
}

namespace sluice::provider {

/// Passkey: only admission can construct one, so only admission can make a slot. Tests of the
/// transport alone have a maker of their own, which lives in tests/support.
class slot_key {
  friend class sluice::pipeline::admission;
  friend class sluice::testing::slot_maker_for_tests;
  slot_key() {}
};

/// One turn, spent when granted. Move-only; must be used before `use_by`, later it is burnt.
class slot {
 public:
  slot(slot_key, std::uint64_t id, instant granted, instant use_by)
      : id_(id), granted_(granted), use_by_(use_by) {}
  slot(slot&& other) noexcept
      : id_(std::exchange(other.id_, 0)), granted_(other.granted_), use_by_(other.use_by_) {}
  slot& operator=(slot&& other) noexcept {
    id_ = std::exchange(other.id_, 0);
    granted_ = other.granted_;
    use_by_ = other.use_by_;
    return *this;
  }
  slot(const slot&) = delete;
  slot& operator=(const slot&) = delete;
  ~slot() = default;

  /// Number of the grant, from 1; 0 once moved from.
  std::uint64_t id() const { return id_; }
  instant granted_at() const { return granted_; }
  bool burnt(instant now) const { return now > use_by_; }

 private:
  std::uint64_t id_;
  instant granted_;
  instant use_by_;
};

}  // namespace sluice::provider
