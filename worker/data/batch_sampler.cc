#include "worker/data/batch_sampler.h"

#include <algorithm>
#include <array>

#include "common/base/log.h"
#include "common/base/random.h"

namespace gimbal::worker {
namespace {

// Not random, only different for different values (a multiply-xorshift hash):
// a digest costs a microbatch microseconds.
uint64_t Mix(uint64_t digest, uint64_t value) {
  digest = (digest ^ value) * 0x9e3779b97f4a7c15;
  return digest ^ (digest >> 32);
}

uint64_t MixTokens(uint64_t digest, const TokenSource& source, int64_t begin,
                   int64_t count) {
  std::array<int32_t, 256> ids;
  for (const int64_t end = begin + count; begin < end;) {
    const int64_t piece = std::min(end - begin, std::ssize(ids));
    source.Read(begin, piece, ids.data());
    for (int64_t i = 0; i < piece; ++i) {
      digest = Mix(digest, static_cast<uint64_t>(ids[i]));
    }
    begin += piece;
  }
  return digest;
}

}  // namespace

BatchSampler::BatchSampler(const TokenSource& source, int context,
                           int microbatch, uint64_t seed, bool shuffle)
    : source_(source),
      context_(context),
      microbatch_(microbatch),
      seed_(seed),
      shuffle_(shuffle) {
  GIMBAL_CHECK(context > 0 && microbatch > 0 && source.size() > context);
  const int64_t targets = source.size() - 1;
  windows_ = targets / context;
  // With one window less there is room for `context` different offsets at
  // least; a corpus too short for that keeps its one window.
  if (shuffle) windows_ = std::max<int64_t>(1, (targets + 1) / context - 1);
  largest_offset_ = shuffle ? targets - windows_ * context : 0;
}

int64_t BatchSampler::Microbatches(int64_t tokens, int context,
                                   int microbatch) {
  return (tokens - 1) / context / microbatch;
}

int64_t BatchSampler::SampleBegin(int64_t sample) const {
  static const uint64_t kOrder = base::StreamOf("data.order");
  static const uint64_t kOffset = base::StreamOf("data.offset");
  const int64_t epoch = sample / windows_;
  const int64_t index = sample % windows_;
  if (!shuffle_) return index * context_;
  const uint64_t window = base::RandomPermutation(
      seed_, kOrder + static_cast<uint64_t>(epoch), windows_, index);
  const uint64_t offset =
      base::RandomBits(seed_, kOffset, epoch) % (largest_offset_ + 1);
  return static_cast<int64_t>(offset + window * context_);
}

void BatchSampler::Fill(int64_t microbatch_index, int32_t* tokens,
                        int32_t* targets) const {
  for (int64_t i = 0; i < microbatch_; ++i) {
    const int64_t begin = SampleBegin(microbatch_index * microbatch_ + i);
    const int64_t row = i * context_;
    if (tokens != nullptr) source_.Read(begin, context_, tokens + row);
    if (targets != nullptr) source_.Read(begin + 1, context_, targets + row);
  }
}

uint64_t BatchSampler::Digest(int64_t microbatch_index) const {
  uint64_t digest = 0;
  for (int64_t i = 0; i < microbatch_; ++i) {
    const int64_t begin = SampleBegin(microbatch_index * microbatch_ + i);
    digest = Mix(digest, static_cast<uint64_t>(begin));
    digest = MixTokens(digest, source_, begin, context_ + 1);
  }
  return digest;
}

}  // namespace gimbal::worker
