include(GoogleTest)

# gimbal_library(NAME SOURCES ... [DEPS ...] [PRIVATE_DEPS ...] [UNINSTRUMENTED])
# makes the static library gimbal_NAME and its alias gimbal::NAME.
function(gimbal_library name)
  cmake_parse_arguments(A "UNINSTRUMENTED" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(gimbal_${name} STATIC ${A_SOURCES})
  add_library(gimbal::${name} ALIAS gimbal_${name})
  target_link_libraries(gimbal_${name} PUBLIC gimbal_flags ${A_DEPS}
                                       PRIVATE ${A_PRIVATE_DEPS})
  _gimbal_instrument(gimbal_${name} "${A_UNINSTRUMENTED}")
endfunction()

# gimbal_binary(NAME SOURCES ... DEPS ... [UNINSTRUMENTED])
function(gimbal_binary name)
  cmake_parse_arguments(A "UNINSTRUMENTED" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE gimbal_flags ${A_DEPS})
  _gimbal_instrument(${name} "${A_UNINSTRUMENTED}")
endfunction()

# gimbal_test(NAME LABEL unit|golden|integration|e2e SOURCES ... DEPS ...
#             [UNINSTRUMENTED] [TIMEOUT s] [SERIAL])
# One executable; ctest gets one test per executable, named NAME.
function(gimbal_test name)
  cmake_parse_arguments(A "UNINSTRUMENTED;SERIAL" "LABEL;TIMEOUT" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE gimbal_flags ${A_DEPS} GTest::gmock GTest::gtest_main)
  # Matchers dominate the build's time; what they test is optimised.
  target_compile_options(${name} PRIVATE -O0)
  _gimbal_instrument(${name} "${A_UNINSTRUMENTED}")
  _gimbal_precompile_matchers(${name} "${A_UNINSTRUMENTED}")
  add_test(NAME ${name} COMMAND ${name})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 180)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${A_LABEL}" TIMEOUT ${A_TIMEOUT}
    # BLAS threads that wait spin; with several pipelines in a process that is
    # a hundred times slower. Programs set their own number.
    ENVIRONMENT "OPENBLAS_NUM_THREADS=1;GIMBAL_SOURCE_DIR=${PROJECT_SOURCE_DIR};GIMBAL_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  if(A_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()

function(_gimbal_instrument target uninstrumented)
  if(uninstrumented AND GIMBAL_SANITIZER STREQUAL "thread")
    return()
  endif()
  target_link_libraries(${target} PRIVATE gimbal_sanitizer)
endfunction()

# GoogleTest's headers are half of what a test takes to compile: they are
# compiled once, with the flags of an instrumented test and the threads of one
# that links gRPC.
function(_gimbal_precompile_matchers test uninstrumented)
  if(uninstrumented AND GIMBAL_SANITIZER STREQUAL "thread")
    return()
  endif()
  if(NOT TARGET gimbal_test_headers)
    file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/test_headers.cc"
         CONTENT "int main() { return 0; }\n")
    # An executable, because tests are: -fPIE, not -fPIC.
    add_executable(gimbal_test_headers "${PROJECT_BINARY_DIR}/test_headers.cc")
    target_link_libraries(gimbal_test_headers PRIVATE gimbal_flags GTest::gmock)
    target_compile_options(gimbal_test_headers PRIVATE -O0 -pthread -fpch-preprocess)
    target_precompile_headers(gimbal_test_headers
      PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
    _gimbal_instrument(gimbal_test_headers "")
  endif()
  target_compile_options(${test} PRIVATE -pthread -fpch-preprocess)
  target_precompile_headers(${test} REUSE_FROM gimbal_test_headers)
endfunction()

# gimbal_pure(NAME...) fails at configure time when a target that must hold only
# decisions links a library of threads, sockets, storage or devices.
function(gimbal_pure)
  foreach(name IN LISTS ARGN)
    get_target_property(libs gimbal_${name} LINK_LIBRARIES)
    foreach(lib IN LISTS libs)
      if(lib MATCHES "gRPC|SQLite|prometheus|gimbal::(rpc|obs|store|transport|compute)")
        message(FATAL_ERROR "gimbal::${name} is pure and must not link ${lib}")
      endif()
    endforeach()
  endforeach()
endfunction()
