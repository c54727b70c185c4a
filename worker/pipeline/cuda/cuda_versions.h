// The versions of a stage's parameters on a device, as factors of products:
// with float they are the parameters themselves, in bf16 a copy that is made
// when a version is used first and again after it was written. Asynchronous on
// the stream.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <list>
#include <set>
#include <type_traits>

#include "common/base/log.h"
#include "worker/compute/cuda/convert.h"
#include "worker/compute/cuda/memory.h"
#include "worker/model/parameter_table.h"
#include "worker/pipeline/cuda/cuda_model.h"

namespace gimbal::worker {

template <typename T>
class CudaVersions {
 public:
  // `table` must outlive it.
  CudaVersions(const ParameterTable& table, cudaStream_t stream)
      : table_(table), stream_(stream) {
    // Embeddings are no factors.
    for (const Param& p : table.params()) {
      if (p.group == ParamGroup::kEmbedding) begin_ = p.offset + p.size();
    }
  }

  // Memory for versions that Of may be asked for.
  float* Allocate(int64_t size) {
    const Arenas& arenas = arenas_.emplace_back(size);
    return arenas.fp32.data();
  }

  // `fp32`: an arena in memory of Allocate.
  CudaWeights<T> Of(const float* fp32) {
    if constexpr (kCopies) {
      const auto of = std::ranges::find_if(arenas_, [&](const Arenas& arenas) {
        return fp32 >= arenas.fp32.data() &&
               fp32 < arenas.fp32.data() + arenas.fp32.size();
      });
      GIMBAL_CHECK(of != arenas_.end());
      T* copy = of->copy.data() + (fp32 - of->fp32.data());
      if (made_.insert(fp32).second) {
        compute::cuda::ToBf16(stream_, table_.size() - begin_, fp32 + begin_,
                              copy + begin_);
      }
      return {fp32, copy};
    } else {
      return {fp32, fp32};
    }
  }

  // `n` elements were written, of versions or of anything else.
  void Written(const float* to, int64_t n) {
    std::erase_if(made_, [&](const float* version) {
      return to < version + table_.size() && version < to + n;
    });
  }

 private:
  static constexpr bool kCopies = !std::is_same_v<T, float>;

  struct Arenas {
    explicit Arenas(int64_t size) : fp32(size), copy(kCopies ? size : 0) {}
    compute::cuda::DeviceBuffer<float> fp32;
    compute::cuda::DeviceBuffer<T> copy;
  };

  const ParameterTable& table_;
  const cudaStream_t stream_;
  int64_t begin_ = 0;
  std::list<Arenas> arenas_;
  std::set<const float*> made_;  // versions whose copy is up to date
};

}  // namespace gimbal::worker
