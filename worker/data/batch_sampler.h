// Which tokens make up microbatch j: a pure function of (data, seed, j).
//
// An epoch cuts the corpus into windows of context + 1 tokens (the last token
// of a window is only a target; the next window starts with it) and visits each
// once: from an offset that is random per epoch and in a random order, or with
// `shuffle: false` from 0 and in order. All epochs have the same number of
// windows; over the epochs the offsets reach every token. A microbatch at the
// end of an epoch takes its missing samples from the next one.
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

  // Whole microbatches of an epoch without `shuffle`.
  static int64_t Microbatches(int64_t tokens, int context, int microbatch);

  // tokens, targets: [microbatch * context]; either may be null. Target i is
  // the token after token i.
  void Fill(int64_t microbatch_index, int32_t* tokens, int32_t* targets) const;

  // Identity of the microbatch's samples: a hash of where they are and of their
  // token ids, the last targets included. It travels with the activations and
  // is compared at the loss, so that outputs meet neither other targets nor
  // those of another corpus.
  uint64_t Digest(int64_t microbatch_index) const;

 private:
  // First token of sample i of the whole run.
  int64_t SampleBegin(int64_t sample) const;

  const TokenSource& source_;
  int context_;
  int microbatch_;
  uint64_t seed_;
  bool shuffle_;
  int64_t windows_;         // of an epoch
  int64_t largest_offset_;  // of an epoch's first window
};

}  // namespace gimbal::worker
