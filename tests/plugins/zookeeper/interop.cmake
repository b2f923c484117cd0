# dlock with kazoo and Curator in one queue, so many turns each; and 64 processes with each other.
if(TARGET dlock_plugin_zookeeper AND DLT_EVERYTHING)
  set(DLT_ZK_TURNS 20)
  set(DLT_ZK_CONTEND 64 4 1)
  set(DLT_ZK_TIMEOUT 600)
  if(DLOCK_LONG_TESTS)
    set(DLT_ZK_TURNS 1000)
    set(DLT_ZK_CONTEND 64 60 20)
    set(DLT_ZK_TIMEOUT 1800)
  endif()
  add_test(NAME zookeeper_interop COMMAND with_server zookeeper -- ${CMAKE_CURRENT_LIST_DIR}/interop.sh
    ${PROJECT_SOURCE_DIR} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} {port} ${DLT_ZK_TURNS})
  set_tests_properties(zookeeper_interop PROPERTIES
    TIMEOUT ${DLT_ZK_TIMEOUT} PROCESSORS 2 COST 100 LABELS "cli;zookeeper")
  add_test(NAME zookeeper_contend COMMAND with_server zookeeper --
    ${CMAKE_CURRENT_LIST_DIR}/contend.sh ${PROJECT_SOURCE_DIR} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
    "zk://127.0.0.1:{port}/locks" {port} ${DLT_ZK_CONTEND})
  set_tests_properties(zookeeper_contend PROPERTIES TIMEOUT 600 PROCESSORS 2 COST 100 LABELS zookeeper)
endif()
dlt_full_only(zookeeper_interop zookeeper_contend)
