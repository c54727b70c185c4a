# Every dependency is found, in the version that Debian 12 ships or a newer one.
# What stands first is all that the numeric core needs (GIMBAL_SERVICES=OFF).
find_package(Threads REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_path(OPENBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas-pthread openblas REQUIRED)
find_library(OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-pthread REQUIRED)
add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
set_target_properties(OpenBLAS::OpenBLAS PROPERTIES
  IMPORTED_LOCATION "${OPENBLAS_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${OPENBLAS_INCLUDE_DIR}")
if(GIMBAL_TESTS)
  find_package(GTest 1.12 REQUIRED)
endif()

if(GIMBAL_SERVICES)
  find_package(Protobuf 3.21 REQUIRED)
  find_package(gRPC 1.51 CONFIG REQUIRED)
  find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
  find_package(CURL 7.88 REQUIRED)
  find_package(SQLite3 3.40 REQUIRED)
  find_package(yaml-cpp 0.7 REQUIRED)
  find_package(prometheus-cpp CONFIG REQUIRED)
  find_package(civetweb CONFIG REQUIRED)  # brought by prometheus-cpp
  find_package(CLI11 2.1 REQUIRED)
  if(GIMBAL_TESTS)
    find_package(benchmark 1.7 REQUIRED)
  endif()
endif()

# gimbal_find_cuda_toolkit(): find_package(CUDAToolkit) or an error. CMake 3.25
# calls a library deprecated that CUDA 13 no longer has, and fails of it, where a
# project asks for that very CMake.
macro(gimbal_find_cuda_toolkit)
  set(_gimbal_least_cmake "${CMAKE_MINIMUM_REQUIRED_VERSION}")
  set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
  find_package(CUDAToolkit 12.0 REQUIRED)
  set(CMAKE_MINIMUM_REQUIRED_VERSION "${_gimbal_least_cmake}")
endmacro()
