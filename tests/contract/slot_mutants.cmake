# Can the cases of dlock-slot-check see? Defects of the memory plugin.

# dlt_add_slot_mutant(<name> <file> <case> <original> <mutated>)
function(dlt_add_slot_mutant name file case original mutated)
  dlt_plant(memory ${name} ${file} "${original}" "${mutated}")
  dlt_test_mutant(${name} $<TARGET_FILE:dlock-slot-check> ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name} ${case}
    memory memory://mutant)
endfunction()

dlt_add_slot_mutant(reader_passes_a_writer lease.c reader_passes_no_writer
  "    memory_entry_append(&name->queue, entry);"
  "    if (entry->mode == DLOCK_SHARED) { entry->next = name->queue; name->queue = entry; }
    else memory_entry_append(&name->queue, entry);")
dlt_add_slot_mutant(readers_exclude_readers queue.c readers_share
  "if (mode == DLOCK_SHARED && list->mode == DLOCK_SHARED)" "if (mode > DLOCK_SHARED)")
dlt_add_slot_mutant(grants_one_reader queue.c readers_are_granted_together
  "        head = name->queue;
    }" "        head = NULL;
    }")
dlt_add_slot_mutant(downgrades_nothing lease.c downgrade_wakes_readers
  "holder->mode = DLOCK_SHARED" "holder->mode = holder->mode")
dlt_add_slot_mutant(breaks_one_reader lease.c break_one_reader_or_all
  "        entry = next;" "        entry = refusal == NULL ? NULL : next;")
dlt_add_slot_mutant(barges lease.c dead_holder_is_followed
  "    memory_entry_append(&name->queue, entry);"
  "    if ((req->flags & DLOCK_REQ_ENQUEUE) == 0) { entry->next = name->queue; name->queue = entry; }
    else memory_entry_append(&name->queue, entry);")
dlt_add_slot_mutant(grants_to_the_dead store.c entry_ends_by_itself
  "    entries_reap(&name->queue, now_ns);" "")
dlt_add_slot_mutant(refresh_enqueues lease.c refresh_never_enqueues
  "known == NULL && !refresh" "known == NULL")
dlt_add_slot_mutant(leave_keeps_the_grant lease.c dequeue_passes_on
  "entry->fence != 0 || queued_too" "(entry->fence != 0) != queued_too")
