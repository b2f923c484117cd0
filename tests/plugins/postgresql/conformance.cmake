# Everything that runs the library on a PostgreSQL server of its own.
if(DLOCK_SANITIZE) # then each process costs even more: nothing runs beside, and fewer cases at once
  set(DLT_POSTGRES_SLACK 1000)
  set(DLT_POSTGRES_PROCESSORS 5)
  set(DLT_POSTGRES_AT_ONCE --jobs 4)
else()
  set(DLT_POSTGRES_SLACK 500)
  set(DLT_POSTGRES_PROCESSORS 4)
  set(DLT_POSTGRES_AT_ONCE)
endif()

# dlt_add_postgresql_conformance(<name> URI <uri> [DEFAULTS] [SERVER <argument>...] [OPTIONS <option>...]
# [BESIDE <command>...]): all cases, beside a server of its own. Each connection costs the server a
# process, so that one other test runs beside at most. DEFAULTS: of the server (100 connections), and not --strict.
function(dlt_add_postgresql_conformance name)
  cmake_parse_arguments(ARG "DEFAULTS" "URI" "SERVER;OPTIONS;BESIDE" ${ARGN})
  if(NOT ARG_DEFAULTS)
    list(APPEND ARG_SERVER -c max_connections=400)
    list(APPEND ARG_OPTIONS --strict)
  endif()
  add_test(NAME conformance_postgresql_${name} COMMAND with_server postgres ${ARG_SERVER} --
    ${ARG_BESIDE} $<TARGET_FILE:dlock-conformance> --slack ${DLT_POSTGRES_SLACK} ${DLT_POSTGRES_AT_ONCE}
    ${ARG_OPTIONS}
    "${ARG_URI}")
  set_tests_properties(conformance_postgresql_${name} PROPERTIES
    TIMEOUT 600 PROCESSORS ${DLT_POSTGRES_PROCESSORS} COST 100 LABELS "conformance;postgresql")
endfunction()

# Where other roles have made every name of the server and of dlock once more.
set(DLT_POSTGRES_FOREIGN ${CMAKE_CURRENT_LIST_DIR}/foreign.sh ${PROJECT_SOURCE_DIR}
  ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/dlock)

# In the build that runs everything, the role with the least rights stands for strategy row.
# Under ThreadSanitizer those in which threads wait.
if(DLOCK_LONG_TESTS OR DLOCK_SANITIZE)
  set(DLT_POSTGRES_CASES)
  if(DLOCK_SANITIZE STREQUAL "thread" AND NOT DLOCK_LONG_TESTS)
    set(DLT_POSTGRES_CASES OPTIONS --only C13)
  endif()
  dlt_add_postgresql_conformance(row ${DLT_POSTGRES_CASES}
    URI "postgresql://u:secret@127.0.0.1:{port}/locks?connect_timeout=30s&op_timeout=10s")
endif()
if(DLT_EVERYTHING)
  dlt_add_postgresql_conformance(session
    BESIDE ${DLT_POSTGRES_FOREIGN} {dir} {port}
      "postgresql://u:secret@/locks?unix_socket={socket}&strategy=session" --
    URI "postgresql://u:secret@/locks?unix_socket={socket}&strategy=session&connect_timeout=30s&op_timeout=10s")
endif()
if(DLT_EVERYTHING)
  # A role that may do what grants.sql says, and nothing else. An administrator has run row.sql.
  dlt_add_postgresql_conformance(least
    BESIDE ${CMAKE_CURRENT_LIST_DIR}/least.sh ${PROJECT_SOURCE_DIR} {dir} {port} row.sql
      ${DLT_POSTGRES_FOREIGN} {dir} {port} "postgresql://least:least@/locks?unix_socket={socket}" --
    URI "postgresql://least:least@/locks?unix_socket={socket}&create=off&connect_timeout=30s&op_timeout=10s")
  dlt_add_postgresql_conformance(default DEFAULTS URI "postgresql://u:secret@127.0.0.1:{port}/locks")
  add_test(NAME conformance_few_connections COMMAND with_server postgres --
    ${PROJECT_SOURCE_DIR}/tests/contract/test_defaults.sh ${PROJECT_SOURCE_DIR} $<TARGET_FILE:dlock-conformance>
    "postgresql://u:secret@127.0.0.1:{port}/locks")
  set_tests_properties(conformance_few_connections PROPERTIES TIMEOUT 300 LABELS "conformance;meta")
  dlt_add_postgresql_conformance(tls SERVER --tls OPTIONS --only TRY-1
    URI "postgresql://u:secret@localhost:{tls}/locks?tls=on&ca={dir}/ca.pem")
endif()
if(DLOCK_LONG_TESTS)
  dlt_add_postgresql_conformance(session_tcp
    URI "postgresql://u:secret@127.0.0.1:{port}/locks?strategy=session")
  dlt_add_postgresql_conformance(session_least
    BESIDE ${CMAKE_CURRENT_LIST_DIR}/least.sh ${PROJECT_SOURCE_DIR} {dir} {port} session.sql
    URI "postgresql://least:least@/locks?unix_socket={socket}&create=off&strategy=session")
  dlt_add_postgresql_conformance(row_tls SERVER --tls
    URI "postgresql://u:secret@localhost:{tls}/locks?tls=on&ca={dir}/ca.pem")
endif()

dlt_full_only(conformance_postgresql_session conformance_postgresql_tls conformance_postgresql_default
  conformance_few_connections)

# Operations of dlock_op_start wait in the server: under the sanitizers, too.
add_executable(test_pg_told test_pg_told.c)
target_include_directories(test_pg_told PRIVATE ${PROJECT_SOURCE_DIR}/tests/kit)
target_link_libraries(test_pg_told PRIVATE dlock_flags dlock_told dlock_servers)
add_test(NAME test_pg_told COMMAND test_pg_told)
set_tests_properties(test_pg_told PROPERTIES TIMEOUT 600 LABELS "postgresql;faults")

# Each n-th call of the system fails.
if(DLT_EVERYTHING)
  set(DLT_POSTGRES_STEP 9973)
  if(DLOCK_LONG_TESTS)
    set(DLT_POSTGRES_STEP 1499)
  endif()
  add_test(NAME test_nth_fault_postgresql COMMAND with_server postgres --
    $<TARGET_FILE:test_nth_fault> --memory-step ${DLT_POSTGRES_STEP} "postgresql://u:secret@127.0.0.1:{port}/locks?op_timeout=1s"
    "postgresql://u:secret@/locks?unix_socket={socket}&strategy=session&table_prefix=session_&op_timeout=1s")
  set_tests_properties(test_nth_fault_postgresql PROPERTIES TIMEOUT 600 LABELS "postgresql;faults")
endif()

# Many threads on few names, on bad days: under the sanitizers, too.
add_executable(test_pg_storm test_pg_storm.c)
target_include_directories(test_pg_storm PRIVATE ${PROJECT_SOURCE_DIR}/tests/kit)
target_link_libraries(test_pg_storm PRIVATE dlock_flags dlock_storm dlock_servers)
foreach(strategy row session)
  set(brief brief)
  if(DLT_EVERYTHING)
    set(brief)
  endif()
  if(DLT_EVERYTHING OR DLOCK_SANITIZE)
    add_test(NAME postgresql_storm_${strategy} COMMAND test_pg_storm ${strategy} ${brief})
    set_tests_properties(postgresql_storm_${strategy} PROPERTIES
      TIMEOUT 600 PROCESSORS 2 COST 100 LABELS "postgresql;faults")
  endif()
endforeach()

# Processes, seconds, and what each of them has to get at least.
set(DLT_POSTGRES_CONTEND 64 5 0)
if(DLOCK_LONG_TESTS)
  set(DLT_POSTGRES_CONTEND 64 60 20)
endif()
if(DLT_EVERYTHING)
  add_test(NAME postgresql_contend COMMAND with_server postgres -c max_connections=300
    -c shared_preload_libraries=pg_stat_statements --
    ${CMAKE_CURRENT_LIST_DIR}/contend.sh ${PROJECT_SOURCE_DIR} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
    "postgresql://u:secret@/locks?unix_socket={socket}" {dir} {port} ${DLT_POSTGRES_CONTEND})
  set_tests_properties(postgresql_contend PROPERTIES TIMEOUT 600 PROCESSORS 2 COST 100 LABELS postgresql)
endif()
