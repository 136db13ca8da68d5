# Compile definitions of build_info.cc. The commit is asked for when CMake configures, and a new
# commit makes it configure again. A build without .git gives it: -DPULSEWHEEL_COMMIT=1a2b3c, or a
# variable of that name in the environment.
set(PULSEWHEEL_COMMIT "$ENV{PULSEWHEEL_COMMIT}" CACHE STRING "Commit id shown by --version (empty: ask git)")

function(pulsewheel_find_commit out)
  set(${out} "unknown" PARENT_SCOPE)
  if(PULSEWHEEL_COMMIT)
    set(${out} "${PULSEWHEEL_COMMIT}" PARENT_SCOPE)
    return()
  endif()
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/.git)
    return()  # an unpacked archive, perhaps inside somebody else's repository
  endif()
  set(git git -C ${PROJECT_SOURCE_DIR})
  execute_process(COMMAND ${git} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT commit)
    return()
  endif()
  set(${out} "${commit}" PARENT_SCOPE)
  execute_process(COMMAND ${git} rev-parse --path-format=absolute --git-path logs/HEAD
    OUTPUT_VARIABLE head_log ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(head_log AND EXISTS "${head_log}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${head_log}")
  endif()
endfunction()

pulsewheel_find_commit(commit)
set(build_type "${CMAKE_BUILD_TYPE}")
if(NOT build_type)
  set(build_type "no build type")
endif()
set_source_files_properties(build_info.cc PROPERTIES COMPILE_DEFINITIONS
  "PULSEWHEEL_VERSION=\"${PROJECT_VERSION}\";PULSEWHEEL_COMMIT=\"${commit}\";PULSEWHEEL_COMPILER=\"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\";PULSEWHEEL_BUILD_TYPE=\"${build_type}\"")
