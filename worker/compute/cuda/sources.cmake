# Sources of libgimbal_cuda.so, for the plugin and for whoever compiles them
# otherwise.
set(GIMBAL_CUDA_KERNELS
  worker/compute/cuda/activation.cu
  worker/compute/cuda/attention.cu
  worker/compute/cuda/attention_bf16_backward.cu
  worker/compute/cuda/attention_bf16_forward.cu
  worker/compute/cuda/basis.cu
  worker/compute/cuda/convert.cu
  worker/compute/cuda/cross_entropy.cu
  worker/compute/cuda/embedding.cu
  worker/compute/cuda/layer_norm.cu
  worker/compute/cuda/matrices.cu
  worker/compute/cuda/reduce.cu
  worker/compute/cuda/update.cu
  worker/compute/cuda/wire.cu)
set(GIMBAL_CUDA_SOURCES
  worker/compute/cuda/gemm.cc
  worker/compute/cuda/graphs.cc
  worker/compute/cuda/solver.cc
  worker/compute/cuda/symmetric.cc
  worker/pipeline/cuda/cuda_bases.cc
  worker/pipeline/cuda/cuda_engine.cc
  worker/pipeline/cuda/cuda_linalg.cc
  worker/pipeline/cuda/cuda_model.cc
  worker/pipeline/cuda/cuda_muon.cc
  worker/pipeline/cuda/cuda_rotation.cc
  worker/pipeline/cuda/cuda_state.cc
  worker/pipeline/cuda/cuda_update.cc
  worker/pipeline/cuda/plugin.cc
  worker/transport/cuda/link_memory.cc)
# Where there is a header of NCCL; nccl_api.cc finds the library.
set(GIMBAL_NCCL_CHANNELS worker/transport/cuda/nccl_channels.cc)
list(TRANSFORM GIMBAL_CUDA_KERNELS PREPEND "${PROJECT_SOURCE_DIR}/")
list(TRANSFORM GIMBAL_CUDA_SOURCES PREPEND "${PROJECT_SOURCE_DIR}/")
list(TRANSFORM GIMBAL_NCCL_CHANNELS PREPEND "${PROJECT_SOURCE_DIR}/")
