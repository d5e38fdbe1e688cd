# What the modules below LibTorch stand on; docs/architecture.md says what each is for.
# scripts/setup installs them all.
find_package(Threads REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(SQLite3 REQUIRED)
if(COHORT_TESTS)
  find_package(GTest REQUIRED)
endif()
# Headers only (Beast), and only while Cohort itself is compiled: an installed Cohort needs none.
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW)  # Boost's own package, where CMake's module is gone
endif()
find_package(Boost 1.74 REQUIRED)
