#include "worker/compute/runtime.h"

#include <cblas.h>
#include <pmmintrin.h>

#include "worker/compute/isa.h"

namespace gimbal::compute {

void SetThreads(int threads) { openblas_set_num_threads(threads); }

void PrepareComputeThread() {
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
}

std::string NumericsTag() {
  return std::string(openblas_get_config()) + " core " +
         openblas_get_corename() + ", kernels " + ToString(ActiveIsa());
}

}  // namespace gimbal::compute
