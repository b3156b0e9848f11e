# Sources that are compiled once for each instruction set that the fast CPU path knows.
#
# fathom_simd(<target> ISAS <isa>... SOURCES <file>...)
#   Adds the files (relative to the current folder) to the target, once for each Isa of portable, avx2 and
#   avx512, with its flags and FATHOM_ISA set to its name; an AMX file is compiled for amx alone. Isas that the
#   target's architecture does not have are left out. The objects are listed in the global property
#   FATHOM_SIMD_OBJECTS, as generator expressions: a test looks for weak symbols in them.

set(FATHOM_SIMD_FLAGS_portable "")
set(FATHOM_SIMD_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(FATHOM_SIMD_FLAGS_avx512 ${FATHOM_SIMD_FLAGS_avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq
  -mavx512vbmi -mavx512vnni -mavx512bf16 -mprefer-vector-width=512)
set(FATHOM_SIMD_FLAGS_amx ${FATHOM_SIMD_FLAGS_avx512} -mamx-tile -mamx-bf16 -mamx-int8)

function(fathom_simd target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "ISAS;SOURCES")
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    list(FILTER ARG_ISAS INCLUDE REGEX "^portable$")
  endif()
  list(GET ARG_SOURCES 0 first)
  get_filename_component(name "${first}" NAME_WE)
  foreach(isa IN LISTS ARG_ISAS)
    set(objects "${target}_${name}_${isa}")
    add_library(${objects} OBJECT ${ARG_SOURCES})
    target_include_directories(${objects} PRIVATE "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}")
    target_compile_definitions(${objects} PRIVATE FATHOM_ISA=${isa})
    # Contraction is welcome here: fast paths are judged by their error, not by their rounding points.
    target_compile_options(${objects} PRIVATE -O3 -ffp-contract=fast -fno-exceptions ${FATHOM_SIMD_FLAGS_${isa}})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # g++ 12 takes the deliberately undefined values inside its intrinsics for ours.
      target_compile_options(${objects} PRIVATE -Wno-uninitialized -Wno-maybe-uninitialized)
    endif()
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
    set_property(GLOBAL APPEND PROPERTY FATHOM_SIMD_OBJECTS $<TARGET_OBJECTS:${objects}>)
  endforeach()
endfunction()
