# Clients while servers are killed, stopped and cut off from each other.
foreach(stem
  test_zk_follower
  test_zk_leader
  test_zk_process
  test_zk_storm)
  add_executable(${stem} ${stem}.c)
  target_include_directories(${stem} PRIVATE ${PROJECT_SOURCE_DIR}/tests/kit)
  target_link_libraries(${stem} PRIVATE dlock_flags dlock_storm dlock_servers dlock_faults dlock_ruler)
endforeach()
target_sources(test_zk_process PRIVATE process_kit.c)
target_sources(test_zk_leader PRIVATE rivals.c)
target_sources(test_zk_follower PRIVATE rivals.c)
# The client library has to find its socket and its getaddrinfo.
set_target_properties(test_zk_process PROPERTIES ENABLE_EXPORTS ON)

# dlt_add_zk_bad_day(<name> COMMAND <word>...)
function(dlt_add_zk_bad_day name)
  cmake_parse_arguments(ARG "" "" "COMMAND" ${ARGN})
  add_test(NAME ${name} COMMAND ${ARG_COMMAND})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS "zookeeper;faults")
endfunction()

if(DLOCK_LONG_TESTS)
  set(DLT_ZK_BRIEF)
  set(DLT_ZK_STOP 10 3)   # seconds, rounds
  set(DLT_ZK_ROUNDS 20)
  set(DLT_ZK_OPENS 1000)
else()
  set(DLT_ZK_BRIEF brief)
  set(DLT_ZK_STOP 5 1)
  set(DLT_ZK_ROUNDS 2)
  set(DLT_ZK_OPENS 200)
endif()

if(DLT_EVERYTHING OR DLOCK_SANITIZE)
  dlt_add_zk_bad_day(zookeeper_storm_1 COMMAND test_zk_storm 1 ${DLT_ZK_BRIEF})
endif()
if(DLT_EVERYTHING OR DLOCK_SANITIZE STREQUAL "address")
  dlt_add_zk_bad_day(zookeeper_process COMMAND test_zk_process ${DLT_ZK_OPENS})
endif()
if(DLT_EVERYTHING)
  dlt_add_zk_bad_day(zookeeper_storm_3 COMMAND test_zk_storm 3 ${DLT_ZK_BRIEF})
  dlt_add_zk_bad_day(zookeeper_leader COMMAND test_zk_leader ${DLT_ZK_STOP})
  dlt_add_zk_bad_day(zookeeper_follower COMMAND test_zk_follower ${DLT_ZK_ROUNDS})
endif()
