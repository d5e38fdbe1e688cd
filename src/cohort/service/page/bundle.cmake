# The page (web/dist, which Node made) as a part of the program: page_bundle.cpp, which includes every file
# as it is and, where that is smaller, compressed. Needs no Node.
set(_dist ${PROJECT_SOURCE_DIR}/web/dist)
set(_packed ${CMAKE_CURRENT_BINARY_DIR}/page)
# Names of assets have a hash of their bytes, and index.html has their names: where one changes, it does.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_dist}/index.html)
file(GLOB_RECURSE _files RELATIVE ${_dist} ${_dist}/*)
set(COHORT_PAGE_BYTES "")
set(COHORT_PAGE_NAMES "")
set(COHORT_PAGE_TABLE "")
set(_dependencies "")
set(_number 0)
foreach(_file ${_files})
  get_filename_component(_folder ${_packed}/${_file} DIRECTORY)
  file(MAKE_DIRECTORY ${_folder})
  file(ARCHIVE_CREATE OUTPUT ${_packed}/${_file}.gz PATHS ${_dist}/${_file} FORMAT raw COMPRESSION GZip
       COMPRESSION_LEVEL 9)
  list(APPEND _dependencies ${_dist}/${_file} ${_packed}/${_file}.gz)
  foreach(_part plain packed)
    set(_name cohort_page_${_number}_${_part})
    set(_path ${_dist}/${_file})
    if(_part STREQUAL "packed")
      set(_path ${_packed}/${_file}.gz)
    endif()
    string(APPEND COHORT_PAGE_BYTES "${_name}:\n  .incbin \"${_path}\"\n${_name}_end:\n")
    string(APPEND COHORT_PAGE_NAMES "extern const char ${_name}[], ${_name}_end[];\n")
  endforeach()
  set(_name cohort_page_${_number})
  string(APPEND COHORT_PAGE_TABLE
         "      {\"/${_file}\", between(${_name}_plain, ${_name}_plain_end), between(${_name}_packed, ${_name}_packed_end)},\n")
  math(EXPR _number "${_number} + 1")
endforeach()
if(NOT "index.html" IN_LIST _files)
  message(FATAL_ERROR "web/dist/index.html is missing: run npm ci and npm run build in web/")
endif()
configure_file(page/page_bundle.cpp.in page_bundle.cpp @ONLY)
# The compiler does not see what the assembler includes, and so neither does ccache.
set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/page_bundle.cpp PROPERTIES
  OBJECT_DEPENDS "${_dependencies}" SKIP_UNITY_BUILD_INCLUSION ON)
