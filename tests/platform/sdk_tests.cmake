if(COHORT_SANITIZE STREQUAL "thread")
  return()  # they test Python
endif()

# The Python SDK: against a service of the tests, a real one, docs/sdk.md, its types, and `pip install`.
foreach(subject sdk sdk_arguments sdk_packing sdk_install sdk_service sdk_walk)
  cohort_python_test(platform_${subject}_test process ${CMAKE_CURRENT_SOURCE_DIR}/platform/${subject}_test.py)
  set_tests_properties(platform_${subject}_test PROPERTIES PROCESSORS 1)
endforeach()
cohort_python_test(platform_sdk_types_test tree ${CMAKE_CURRENT_SOURCE_DIR}/platform/sdk_types_test.py)
