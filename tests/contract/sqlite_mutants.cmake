# The same for the sqlite plugin: what only several processes can see.
#
find_package(SQLite3 3.37 REQUIRED) # imported targets are of one folder

# dlt_add_sqlite_mutant(<name> <file> <case> <original> <mutated>)
function(dlt_add_sqlite_mutant name file case original mutated)
  dlt_add_plugin_mutant(sqlite sqlite://{tmp}/locks.db ${name} ${file} ${case}
    "${original}" "${mutated}")
endfunction()

dlt_add_sqlite_mutant(grants_to_the_stopped_for_long queue.c queue_with_the_stopped
  ".lease_ns = head->lease_ns," ".lease_ns = head->lease_ns * 5,")
dlt_add_sqlite_mutant(keeps_dead_readers queue.c shared_with_the_dead
  "rc = reap(name, SQ_READERS_COUNT, SQ_READERS_REAP, &readers);"
  "{
        rc = sqlite_name_count(name, SQ_READERS_COUNT, &readers);
        readers.alive = readers.all;
    }")
dlt_add_sqlite_mutant(forgets_to_wake_another_process queue.c wait_ends_by_unlock_elsewhere
  "sqlite_wake_file_add(&name->session->db.wake_set, head->token, sizeof head->token);" "{ }")
dlt_add_sqlite_mutant(lets_a_writer_in_beside_readers name.c race_of_processes
  "name->readers == 0 ||" "name->readers >= 0 ||")
dlt_add_sqlite_mutant(forgets_the_order layout.c queue_is_fifo
  "\" ORDER BY place LIMIT 1\"" "\" ORDER BY token LIMIT 1\"")
dlt_add_sqlite_mutant(forgets_readers_of_other_processes lease.c shared_excludes_exclusive
  "sqlite_name_is_open_to(name, mode)" "!name->held")
