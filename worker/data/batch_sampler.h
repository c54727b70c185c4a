// Which tokens make up microbatch j: a pure function of (data, seed, j).
//
// An epoch cuts the corpus into windows of context + 1 tokens (the last token of
// a window is only a target), starting at an offset that is random per epoch,
// and visits them in a random order; `shuffle: false` starts at 0 and goes in
// order. A sample that an epoch cannot fill is taken from the next epoch.
// Thread-safe.
#pragma once

#include <cstdint>

#include "worker/data/token_source.h"

namespace gimbal::worker {

class BatchSampler {
 public:
  // `source` must outlive the sampler and hold more than `context` tokens.
  BatchSampler(const TokenSource& source, int context, int microbatch,
               uint64_t seed, bool shuffle);

  // tokens, targets: [microbatch * context]; either may be null. Target i is
  // the token after token i.
  void Fill(int64_t microbatch_index, int32_t* tokens, int32_t* targets) const;

  // Identity of the microbatch's samples. It travels with the activations and
  // is compared at the loss, so that outputs never meet other targets.
  uint64_t Digest(int64_t microbatch_index) const;

 private:
  // First token of sample i of the whole run.
  int64_t SampleBegin(int64_t sample) const;

  const TokenSource& source_;
  int context_;
  int microbatch_;
  uint64_t seed_;
  bool shuffle_;
};

}  // namespace gimbal::worker
