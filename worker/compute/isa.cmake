# gimbal_isa_sources(TARGET SOURCES...) compiles kernel sources once per
# instruction set of worker/compute/isa.h and adds the objects to TARGET.
# Contraction to FMA is fixed, because it changes last bits; the -fno flags drop
# errno and trap semantics, and jumps that keep selections from becoming blends.
function(gimbal_isa_sources target)
  foreach(isa IN ITEMS kBaseline kV3 kV4)
    set(objects ${target}_${isa})
    add_library(${objects} OBJECT ${ARGN})
    target_link_libraries(${objects} PRIVATE gimbal_flags)
    _gimbal_instrument(${objects} FALSE)
    target_compile_definitions(${objects} PRIVATE GIMBAL_ISA=${isa})
    target_compile_options(${objects} PRIVATE -O3 -fopenmp-simd
      -ffp-contract=fast -fno-math-errno -fno-trapping-math -fno-thread-jumps)
    if(isa STREQUAL kV3)
      target_compile_options(${objects} PRIVATE -march=x86-64-v3)
    elseif(isa STREQUAL kV4)
      target_compile_options(${objects} PRIVATE -march=x86-64-v4)
    endif()
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
  endforeach()
endfunction()
