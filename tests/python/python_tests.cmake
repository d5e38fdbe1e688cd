if(COHORT_SANITIZE)
  return()  # they test Python, which is not built with sanitizers and cannot load a library that is
endif()

# The package `cohort`: the mirror of the C interface, arrays, process sets, worlds, launchers, Ctrl-C.
foreach(subject import interrupt knobs launchers native secret)
  cohort_python_test(python_${subject}_test process ${CMAKE_CURRENT_SOURCE_DIR}/python/${subject}_test.py)
  set_tests_properties(python_${subject}_test PROPERTIES PROCESSORS 1)  # they mostly wait
endforeach()
foreach(subject collectives lifecycle process_sets)
  cohort_python_test(python_${subject}_test process ${CMAKE_CURRENT_SOURCE_DIR}/python/ranks_test.py ${subject})
endforeach()

# cohort.torch.DistributedDataParallel (the same bits), and what the launcher promises when a rank fails.
foreach(subject ddp failures shards)
  cohort_python_test(python_${subject}_test process ${CMAKE_CURRENT_SOURCE_DIR}/python/${subject}_test.py)
endforeach()

# Elastic training: what it consists of, and jobs whose workers are killed. They measure how soon the others go on.
foreach(subject elastic_state elastic_torch elastic)
  cohort_python_test(python_${subject}_test process ${CMAKE_CURRENT_SOURCE_DIR}/python/${subject}_test.py)
endforeach()
set_tests_properties(python_elastic_state_test python_elastic_torch_test PROPERTIES PROCESSORS 1)
set_tests_properties(python_elastic_test PROPERTIES RUN_SERIAL ON COST 30)

# The files and commands of two pages of docs/.
foreach(page python horovod)
  cohort_python_test(python_page_${page}_test process ${CMAKE_CURRENT_SOURCE_DIR}/python/pages_test.py ${page}.md)
endforeach()

# Horovod's API for torch: one suite, run by 1 to 4 ranks.
cohort_python_test(python_torch_conformance_test process ${CMAKE_CURRENT_SOURCE_DIR}/python/torch_conformance_test.py)
set_tests_properties(python_torch_conformance_test PROPERTIES COST 30)
