# Every test program prints TAP on its standard output; scripts/test adds up those lines.

# dlock_add_unit_test(<source-stem> [LIBS ...]): a Criterion program from <source-stem>.c that links
# the core with all its symbols, in the builds that have unit tests.
function(dlock_add_unit_test stem)
  if(NOT DLT_UNIT_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${stem} ${stem}.c ${ARG_SOURCES})
  target_link_libraries(${stem} PRIVATE dlock_flags dlock_testing dlock_criterion dlock_ruler ${ARG_LIBS})
  target_include_directories(${stem} PRIVATE ${PROJECT_SOURCE_DIR}/tests/kit)
  add_test(NAME ${stem} COMMAND ${stem} --tap=/dev/stdout --quiet)
  set_tests_properties(${stem} PROPERTIES TIMEOUT 600 LABELS unit)
  if(stem MATCHES "^test_engine_") # they compute all the time
    set_tests_properties(${stem} PROPERTIES PROCESSORS 3)
  endif()
endfunction()
