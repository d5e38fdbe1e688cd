# cohort_module(NAME SOURCES ... USES ... PUBLIC_LINK ... PRIVATE_LINK ...)
#   The library cohort_NAME, known outside as Cohort::NAME: one folder of src/cohort.
#   USES names the Cohort modules it may include; tests/layering_test.py holds them to the table of
#   docs/architecture.md.
function(cohort_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;PUBLIC_LINK;PRIVATE_LINK" ${ARGN})
  add_library(cohort_${name} STATIC ${ARG_SOURCES})
  add_library(Cohort::${name} ALIAS cohort_${name})
  set_target_properties(cohort_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(cohort_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
    $<INSTALL_INTERFACE:include>)
  target_compile_features(cohort_${name} PUBLIC cxx_std_20)
  list(TRANSFORM ARG_USES PREPEND cohort_)
  target_link_libraries(cohort_${name} PUBLIC ${ARG_USES} ${ARG_PUBLIC_LINK} PRIVATE ${ARG_PRIVATE_LINK})
  set_property(GLOBAL APPEND PROPERTY COHORT_MODULES cohort_${name})
endfunction()

# cohort_test(NAME LABEL [TORCH] SOURCES ... LINK ... [TIMEOUT S] [ENV K=V ...])
#   One GoogleTest program, run as one ctest entry. LABEL: unit, ranks, process, frameworks, gpu, slow.
#   TORCH: its units use the precompiled LibTorch, which fixes the compiler's options.
function(cohort_test name label)
  if(NOT COHORT_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "TORCH" "TIMEOUT" "SOURCES;LINK;ENV" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main)
  # Tests are compiled more often than they are run. With AddressSanitizer + UBSan -O1 takes half as long
  # again as -O0; ranks move and check so much data that it pays there.
  if(NOT ARG_TORCH)
    if(COHORT_SANITIZE MATCHES "address" AND NOT label STREQUAL "ranks")
      target_compile_options(${name} PRIVATE -O0)
    elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
      target_compile_options(${name} PRIVATE -O1)
    endif()
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${ARG_TIMEOUT}
                       ENVIRONMENT "COHORT_BIN_DIR=${CMAKE_BINARY_DIR}/bin;${ARG_ENV}")
endfunction()
