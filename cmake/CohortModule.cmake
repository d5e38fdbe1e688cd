# cohort_quick_build(TARGET)
#   For targets whose time goes into files, sockets and other programs: -O1 takes three quarters of the
#   compiler's time of -O2.
function(cohort_quick_build target)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# cohort_module(NAME [QUICK_BUILD] SOURCES ... USES ... PUBLIC_LINK ... PRIVATE_LINK ...)
#   The library cohort_NAME, known outside as Cohort::NAME: one folder of src/cohort.
#   USES names the Cohort modules it may include; tests/layering_test.py holds them to the table of
#   docs/architecture.md.
function(cohort_module name)
  cmake_parse_arguments(ARG "QUICK_BUILD" "" "SOURCES;USES;PUBLIC_LINK;PRIVATE_LINK" ${ARGN})
  add_library(cohort_${name} STATIC ${ARG_SOURCES})
  if(ARG_QUICK_BUILD)
    cohort_quick_build(cohort_${name})
  endif()
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

# Not under ThreadSanitizer: one thread each.
set(COHORT_ONE_THREAD cluster_dialects_test jobspec_test membership_ledger_test membership_protocol_test
    membership_simulation_test tools_test)

# ctest runs as many tests at once as their slots (PROCESSORS) allow; tests/run-ctest gives it two a core.
# A test has two, one where it mostly waits (for deadlines and peers), and all with RUN_SERIAL, where what
# it measures suffers from others. Before ctest has times of its own, COST says which are long and so
# begin first.
set(COHORT_WAITING launch_test membership_agent_test ps_server_test session_test store_test transport_tcp_test)

# cohort_test(NAME LABEL [TORCH] SOURCES ... LINK ... [TIMEOUT S] [COST S] [SHARDS N] [ENV K=V ...])
#   One GoogleTest program. LABEL: unit, ranks, process, frameworks, gpu, slow.
#   TORCH: its units use the precompiled LibTorch, which fixes the compiler's options.
#   SHARDS: as many entries NAME.1 to NAME.N of ctest, each a part of its tests, instead of one.
function(cohort_test name label)
  if(NOT COHORT_TESTS OR (COHORT_SANITIZE STREQUAL "thread" AND name IN_LIST COHORT_ONE_THREAD))
    return()
  endif()
  cmake_parse_arguments(ARG "TORCH" "TIMEOUT;COST;SHARDS" "SOURCES;LINK;ENV" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main)
  # Tests are compiled more often than they are run. With AddressSanitizer + UBSan -O1 takes half as long
  # again as -O0; ranks move and check so much data that it pays there.
  if(NOT ARG_TORCH)
    if(COHORT_SANITIZE MATCHES "address" AND NOT label STREQUAL "ranks")
      target_compile_options(${name} PRIVATE -O0)
    else()
      cohort_quick_build(${name})
    endif()
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
    if(COHORT_SANITIZE)
      set(ARG_TIMEOUT 300)
    endif()
  endif()
  set(slots 2)
  if(name IN_LIST COHORT_WAITING)
    set(slots 1)
  endif()
  set(entries ${name})
  if(ARG_SHARDS)
    set(entries "")
    foreach(shard RANGE 1 ${ARG_SHARDS})
      list(APPEND entries ${name}.${shard})
    endforeach()
  endif()
  set(index 0)
  foreach(entry IN LISTS entries)
    add_test(NAME ${entry} COMMAND ${name})
    set(environment "COHORT_BIN_DIR=${CMAKE_BINARY_DIR}/bin" ${ARG_ENV})
    if(ARG_SHARDS)
      list(APPEND environment GTEST_TOTAL_SHARDS=${ARG_SHARDS} GTEST_SHARD_INDEX=${index})
      math(EXPR index "${index} + 1")
    endif()
    set_tests_properties(${entry} PROPERTIES LABELS ${label} TIMEOUT ${ARG_TIMEOUT} PROCESSORS ${slots}
                         ENVIRONMENT "${environment}")
    if(ARG_COST)
      set_tests_properties(${entry} PROPERTIES COST ${ARG_COST})
    endif()
  endforeach()
endfunction()
