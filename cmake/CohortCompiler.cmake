# Language level, warnings, sanitizers, ccache; every program lands in bin/.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Kernels ask for -O3 themselves (collective, ps/rules); elsewhere it costs build time and gains nothing.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

# Units of a target are compiled in batches: headers are parsed, and the precompiled LibTorch is
# loaded, once a batch. COHORT_UNITY=OFF (the preset dev) compiles each unit by itself.
option(COHORT_UNITY "Compile the units of a target in batches" ON)
set(CMAKE_UNITY_BUILD ${COHORT_UNITY})
if(COHORT_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A batch includes its units: GCC takes them for headers that others may include too.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12 CACHE STRING "Units a batch")

find_program(COHORT_CCACHE ccache)
if(COHORT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${COHORT_CCACHE}")
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wno-missing-field-initializers)
# GCC 12 sees overlapping copies in std::string where there are none (GCC bug 105651).
add_compile_options(-Wno-restrict)
# TESTED, which the presets ask for: an error with the compiler that CI uses; another one warns of other
# things. What a newer LibTorch deprecates stops nothing.
if(COHORT_WERROR STREQUAL "TESTED")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\.")
    add_compile_options(-Werror -Wno-error=deprecated-declarations)
  endif()
elseif(COHORT_WERROR)
  add_compile_options(-Werror)
endif()
if(COHORT_SANITIZE)
  add_compile_options(-fsanitize=${COHORT_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -g1)
  # Between GCC's checks its own <regex> looks as if it read what was never written (GCC bug 105616).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
  add_link_options(-fsanitize=${COHORT_SANITIZE})
endif()
