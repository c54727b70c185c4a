# Flags of every target of ours. Dependencies are found, never built, so these
# flags reach our own code alone.
option(GIMBAL_TESTS "Build the tests and benchmarks" ON)
option(GIMBAL_SERVICES
       "Build the programs; OFF: the numeric core alone, without gRPC and storage" ON)
option(GIMBAL_CUDA "Build libgimbal_cuda.so (needs the CUDA toolkit)" OFF)
option(GIMBAL_WERROR
       "Warnings are errors; OFF for users, whose compiler nobody may have tried" ON)
set(GIMBAL_SANITIZER "" CACHE STRING
    "address (with undefined), thread, fuzzer (clang; with the former) or empty")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(GIMBAL_CCACHE ccache)
if(GIMBAL_CCACHE)
  # Sloppy about what a precompiled header defines, or nothing that includes one
  # is ever found again.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros "${GIMBAL_CCACHE}")
endif()
find_program(GIMBAL_MOLD mold)
if(GIMBAL_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(gimbal_flags INTERFACE)
target_include_directories(gimbal_flags INTERFACE "${PROJECT_SOURCE_DIR}")
if(GIMBAL_WERROR)
  set(warnings -Werror)
  set(cuda_werror -Werror=all-warnings)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
   AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # With -O3 it is wrong about "text" + std::string.
  set(warnings ${warnings} -Wno-restrict)
endif()
target_compile_options(gimbal_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;${warnings};-Wno-missing-field-initializers>"
  "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_werror};-Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers>")

# A target that includes gRPC or protobuf headers cannot be instrumented by
# TSan: Debian's libraries are not, and every inline function of theirs would
# report a false race. gimbal_library(... UNINSTRUMENTED) leaves it out.
add_library(gimbal_sanitizer INTERFACE)
if(GIMBAL_SANITIZER MATCHES "address|thread")
  # g++ 12's warnings that follow the flow of data are wrong about what the
  # sanitizers insert.
  target_compile_options(gimbal_sanitizer INTERFACE
    -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
    -Wno-restrict -Wno-maybe-uninitialized)
endif()
if(GIMBAL_SANITIZER STREQUAL "address")
  target_compile_options(gimbal_sanitizer INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(GIMBAL_SANITIZER STREQUAL "fuzzer")
  target_compile_options(gimbal_sanitizer INTERFACE
    -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(GIMBAL_SANITIZER STREQUAL "thread")
  target_compile_options(gimbal_sanitizer INTERFACE
    -fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()
