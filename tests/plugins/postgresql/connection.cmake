# Connections, settings, TLS and processes.
dlt_add_pg_test(test_pg_open)
if(TARGET test_pg_open) # the library has to find its getaddrinfo and its socket
  set_target_properties(test_pg_open PROPERTIES ENABLE_EXPORTS ON)
  target_sources(test_pg_open PRIVATE ${PROJECT_SOURCE_DIR}/tests/kit/open_tests.c)
endif()

# These start servers of their own.
foreach(stem test_pg_settings test_pg_tls)
  dlock_add_unit_test(${stem} LIBS dlock_pg_kit dlock_faults)
  if(TARGET ${stem})
    set_tests_properties(${stem} PROPERTIES TIMEOUT 600 LABELS postgresql)
  endif()
endforeach()
if(TARGET test_pg_tls)
  target_sources(test_pg_tls PRIVATE ${PROJECT_SOURCE_DIR}/tests/kit/tls_tests.c)
endif()

add_executable(test_pg_process test_pg_process.c)
target_include_directories(test_pg_process PRIVATE ${PROJECT_SOURCE_DIR}/tests/kit)
target_link_libraries(test_pg_process PRIVATE dlock_flags dlock_pg_kit)
add_test(NAME test_pg_process COMMAND test_pg_process)
set_tests_properties(test_pg_process PROPERTIES TIMEOUT 600 LABELS postgresql)

# This one takes a minute: it runs in one build, and in every build with -DDLOCK_LONG_TESTS=ON.
if(DLOCK_LONG_TESTS OR PROJECT_BINARY_DIR STREQUAL "${PROJECT_SOURCE_DIR}/build/dev")
  dlock_add_unit_test(test_pg_network SOURCES ${PROJECT_SOURCE_DIR}/tests/kit/network_tests.c
    LIBS dlock_pg_kit dlock_faults)
  if(TARGET test_pg_network)
    target_compile_definitions(test_pg_network PRIVATE $<$<BOOL:${DLOCK_LONG_TESTS}>:DLT_LONG>)
    set_tests_properties(test_pg_network PROPERTIES TIMEOUT 600 LABELS "postgresql;faults")
  endif()
endif()

add_executable(test_pg_rotate test_pg_rotate.c)
target_include_directories(test_pg_rotate PRIVATE ${PROJECT_SOURCE_DIR}/tests/kit)
target_link_libraries(test_pg_rotate PRIVATE
  dlock_flags dlock_rotation dlock_servers dlock Threads::Threads)
add_test(NAME test_pg_rotate COMMAND test_pg_rotate)
set_tests_properties(test_pg_rotate PROPERTIES TIMEOUT 600 LABELS "postgresql;faults")
