# Many threads on few names, while members are killed and stopped: under the sanitizers, too.
foreach(stem
  test_etcd_data
  test_etcd_events
  test_etcd_leader
  test_etcd_storm)
  add_executable(${stem} ${stem}.c)
  target_include_directories(${stem} PRIVATE ${PROJECT_SOURCE_DIR}/tests/kit)
  target_link_libraries(${stem} PRIVATE dlock_flags dlock_storm dlock_servers)
endforeach()
foreach(members 1 3)
  set(brief brief)
  if(DLOCK_LONG_TESTS)
    set(brief)
  endif()
  if(DLT_EVERYTHING OR DLOCK_SANITIZE)
    add_test(NAME etcd_storm_${members} COMMAND test_etcd_storm ${members} ${brief})
    set_tests_properties(etcd_storm_${members} PROPERTIES
      TIMEOUT 600 PROCESSORS 2 COST 100 LABELS "etcd;faults")
  endif()
endforeach()

if(DLT_EVERYTHING)
  foreach(stem test_etcd_data test_etcd_events)
    add_test(NAME ${stem} COMMAND ${stem})
    set_tests_properties(${stem} PROPERTIES TIMEOUT 600 LABELS etcd)
  endforeach()
endif()

# The leader is killed so many times.
set(DLT_ETCD_ROUNDS 4)
if(DLOCK_LONG_TESTS)
  set(DLT_ETCD_ROUNDS 20)
endif()
if(DLT_EVERYTHING)
  add_test(NAME etcd_leader COMMAND test_etcd_leader ${DLT_ETCD_ROUNDS})
  set_tests_properties(etcd_leader PROPERTIES TIMEOUT 600 PROCESSORS 2 COST 100 LABELS "etcd;faults")
endif()
