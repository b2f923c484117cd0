# Everything that runs the library on ZooKeeper.
if(DLOCK_SANITIZE)
  set(DLT_ZK_SLACK 1000)
else()
  set(DLT_ZK_SLACK 500)
endif()

# All locks of a client have the ttl of its URI, however long a case wants a lease to be.
# dlt_add_zk_conformance(<name> URI <uri> [DEFAULTS] [SERVER <word>...] [OPTIONS <option>...]): all cases, beside
# servers of its own; SERVER is what with_server is told (zookeeper). DEFAULTS: not --strict.
function(dlt_add_zk_conformance name)
  cmake_parse_arguments(ARG "DEFAULTS" "URI" "SERVER;OPTIONS" ${ARGN})
  if(NOT ARG_DEFAULTS)
    list(APPEND ARG_OPTIONS --strict)
  endif()
  if(NOT ARG_SERVER)
    set(ARG_SERVER zookeeper)
  endif()
  add_test(NAME conformance_zookeeper_${name} COMMAND with_server ${ARG_SERVER} --
    $<TARGET_FILE:dlock-conformance> --slack ${DLT_ZK_SLACK} ${ARG_OPTIONS} "${ARG_URI}")
  set_tests_properties(conformance_zookeeper_${name} PROPERTIES
    TIMEOUT 600 PROCESSORS 2 COST 100 LABELS "conformance;zookeeper")
endfunction()

set(DLT_ZK_ONE "zk://127.0.0.1:{port}/{name}?ttl=3s&connect_timeout=30s")
set(DLT_ZK_THREE "zk://127.0.0.1:{port},127.0.0.1:{port2},127.0.0.1:{port3}/locks?ttl=3s&connect_timeout=30s")
if(DLT_EVERYTHING OR DLOCK_LONG_TESTS)
  dlt_add_zk_conformance(one URI "${DLT_ZK_ONE}")
elseif(DLOCK_SANITIZE STREQUAL "address")
  dlt_add_zk_conformance(one OPTIONS --only C1 URI "${DLT_ZK_ONE}")
elseif(DLOCK_SANITIZE STREQUAL "thread")
  dlt_add_zk_conformance(one OPTIONS --only C13 URI "${DLT_ZK_ONE}")
endif()
if(DLT_EVERYTHING)
  set(DLT_ZK_SOME OPTIONS --only TRY-1)
  set(DLT_ZK_MORE OPTIONS --only C1)
  if(DLOCK_LONG_TESTS)
    set(DLT_ZK_SOME)
    set(DLT_ZK_MORE)
  endif()
  dlt_add_zk_conformance(three SERVER zookeeper-cluster ${DLT_ZK_MORE} URI "${DLT_ZK_THREE}")
  foreach(recipe curator kazoo)
    dlt_add_zk_conformance(${recipe} ${DLT_ZK_SOME} URI "${DLT_ZK_ONE}&recipe=${recipe}")
  endforeach()
  # What servers with the defaults of ZooKeeper do: ticks of 2 s, sessions of 4 to 40 s, 60 connections of a host.
  dlt_add_zk_conformance(default DEFAULTS URI "zk://127.0.0.1:{port}/locks"
    SERVER zookeeper tickTime=2000 maxSessionTimeout=40000 maxClientCnxns=60 forceSync=yes)
  # A user whose nodes nobody else may touch.
  dlt_add_zk_conformance(user ${DLT_ZK_SOME}
    URI "zk://u:secret@127.0.0.1:{port}/own?ttl=3s&connect_timeout=30s")
endif()
if(DLOCK_LONG_TESTS)
  dlt_add_zk_conformance(raw URI "${DLT_ZK_ONE}&key=raw")
  # The disk is waited for.
  dlt_add_zk_conformance(durable SERVER zookeeper forceSync=yes OPTIONS --only C6 URI "${DLT_ZK_ONE}")
endif()

dlt_share_server(zookeeper conformance_zookeeper_one conformance_zookeeper_curator conformance_zookeeper_kazoo)
dlt_full_only(conformance_zookeeper_three conformance_zookeeper_curator conformance_zookeeper_kazoo
  conformance_zookeeper_user conformance_zookeeper_default)

# Each n-th call of the system fails. Without memory, and without /dev/urandom, the client library
# ends the process or goes on with a null pointer: it is spared, for which it has to stand beside the
# plugin and not in it.
if(DLT_EVERYTHING)
  add_library(zk_beside MODULE ${PROJECT_SOURCE_DIR}/plugins/zookeeper/plugin.c
    $<TARGET_OBJECTS:dlock_plugin_zookeeper_objects>)
  target_include_directories(zk_beside PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(zk_beside PRIVATE
    dlock_flags dlock_lib dlock_net Threads::Threads -l:libzookeeper_st.so)
  set_target_properties(zk_beside PROPERTIES PREFIX "" OUTPUT_NAME dlock_zookeeper
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/beside)
  add_custom_command(TARGET zk_beside POST_BUILD COMMAND chmod go-w $<TARGET_FILE:zk_beside> VERBATIM)
  add_test(NAME test_nth_fault_zookeeper COMMAND with_server zookeeper --
    $<TARGET_FILE:test_nth_fault> --spare libzookeeper "zk://127.0.0.1:{port}/locks?ttl=1500ms")
  set_tests_properties(test_nth_fault_zookeeper PROPERTIES TIMEOUT 600 LABELS "zookeeper;faults"
    ENVIRONMENT DLOCK_PLUGIN_PATH=$<TARGET_FILE_DIR:zk_beside>)
endif()
