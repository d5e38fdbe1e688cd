# cohort_python_test(NAME LABEL SCRIPT ARGUMENTS...)
#   A test in Python that may import the packages of tests/python-packages.txt; tests/needed_packages.py
#   skips it, with the reason, where they are not there. Its Python is that of .venv in this tree, else
#   the one that CMake finds.
include_guard()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(COHORT_TEST_PYTHON "${PROJECT_SOURCE_DIR}/.venv/bin/python3")
if(NOT EXISTS "${COHORT_TEST_PYTHON}")
  set(COHORT_TEST_PYTHON "${Python3_EXECUTABLE}")
endif()

function(cohort_python_test name label)
  add_test(NAME ${name} COMMAND "${COHORT_TEST_PYTHON}" ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 300 PROCESSORS 2 SKIP_RETURN_CODE 77
    ENVIRONMENT "COHORT_BIN_DIR=${PROJECT_BINARY_DIR}/bin;PYTHONPATH=${PROJECT_SOURCE_DIR}/tests;PYTHONDONTWRITEBYTECODE=1")
endfunction()
