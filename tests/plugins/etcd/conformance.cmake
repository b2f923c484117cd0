# Everything that runs the library on etcd.
if(DLOCK_SANITIZE)
  set(DLT_ETCD_SLACK 1000)
else()
  set(DLT_ETCD_SLACK 500)
endif()

# dlt_add_etcd_conformance(<name> URI <uri> [SERVER <word>...] [OPTIONS <option>...]): all cases,
# beside a cluster of its own; SERVER is what with_server is told (etcd).
function(dlt_add_etcd_conformance name)
  cmake_parse_arguments(ARG "" "URI" "SERVER;OPTIONS" ${ARGN})
  if(NOT ARG_SERVER)
    set(ARG_SERVER etcd)
  endif()
  add_test(NAME conformance_etcd_${name} COMMAND with_server ${ARG_SERVER} --
    $<TARGET_FILE:dlock-conformance> --strict --slack ${DLT_ETCD_SLACK} ${ARG_OPTIONS} "${ARG_URI}")
  set_tests_properties(conformance_etcd_${name} PROPERTIES
    TIMEOUT 600 PROCESSORS 2 COST 100 LABELS "conformance;etcd")
endfunction()

set(DLT_ETCD_THREE "etcd://127.0.0.1:{port},127.0.0.1:{port2},127.0.0.1:{port3}/locks")
if(DLOCK_LONG_TESTS OR DLOCK_SANITIZE STREQUAL "address")
  dlt_add_etcd_conformance(one URI "etcd://127.0.0.1:{port}?connect_timeout=30s")
elseif(DLOCK_SANITIZE STREQUAL "thread")
  dlt_add_etcd_conformance(one OPTIONS --only C13 URI "etcd://127.0.0.1:{port}?connect_timeout=30s")
endif()
if(DLT_EVERYTHING)
  # A user whose role has the keys of the prefix, and nothing else.
  dlt_add_etcd_conformance(least SERVER etcd-auth
    URI "etcd://u:secret@127.0.0.1:{port}/locks?connect_timeout=30s")
  dlt_add_etcd_conformance(tls SERVER etcd --tls OPTIONS --only TRY-1
    URI "etcds://localhost:{tls}/locks?ca={dir}/ca.pem")
endif()
if(DLT_EVERYTHING AND NOT DLOCK_LONG_TESTS)
  dlt_add_etcd_conformance(three SERVER etcd-cluster OPTIONS --only C1
    URI "${DLT_ETCD_THREE}?connect_timeout=30s")
endif()
if(DLOCK_LONG_TESTS)
  dlt_add_etcd_conformance(three SERVER etcd-cluster URI "${DLT_ETCD_THREE}?connect_timeout=30s")
  dlt_add_etcd_conformance(tls_all SERVER etcd --tls
    URI "etcds://localhost:{tls}/locks?ca={dir}/ca.pem&connect_timeout=30s")
  dlt_add_etcd_conformance(raw URI "etcd://127.0.0.1:{port}/locks?key=raw&connect_timeout=30s")
  dlt_add_etcd_conformance(scale URI "etcd://127.0.0.1:{port}/locks?fence_scale=1&connect_timeout=30s")
  # What a cluster with the defaults of etcd does: leases of two seconds at least.
  dlt_add_etcd_conformance(default SERVER etcd --heartbeat-interval=100 --election-timeout=1000
    URI "etcd://127.0.0.1:{port}?connect_timeout=30s")
endif()

dlt_full_only(conformance_etcd_tls conformance_etcd_three)

# Each n-th call of the system fails.
if(DLT_EVERYTHING)
  set(DLT_ETCD_STEP 11)
  if(DLOCK_LONG_TESTS)
    set(DLT_ETCD_STEP 1)
  endif()
  add_test(NAME test_nth_fault_etcd COMMAND with_server etcd --
    $<TARGET_FILE:test_nth_fault> --memory-step ${DLT_ETCD_STEP} "etcd://127.0.0.1:{port}/locks")
  set_tests_properties(test_nth_fault_etcd PROPERTIES TIMEOUT 600 LABELS "etcd;faults")
endif()
