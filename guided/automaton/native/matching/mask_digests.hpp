// Stores the digests of the masks of states. States with equal masks have equal digests.
//
// In: a state and the digest of its mask. Out: the digest; any number of OS threads may read it. Cost: 5 to 20 us for
// computing a digest, then a look-up without a lock. Memory: 8 bytes per state, 64 bytes per distinct mask.
#pragma once

#include <mutex>
#include <unordered_set>

#include "base/by_state.hpp"
#include "base/common.hpp"

namespace guided {

class MaskDigests {
 public:
  // Null if no digest has been set.
  const Digest* known(int32_t state) const { return by_state_.get(state); }
  void set(int32_t state, const Digest& digest) {
    const std::lock_guard<std::mutex> lock(mutex_);
    by_state_.set(state, &*distinct_.insert(digest).first);
  }

 private:
  std::mutex mutex_;
  std::unordered_set<Digest, DigestHash> distinct_;
  ByState<const Digest*> by_state_{nullptr};
};

}  // namespace guided
