if(COHORT_SANITIZE STREQUAL "thread")
  return()  # they test Python
endif()

# Functions on ranks, horovodrun, and the package `horovod`.
foreach(subject runner horovodrun)
  cohort_python_test(python_${subject}_test process ${CMAKE_CURRENT_SOURCE_DIR}/python/${subject}_test.py)
  set_tests_properties(python_${subject}_test PROPERTIES PROCESSORS 1)
endforeach()

# The wheels themselves, in clean environments of every Python that is here.
if(NOT COHORT_SANITIZE)
  cohort_python_test(python_wheel_test process ${CMAKE_CURRENT_SOURCE_DIR}/python/wheel_test.py)
  set_tests_properties(python_wheel_test PROPERTIES COST 20)
endif()
