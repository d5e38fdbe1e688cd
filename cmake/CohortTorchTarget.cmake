# The tree's own LibTorch, and cohort_torch_target(TARGET): links TARGET against LibTorch and gives it the precompiled header.
#
# <torch/torch.h> takes half a minute to parse. The target cohort_torch_pch parses it once; every
# LibTorch unit of the tree reuses the result, and so needs no include order or header of its own.
include_guard()
include(CohortTorch)

set(COHORT_HAVE_TORCH FALSE)
if(NOT COHORT_TORCH)
  message(STATUS "LibTorch: switched off (COHORT_TORCH=OFF)")
else()
  # The same Pythons, in the same order, as scripts/setup.
  cohort_find_torch(PYTHONS "${PROJECT_SOURCE_DIR}/.venv/bin/python3" python3 /usr/bin/python3)
  if(COHORT_HAVE_TORCH)
    message(STATUS "LibTorch: ${COHORT_TORCH_VERSION} from ${COHORT_TORCH_LIBRARY_DIR}")
    # Units that need CUDA's headers are built where it is TRUE, stubs in their place elsewhere.
    get_target_property(COHORT_HAVE_CUDA Cohort::torch COHORT_CUDA)
  else()
    message(WARNING "No LibTorch: what needs it is not built. To get it, run scripts/setup.\n  "
                    "${COHORT_TORCH_PROBLEM}")
  endif()
endif()

# Programs that train: examples, and what process tests and benchmarks start. Under sanitizers the unit
# tests of the LibTorch modules are built, these are not.
set(COHORT_TORCH_PROGRAMS ${COHORT_HAVE_TORCH})
if(COHORT_SANITIZE)
  set(COHORT_TORCH_PROGRAMS FALSE)
endif()

function(cohort_torch_target target)
  target_link_libraries(${target} PRIVATE Cohort::torch)
  # One header for programs and libraries: CMake would compile programs with -fPIE, which does not go
  # with a header compiled with -fPIC.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  set_target_properties(${target} PROPERTIES
    BUILD_RPATH "${COHORT_TORCH_LIBRARY_DIR}" INSTALL_RPATH "${COHORT_TORCH_LIBRARY_DIR}")
  # Smaller batches than elsewhere: batches of up to 12 units of train take about 30 s, which is what a
  # person waits for after a change. A batch more costs 7 s: what the header leaves to each of them.
  set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 8)
  if(COHORT_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)  # compiled more often than it is run
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Collecting garbage walks through all of the header's 700 MB and finds little: a seventh of the time.
    target_compile_options(${target} PRIVATE --param=ggc-min-heapsize=1500000)
  endif()
  if(NOT target STREQUAL cohort_torch_pch)
    target_precompile_headers(${target} REUSE_FROM cohort_torch_pch)
  endif()
  if(COHORT_CCACHE)
    # What ccache asks for before it caches units that use a precompiled header.
    target_compile_options(${target} PRIVATE -fpch-preprocess)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime;${COHORT_CCACHE}")
  endif()
endfunction()

# cohort_torch_test(NAME LABEL LIBRARY SOURCES...): cohort_test() of units that use LibTorch.
function(cohort_torch_test name label library)
  if(COHORT_TESTS)
    cohort_test(${name} ${label} TORCH SOURCES ${ARGN} LINK ${library})
    cohort_torch_target(${name})
  endif()
endfunction()

if(COHORT_HAVE_TORCH)
  file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/torch_pch.cpp"
       CONTENT "// Carries the precompiled header.\n")
  add_library(cohort_torch_pch OBJECT "${CMAKE_CURRENT_BINARY_DIR}/torch_pch.cpp")
  target_precompile_headers(cohort_torch_pch PRIVATE <torch/torch.h>)
  cohort_torch_target(cohort_torch_pch)
endif()
