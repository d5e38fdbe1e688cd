# LibTorch: COHORT_TORCH_PYTHON (set by scripts/setup's choice), else any python3 with torch 2.x,
# else an installed libtorch-dev. Sets up `cohort_torch_pch`, whose precompiled <torch/torch.h> every
# LibTorch unit reuses.
set(_torch_pythons "${PROJECT_SOURCE_DIR}/.venv/bin/python3" python3)
foreach(_python IN LISTS _torch_pythons)
  execute_process(
    COMMAND ${_python} -c
      "import torch; assert int(torch.__version__.split('.')[0]) >= 2; print(torch.utils.cmake_prefix_path)"
    OUTPUT_VARIABLE _torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE _torch_result)
  if(_torch_result EQUAL 0)
    list(PREPEND CMAKE_PREFIX_PATH "${_torch_prefix}")
    break()
  endif()
endforeach()
