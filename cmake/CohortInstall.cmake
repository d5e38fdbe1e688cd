# `cmake --install`: programs, libraries, headers and the CMake package, so that an outside project
# says find_package(Cohort) and links Cohort::base, Cohort::cluster, ...
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(_modules GLOBAL PROPERTY COHORT_MODULES)
set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Cohort")

install(TARGETS ${_modules} EXPORT CohortTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT CohortTargets NAMESPACE Cohort:: DESTINATION "${_package_dir}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/src/cohort" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h" PATTERN tools EXCLUDE PATTERN "*_test.h" EXCLUDE)
install(DIRECTORY "${PROJECT_BINARY_DIR}/generated/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        OPTIONAL FILES_MATCHING PATTERN "*.h")
foreach(_program cohort cohort-torch-probe)
  if(TARGET ${_program})
    install(TARGETS ${_program} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  endif()
endforeach()

# The package's find_dependency() lines follow from what the exported libraries link: a static
# library passes even its private dependencies on.
set(_how_fmt "find_dependency(fmt)")
set(_how_Threads "find_dependency(Threads)")
set(_how_OpenSSL "find_dependency(OpenSSL)")
set(_how_MPI "find_dependency(MPI COMPONENTS CXX)")
set(_how_nlohmann_json "find_dependency(nlohmann_json)")
set(_how_tomlplusplus "find_dependency(tomlplusplus)")
set(_how_CLI11 "find_dependency(CLI11)")
set(_how_ZLIB "find_dependency(ZLIB)")

set(COHORT_FIND_DEPENDENCIES "")
foreach(_module IN LISTS _modules)
  get_target_property(_links ${_module} INTERFACE_LINK_LIBRARIES)
  string(REGEX MATCHALL "[A-Za-z0-9_]+::" _namespaces "${_links}")
  foreach(_namespace IN LISTS _namespaces)
    string(REPLACE "::" "" _namespace "${_namespace}")
    if(_namespace STREQUAL "Cohort")
      continue()
    elseif(NOT DEFINED _how_${_namespace})
      message(FATAL_ERROR "${_module} links ${_namespace}::..., which the installed package cannot "
                          "find yet. Add _how_${_namespace} to cmake/CohortInstall.cmake.")
    endif()
    list(APPEND COHORT_FIND_DEPENDENCIES "${_how_${_namespace}}")
  endforeach()
endforeach()
list(REMOVE_DUPLICATES COHORT_FIND_DEPENDENCIES)
list(JOIN COHORT_FIND_DEPENDENCIES "\n" COHORT_FIND_DEPENDENCIES)

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
