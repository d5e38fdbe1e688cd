# `cmake --install`: programs, libraries, headers and the CMake package, so that an outside project
# says find_package(Cohort 0.1 REQUIRED COMPONENTS cluster) and links Cohort::cluster.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(_modules GLOBAL PROPERTY COHORT_MODULES)
set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Cohort")

# Public headers and what they include; found when installing, as includes change without a configure.
file(STRINGS "${PROJECT_SOURCE_DIR}/cmake/public_headers.txt" _public_headers REGEX "^cohort/")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/public_headers.txt")
if(NOT COHORT_HAVE_TORCH)
  list(FILTER _public_headers EXCLUDE REGEX " torch$")
endif()
list(TRANSFORM _public_headers REPLACE " torch$" "")
install(CODE "
  set(COHORT_PUBLIC_HEADERS \"${_public_headers}\")
  set(COHORT_HEADER_FOLDERS \"${PROJECT_SOURCE_DIR}/src;${PROJECT_BINARY_DIR}/generated\")
  set(COHORT_HEADER_DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")")
install(SCRIPT "${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake")
foreach(_program cohort cohort-torch-probe)
  if(TARGET ${_program})
    install(TARGETS ${_program} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  endif()
endforeach()

# Modules are exported in three sets, by what they need: nothing unusual, MPI, or LibTorch. The package
# looks for MPI and LibTorch only where a module of that set is asked for (CohortConfig.cmake.in).
# What a set needs follows from what its libraries link: a static library passes even its private
# dependencies on.
set(_how_fmt "find_dependency(fmt)")
set(_how_Threads "find_dependency(Threads)")
set(_how_OpenSSL "find_dependency(OpenSSL)")
set(_how_MPI "")  # CohortConfig.cmake.in does it
set(_how_nlohmann_json "find_dependency(nlohmann_json)")
set(_how_tomlplusplus "find_dependency(tomlplusplus)")
set(_how_CLI11 "find_dependency(CLI11)")
set(_how_ZLIB "find_dependency(ZLIB)")
set(_how_SQLite "find_dependency(SQLite3)")

foreach(_set Plain Mpi Torch)
  set(COHORT_MODULES_${_set} "")
  set(COHORT_FIND_${_set} "")
endforeach()
foreach(_module IN LISTS _modules)
  get_target_property(_links ${_module} INTERFACE_LINK_LIBRARIES)
  set(_set Plain)
  foreach(_other Mpi Torch)
    foreach(_below IN LISTS COHORT_MODULES_${_other})
      if("cohort_${_below}" IN_LIST _links)
        set(_set ${_other})
      endif()
    endforeach()
  endforeach()
  if(_links MATCHES "Cohort::torch")
    set(_set Torch)
  elseif(_links MATCHES "MPI::")
    set(_set Mpi)
  endif()
  get_target_property(_name ${_module} EXPORT_NAME)
  list(APPEND COHORT_MODULES_${_set} ${_name})
  install(TARGETS ${_module} EXPORT Cohort${_set} ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")

  string(REGEX MATCHALL "[A-Za-z0-9_]+::" _namespaces "${_links}")
  foreach(_namespace IN LISTS _namespaces)
    string(REPLACE "::" "" _namespace "${_namespace}")
    if(_namespace STREQUAL "Cohort")
      continue()
    elseif(NOT DEFINED _how_${_namespace})
      message(FATAL_ERROR "${_module} links ${_namespace}::..., which the installed package cannot "
                          "find yet. Add _how_${_namespace} to cmake/CohortInstall.cmake.")
    endif()
    list(APPEND COHORT_FIND_${_set} "${_how_${_namespace}}")
  endforeach()
endforeach()
foreach(_set Plain Mpi Torch)
  if(COHORT_MODULES_${_set})
    install(EXPORT Cohort${_set} NAMESPACE Cohort:: DESTINATION "${_package_dir}"
            FILE Cohort${_set}Targets.cmake)
  endif()
  list(REMOVE_DUPLICATES COHORT_FIND_${_set})
  list(JOIN COHORT_FIND_${_set} "\n" COHORT_FIND_${_set})
endforeach()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/CohortConfig.cmake.in" "${PROJECT_BINARY_DIR}/CohortConfig.cmake"
  INSTALL_DESTINATION "${_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/CohortConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/CohortConfig.cmake"
              "${PROJECT_BINARY_DIR}/CohortConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/CohortTorch.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/find_torch.py"
        DESTINATION "${_package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# The Python package: `pip install PREFIX/share/cohort/python`, or that folder in PYTHONPATH.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/python/" DESTINATION "${CMAKE_INSTALL_DATADIR}/cohort/python"
        FILES_MATCHING PATTERN "*.py" PATTERN "*.toml" PATTERN "*.md" PATTERN "py.typed" PATTERN "CMakeLists.txt"
        PATTERN "scripts/cohort" PATTERN "build" EXCLUDE PATTERN "*.egg-info" EXCLUDE PATTERN "__pycache__" EXCLUDE
        PATTERN ".mypy_cache" EXCLUDE)
foreach(_folder python python/cohort-horovod)
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/cohort/${_folder}")
endforeach()

# Libraries for other languages; and what python/CMakeLists.txt puts into the wheel.
install(TARGETS cohort RUNTIME DESTINATION cohort/bin COMPONENT wheel EXCLUDE_FROM_ALL)
add_custom_target(wheel_files DEPENDS cohort)
foreach(_library cohort_library cohort_tensorflow)
  if(TARGET ${_library})
    install(TARGETS ${_library} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
    install(TARGETS ${_library} LIBRARY DESTINATION cohort/lib COMPONENT wheel EXCLUDE_FROM_ALL)
    add_dependencies(wheel_files ${_library})
  endif()
endforeach()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12
   AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND NOT COHORT_SANITIZE)
  add_library(cohort_older_libstdcxx OBJECT "${PROJECT_SOURCE_DIR}/cmake/older_libstdcxx.cpp")
  target_link_options(cohort_older_libstdcxx INTERFACE
    "LINKER:--wrap=_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE")
  foreach(_target cohort cohort_library)
    target_link_libraries(${_target} PRIVATE cohort_older_libstdcxx)
  endforeach()
endif()
