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

dlt_add_memory_mutant(tells_an_old_grant watch.c queue
  WAT_4_a_grant_that_ran_out_is_not_delivered
  "entry->expires_ns <= now_ns ||" "")
dlt_add_memory_mutant(grants_the_interrupted watch.c queue
  INT_2_a_grant_after_the_interrupt_is_not
  "!waiter->interrupted || entry->fence <= waiter->interrupt_fence" "1")
dlt_add_memory_mutant(leave_passes_nothing_on lease.c queue
  DEQ_1_leave_of_a_granted_token_passes_it_on
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
