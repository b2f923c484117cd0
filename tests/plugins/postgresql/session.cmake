# strategy=session. Other programs that lock the number of key=advisory talk libpq.
pkg_check_modules(DLT_PQ REQUIRED IMPORTED_TARGET libpq)
dlt_add_pg_test(test_pg_upgrade) # one of its tests reads as another program does
if(TARGET test_pg_upgrade)
  target_link_libraries(test_pg_upgrade PRIVATE PkgConfig::DLT_PQ)
endif()
dlt_add_pg_test(test_pg_session)
dlt_add_pg_test(test_pg_advisory)
if(TARGET test_pg_advisory)
  target_link_libraries(test_pg_advisory PRIVATE PkgConfig::DLT_PQ)
endif()
dlock_add_unit_test(test_pg_session_faults LIBS dlock_pg_kit dlock_faults)
if(TARGET test_pg_session_faults)
  set_tests_properties(test_pg_session_faults PROPERTIES TIMEOUT 600 LABELS "postgresql;faults")
endif()
if(DLT_EVERYTHING)
  add_test(NAME pg_advisory COMMAND with_server postgres --
    ${CMAKE_CURRENT_SOURCE_DIR}/advisory.sh ${PROJECT_SOURCE_DIR} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
    {port} 40)
  set_tests_properties(pg_advisory PROPERTIES TIMEOUT 600 LABELS postgresql)
endif()
