// Makes slots without an admission, for tests of the transport alone.
#pragma once

#include <cstdint>

#include "provider/slot.hpp"

namespace sluice::testing {

class slot_maker_for_tests {
 public:
  /// A slot that is burnt after `use_by`.
  provider::slot make(instant granted, instant use_by) {
    const provider::slot_key key;
    return provider::slot(key, ++last_, granted, use_by);
  }
  /// A slot that never burns.
  provider::slot make() { return make(instant::min(), instant::max()); }

 private:
  std::uint64_t last_ = 0;
};

}  // namespace sluice::testing
