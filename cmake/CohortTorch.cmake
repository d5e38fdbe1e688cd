# LibTorch, as the imported target Cohort::torch; COHORT_HAVE_TORCH says whether there is one.
#
# Looked for in this order, as scripts/setup does: a torch 2.x package of .venv in this tree, of
# python3 on the PATH, of the system's python3; then an installed libtorch-dev (1.13), also under
# CMAKE_PREFIX_PATH. Its own CMake package is not used: that of a CUDA build stops the configure on
# a machine that has no CUDA toolkit, and Cohort needs none. Installed beside CohortConfig.cmake: an
# outside project finds LibTorch in the same way.
set(COHORT_HAVE_TORCH FALSE)
if(DEFINED COHORT_TORCH AND NOT COHORT_TORCH)
  message(STATUS "LibTorch: switched off (COHORT_TORCH=OFF)")
  return()
endif()

set(_torch_includes "")
foreach(_python "${PROJECT_SOURCE_DIR}/.venv/bin/python3" python3 /usr/bin/python3)
  execute_process(
    COMMAND "${_python}" "${CMAKE_CURRENT_LIST_DIR}/find_torch.py"
    OUTPUT_VARIABLE _torch_found OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_VARIABLE _torch_reason RESULT_VARIABLE _torch_result)
  if(_torch_result EQUAL 0)
    string(REPLACE "\t" ";" _torch_found "${_torch_found}")
    list(GET _torch_found 0 COHORT_TORCH_VERSION)
    list(GET _torch_found 1 _torch_folder)
    set(_torch_includes "${_torch_folder}/include" "${_torch_folder}/include/torch/csrc/api/include")
    set(_torch_libraries "${_torch_folder}/lib")
    break()
  elseif(_torch_reason AND NOT _torch_reason MATCHES "no torch package")
    string(STRIP "${_torch_reason}" _torch_reason)
    message(STATUS "LibTorch: skipped ${_torch_reason}")
  endif()
endforeach()

if(NOT _torch_includes)
  find_path(COHORT_TORCH_HEADERS torch/csrc/api/include/torch/torch.h)
  find_library(COHORT_TORCH_LIBRARY torch)
  mark_as_advanced(COHORT_TORCH_HEADERS COHORT_TORCH_LIBRARY)
  if(COHORT_TORCH_HEADERS AND COHORT_TORCH_LIBRARY)
    set(_torch_includes "${COHORT_TORCH_HEADERS}/torch/csrc/api/include")
    # Naming /usr/include as a system folder would hide the compiler's own headers.
    if(NOT COHORT_TORCH_HEADERS STREQUAL "/usr/include")
      list(PREPEND _torch_includes "${COHORT_TORCH_HEADERS}")
    endif()
    cmake_path(GET COHORT_TORCH_LIBRARY PARENT_PATH _torch_libraries)
    file(STRINGS "${COHORT_TORCH_HEADERS}/torch/csrc/api/include/torch/version.h" COHORT_TORCH_VERSION
         REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9;]" "" COHORT_TORCH_VERSION "${COHORT_TORCH_VERSION}")
    string(REPLACE ";" "." COHORT_TORCH_VERSION "${COHORT_TORCH_VERSION}")
  endif()
endif()

if(NOT _torch_includes)
  message(WARNING "No LibTorch: what needs it is not built. To get it, run scripts/setup.")
  return()
endif()

# Imported, as LibTorch is no part of what Cohort installs.
add_library(Cohort::torch INTERFACE IMPORTED GLOBAL)
target_include_directories(Cohort::torch SYSTEM INTERFACE ${_torch_includes})
# A torch package brings the headers of a fmt of its own, without the library, and they come first.
target_compile_definitions(Cohort::torch INTERFACE FMT_HEADER_ONLY)
target_link_directories(Cohort::torch INTERFACE "${_torch_libraries}")
# The C++ library first: some torch packages carry parts of an older one (std::filesystem), which would
# answer a program's calls otherwise.
target_link_libraries(Cohort::torch INTERFACE stdc++ torch torch_cpu c10)
if(EXISTS "${_torch_libraries}/libtorch_cuda.so")
  # Nothing refers to them by name: they register their devices when they are loaded.
  target_link_libraries(Cohort::torch INTERFACE
    -Wl,--push-state,--no-as-needed torch_cuda c10_cuda -Wl,--pop-state)
endif()
# What the libraries themselves need they find by their own run paths.
target_link_options(Cohort::torch INTERFACE -Wl,--allow-shlib-undefined)
set(COHORT_TORCH_LIBRARY_DIR "${_torch_libraries}")
set(COHORT_HAVE_TORCH TRUE)
message(STATUS "LibTorch: ${COHORT_TORCH_VERSION} from ${_torch_libraries}")
