# Can the unit tests see? Each mutant is a test program linked with one defective file of the plugin,
# and names a test that has to fail on it.
include(${PROJECT_SOURCE_DIR}/tests/kit/mutate.cmake)

# dlt_add_memory_mutant(<name> <file> <suite> <test> <original> <mutated>): suite is of
# test_memory_<suite>.c.
function(dlt_add_memory_mutant name file suite test original mutated)
  set(program memory_mutant_${name})
  dlt_mutate(copy ${name} plugins/memory/${file} "${original}" "${mutated}")
  # Instead of the same file in the library: it defines all that this one does.
  add_executable(${program} test_memory_${suite}.c ${copy})
  target_compile_definitions(${program} PRIVATE DLOCK_STATIC)
  target_compile_options(${program} PRIVATE -Wno-unused -Wno-unused-parameter)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests/kit)
  target_link_libraries(${program} PRIVATE
    dlock_flags dlock_criterion dlock_test_kit dlock_memory_hooks)
  if(suite STREQUAL grant)
    target_link_options(${program} PRIVATE ${memory_wrap})
  endif()
  set_target_properties(${program} PROPERTIES EXPORT_COMPILE_COMMANDS OFF) # not to be linted
  add_test(NAME ${program}
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_mutant.sh ${PROJECT_SOURCE_DIR}
      $<TARGET_FILE:${program}> ${suite} ${test})
  set_tests_properties(${program} PROPERTIES TIMEOUT 600 LABELS "unit;meta")
endfunction()

dlt_add_memory_mutant(reader_passes_a_writer lease.c readers
  TRY_a_reader_does_not_pass_a_waiting_writer
  "    memory_entry_append(&name->queue, entry);"
  "    if (entry->mode == DLOCK_SHARED) { entry->next = name->queue; name->queue = entry; }
    else memory_entry_append(&name->queue, entry);")
dlt_add_memory_mutant(readers_exclude_readers queue.c readers
  TRY_1_readers_share_and_exclude_writers
  "if (mode == DLOCK_SHARED && list->mode == DLOCK_SHARED)" "if (mode > DLOCK_SHARED)")
dlt_add_memory_mutant(grants_one_reader queue.c readers
  UNL_1_readers_at_the_head_are_granted_together
  "        head = name->queue;
    }" "        head = NULL;
    }")
dlt_add_memory_mutant(downgrades_nothing renew.c readers
  REN_a_downgrade_lets_the_waiting_readers_in
  "holder->mode = DLOCK_SHARED" "holder->mode = holder->mode")
dlt_add_memory_mutant(breaks_one_reader lease.c readers
  BRK_1_ends_one_reader_or_all
  "        entry = next;" "        entry = refusal == NULL ? NULL : next;")
dlt_add_memory_mutant(barges lease.c queue
  TRY_a_free_name_goes_to_the_first_waiter_whoever_asks
  "    memory_entry_append(&name->queue, entry);"
  "    if ((req->flags & DLOCK_REQ_ENQUEUE) == 0) { entry->next = name->queue; name->queue = entry; }
    else memory_entry_append(&name->queue, entry);")
dlt_add_memory_mutant(grants_to_the_dead store.c queue
  UNL_1_a_dead_waiter_is_passed_over
  "    memory_entry_reap(&name->queue, now_ns);" "")
dlt_add_memory_mutant(tells_an_old_grant watch.c queue
  WAT_4_a_grant_that_ran_out_is_not_delivered
  "entry->expires_ns <= now_ns ||" "")
dlt_add_memory_mutant(grants_the_interrupted watch.c queue
  INT_2_a_grant_after_the_interrupt_is_not
  "!waiter->interrupted || entry->fence <= waiter->interrupt_fence" "1")
dlt_add_memory_mutant(refresh_enqueues lease.c queue
  TRY_only_enqueue_makes_a_place
  "known == NULL && !refresh" "known == NULL")
dlt_add_memory_mutant(leave_keeps_the_grant lease.c queue
  LEA_1_leave_of_a_granted_token_passes_it_on
  "entry->fence != 0 || queued_too" "(entry->fence != 0) != queued_too")
dlt_add_memory_mutant(leave_passes_nothing_on lease.c queue
  LEA_1_leave_of_a_granted_token_passes_it_on
  "    memory_queue_pass_on(store, name, now_ns);
    return mine;" "    if (!queued_too)
        memory_queue_pass_on(store, name, now_ns);
    return mine;")
dlt_add_memory_mutant(grants_too_long queue.c queue
  TRY_1_a_grant_excludes
  "now_ns + head->grant_ms" "now_ns + 2 * head->grant_ms")
dlt_add_memory_mutant(wakes_the_herd queue.c grant
  WAT_1_unlock_wakes_the_next_one_alone
  "memory_waiter_wake(name->waiters, head->token);"
  "for (struct memory_waiter *w = name->waiters; w != NULL; w = w->next)
            (void)pthread_cond_signal(&w->wake);")
dlt_add_memory_mutant(wakes_nobody queue.c grant
  WAT_1_unlock_wakes_all_readers_at_the_head
  "memory_waiter_wake(name->waiters, head->token)" "(void)0")
