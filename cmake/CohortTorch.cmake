# cohort_find_torch([VERSION V] [FOLDERS ...] [PYTHONS ...]): LibTorch, as the imported target Cohort::torch.
#
# Looked for in this order: Torch_DIR; the folders of CMAKE_PREFIX_PATH; FOLDERS; the torch packages of
# PYTHONS. 2.0 or newer; VERSION: only that release will do (static libraries that were compiled with one
# do not go with another). A Torch_DIR that does not fit is an answer, not a hint: nothing else is tried then.
#
# Sets COHORT_HAVE_TORCH; where it is TRUE also COHORT_TORCH_VERSION (2.13.0), COHORT_TORCH_FOLDER and
# COHORT_TORCH_LIBRARY_DIR; where it is FALSE, COHORT_TORCH_PROBLEM: what was looked at, as lines.
#
# LibTorch's own CMake package is not used: that of a CUDA build stops the configure on a machine that
# has no CUDA toolkit. Cohort needs of CUDA the headers and the library of the runtime alone, which a torch
# package brings along (nvidia/); a toolkit serves too. Cohort::torch has the property COHORT_CUDA: TRUE where
# LibTorch computes on GPUs and both were found. Installed beside CohortConfig.cmake.

# Sets _version of the LibTorch in FOLDER (a torch package or an unpacked libtorch archive) and
# _libraries, its folder of libraries; or _problem, empty where there is no LibTorch at all.
function(_cohort_look_at_torch folder)
  set(version "")
  set(libraries "")
  set(problem "")
  if(EXISTS "${folder}/include/torch/csrc/api/include/torch/torch.h")
    # Newer releases have the macros in the second.
    foreach(header csrc/api/include/torch/version.h headeronly/version.h)
      if(EXISTS "${folder}/include/torch/${header}")
        file(STRINGS "${folder}/include/torch/${header}" lines
             REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
        if(lines)
          string(REGEX REPLACE "[^0-9;]" "" version "${lines}")
          string(REPLACE ";" "." version "${version}")
        endif()
      endif()
    endforeach()
    if(EXISTS "${folder}/lib/libtorch.so")
      set(libraries "${folder}/lib")
    endif()
    set(config "${folder}/share/cmake/Torch/TorchConfig.cmake")
    set(old_abi "")
    if(EXISTS "${config}")
      file(STRINGS "${config}" old_abi REGEX "_GLIBCXX_USE_CXX11_ABI=0")
    endif()
    if(NOT version)
      set(problem "has a LibTorch of unknown version")
    elseif(version VERSION_LESS 2.0)
      set(problem "has LibTorch ${version}, older than 2.0")
    elseif(NOT libraries)
      set(problem "has the headers of LibTorch ${version}, but no lib/libtorch.so")
    elseif(old_abi)
      set(problem "has LibTorch ${version} with the old C++ ABI")
    endif()
  endif()
  set(_version "${version}" PARENT_SCOPE)
  set(_libraries "${libraries}" PARENT_SCOPE)
  set(_problem "${problem}" PARENT_SCOPE)
endfunction()

# Sets _headers and _runtime: the folder of cuda_runtime_api.h and libcudart, or empty.
function(_cohort_find_cuda_runtime folder)
  set(packages "${folder}/../nvidia")
  file(GLOB beside LIST_DIRECTORIES TRUE "${packages}/cu[0-9]*" "${packages}/cuda_runtime")
  set(roots ${beside} "$ENV{CUDA_HOME}" /usr/local/cuda)
  set(headers "")
  set(runtime "")
  foreach(root IN LISTS roots)
    file(GLOB libraries "${root}/lib/libcudart.so*" "${root}/lib64/libcudart.so*")
    # The second is in a package of its own (PyPI: nvidia-cuda-crt), which torch does not bring along.
    if(root AND libraries AND EXISTS "${root}/include/cuda_runtime_api.h"
       AND EXISTS "${root}/include/crt/host_defines.h")
      list(GET libraries 0 runtime)
      set(headers "${root}/include")
      break()
    endif()
  endforeach()
  set(_headers "${headers}" PARENT_SCOPE)
  set(_runtime "${runtime}" PARENT_SCOPE)
endfunction()

function(_cohort_add_torch folder libraries)
  # Imported, as LibTorch is no part of what Cohort installs.
  add_library(Cohort::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(Cohort::torch SYSTEM INTERFACE
    "${folder}/include" "${folder}/include/torch/csrc/api/include")
  # A torch package brings the headers of a fmt of its own, without the library, and they come first.
  target_compile_definitions(Cohort::torch INTERFACE FMT_HEADER_ONLY)
  target_link_directories(Cohort::torch INTERFACE "${libraries}")
  # The C++ library first: some torch packages carry parts of an older one (std::filesystem), which would
  # answer a program's calls otherwise.
  target_link_libraries(Cohort::torch INTERFACE stdc++ torch torch_cpu c10)
  if(EXISTS "${libraries}/libtorch_cuda.so")
    # Nothing refers to them by name: they register their devices when they are loaded.
    target_link_libraries(Cohort::torch INTERFACE
      -Wl,--push-state,--no-as-needed torch_cuda c10_cuda -Wl,--pop-state)
    _cohort_find_cuda_runtime("${folder}")
    if(_runtime)
      target_include_directories(Cohort::torch SYSTEM INTERFACE "${_headers}")
      target_link_libraries(Cohort::torch INTERFACE "${_runtime}")
      set_target_properties(Cohort::torch PROPERTIES COHORT_CUDA TRUE)
    else()
      message(WARNING "The LibTorch in ${folder} computes on GPUs, but the headers and the library of CUDA's "
        "runtime were not found beside it or in CUDA_HOME: without them gradients on GPUs go through the host's "
        "memory and no step is a CUDA graph. For a torch package: pip install nvidia-cuda-runtime "
        "nvidia-cuda-crt, in its version of CUDA.")
    endif()
  endif()
  # What the libraries themselves need they find by their own run paths.
  target_link_options(Cohort::torch INTERFACE -Wl,--allow-shlib-undefined)
endfunction()

function(cohort_find_torch)
  cmake_parse_arguments(ARG "" "VERSION" "FOLDERS;PYTHONS" ${ARGN})
  set(problems "")

  set(prefixes ${CMAKE_PREFIX_PATH})
  string(REPLACE ":" ";" from_environment "$ENV{CMAKE_PREFIX_PATH}")
  list(APPEND prefixes ${from_environment})
  set(folders "")
  foreach(prefix IN LISTS prefixes)
    # torch.utils.cmake_prefix_path is TORCH/share/cmake.
    list(APPEND folders "${prefix}" "${prefix}/../..")
  endforeach()
  list(APPEND folders ${ARG_FOLDERS})
  set(pythons ${ARG_PYTHONS})
  if(Torch_DIR)
    # TORCH/share/cmake/Torch, or TORCH itself.
    set(folders "${Torch_DIR}/../../.." "${Torch_DIR}")
    set(pythons "")
  endif()

  foreach(candidate IN LISTS folders pythons)
    set(folder "${candidate}")
    if(candidate IN_LIST pythons)
      execute_process(COMMAND "${candidate}" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/find_torch.py"
        OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE
        ERROR_VARIABLE reason ERROR_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result)
      if(NOT result EQUAL 0)
        if(reason AND NOT reason MATCHES "no torch package")
          list(APPEND problems "${reason}")
        endif()
        continue()
      endif()
      string(REGEX REPLACE "^[^\t]*\t" "" folder "${found}")
    endif()
    cmake_path(ABSOLUTE_PATH folder NORMALIZE)
    string(REGEX REPLACE "/$" "" folder "${folder}")
    if(NOT folder)
      continue()
    endif()
    _cohort_look_at_torch("${folder}")
    if(NOT _problem AND _version AND ARG_VERSION AND NOT _version VERSION_EQUAL ARG_VERSION)
      set(_problem "has LibTorch ${_version}, not ${ARG_VERSION}")
    endif()
    if(_problem)
      list(APPEND problems "${folder} ${_problem}")
    elseif(_version)
      if(NOT TARGET Cohort::torch)
        _cohort_add_torch("${folder}" "${_libraries}")
      endif()
      set(COHORT_HAVE_TORCH TRUE PARENT_SCOPE)
      set(COHORT_TORCH_VERSION "${_version}" PARENT_SCOPE)
      set(COHORT_TORCH_FOLDER "${folder}" PARENT_SCOPE)
      set(COHORT_TORCH_LIBRARY_DIR "${_libraries}" PARENT_SCOPE)
      return()
    elseif(folder IN_LIST ARG_FOLDERS)
      list(APPEND problems "${folder} has no LibTorch any more")
    endif()
  endforeach()
  if(Torch_DIR AND NOT problems)
    list(APPEND problems "Torch_DIR=${Torch_DIR} has no LibTorch")
  endif()
  list(REMOVE_DUPLICATES problems)
  list(JOIN problems "\n  " problems)
  set(COHORT_HAVE_TORCH FALSE PARENT_SCOPE)
  set(COHORT_TORCH_PROBLEM "${problems}" PARENT_SCOPE)
endfunction()
