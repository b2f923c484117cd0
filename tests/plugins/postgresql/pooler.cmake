# Through a pooler that lends its server to sessions, and one that lends it to transactions, where
# waiters poll and strategy session is refused (test_pg_pooler). Other roles have made the names once
# more (foreign.sh), those of dlock for one strategy. A pooler is one thread that has to log
# in all clients: on a loaded machine it takes its time, also beside an exchange of a client.
function(dlt_add_pooler_conformance name mode strategy)
  add_test(NAME conformance_postgresql_${name} COMMAND with_server pgbouncer ${mode}
    -c max_connections=400 --
    ${DLT_POSTGRES_FOREIGN} {dir} {direct} "postgresql://u:secret@127.0.0.1:{port}/locks?strategy=${strategy}" --
    $<TARGET_FILE:dlock-conformance> --strict --slack 1000 ${ARGN})
  set_tests_properties(conformance_postgresql_${name} PROPERTIES
    TIMEOUT 600 PROCESSORS 4 COST 100 LABELS "conformance;postgresql")
endfunction()

if(DLT_EVERYTHING)
  dlt_add_pooler_conformance(pooler_transaction transaction row
    "postgresql://u:secret@127.0.0.1:{port}/locks?connect_timeout=30s&op_timeout=10s")
endif()
if(DLT_EVERYTHING)
  # What a pooler of sessions could lose is in the cases of waiters; the long tests run all.
  dlt_add_pooler_conformance(pooler_session_waiters session row --only C13
    "postgresql://u:secret@127.0.0.1:{port}/locks?connect_timeout=30s&op_timeout=10s"
    "postgresql://u:secret@127.0.0.1:{port}/locks?strategy=session&table_prefix=session_&connect_timeout=30s&op_timeout=10s")
endif()
if(DLOCK_LONG_TESTS)
  dlt_add_pooler_conformance(pooler_session_lock session session
    "postgresql://u:secret@127.0.0.1:{port}/locks?strategy=session&connect_timeout=30s&op_timeout=10s")
  dlt_add_pooler_conformance(pooler_session session row
    "postgresql://u:secret@127.0.0.1:{port}/locks?connect_timeout=30s&op_timeout=10s")
endif()
dlt_full_only(conformance_postgresql_pooler_transaction conformance_postgresql_pooler_session_waiters)
