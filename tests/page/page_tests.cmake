# The page in a real browser, against a real service: skipped, with the reason, where there is no browser
# or no Node (tests/page/install). Sanitizers do not reach into a browser.
if(NOT COHORT_SANITIZE)
  add_test(NAME page_walk_test COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/page/run walk_test.mjs
                                       $<TARGET_FILE:member_program>)
  add_test(NAME page_logs_test COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/page/run logs_test.mjs)
  foreach(subject walk logs)
    set_tests_properties(page_${subject}_test PROPERTIES LABELS process TIMEOUT 900 COST 60 RUN_SERIAL ON
                         SKIP_RETURN_CODE 77 ENVIRONMENT "COHORT_BIN_DIR=${PROJECT_BINARY_DIR}/bin")
  endforeach()
endif()
