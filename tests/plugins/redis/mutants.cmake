# Can the tests see an answer that goes to the wrong thread? Each mutant is test_redis_share with a
# defective file (pipeline.c), and names a test that has to fail on it.
include(${PROJECT_SOURCE_DIR}/tests/kit/mutate.cmake)

# dlt_add_redis_mutant(<name> <test> <original> <mutated> [<file> [<test program>]])
function(dlt_add_redis_mutant name test original mutated)
  set(program redis_mutant_${name})
  set(file pipeline.c)
  set(source test_redis_share.c)
  if(ARGC GREATER 4)
    set(file ${ARGV4})
  endif()
  if(ARGC GREATER 5)
    set(source ${ARGV5})
  endif()
  dlt_mutate(copy ${name} plugins/redis/${file} "${original}" "${mutated}")
  # Instead of the same file in the library: it defines all that this one does.
  add_executable(${program} ${source} ${copy})
  target_compile_definitions(${program} PRIVATE DLOCK_STATIC)
  target_compile_options(${program} PRIVATE -Wno-unused -Wno-unused-parameter)
  target_link_libraries(${program} PRIVATE dlock_flags dlock_criterion dlock_redis_kit dlock_faults)
  set_target_properties(${program} PROPERTIES EXPORT_COMPILE_COMMANDS OFF) # not to be linted
  add_test(NAME ${program}
    COMMAND ${PROJECT_SOURCE_DIR}/tests/plugins/memory/test_mutant.sh ${PROJECT_SOURCE_DIR}
      $<TARGET_FILE:${program}> share ${test})
  set_tests_properties(${program} PROPERTIES TIMEOUT 600 LABELS "redis;meta")
endfunction()

dlt_add_redis_mutant(answers_the_wrong_thread
  C1_C9_each_gets_its_own_answer_on_one_connection
  "    if (pipeline->last != NULL)
        pipeline->last->next = exchange;
    else
        pipeline->first = exchange;
    pipeline->last = exchange;"
  "    exchange->next = pipeline->first;
    pipeline->first = exchange;
    if (pipeline->last == NULL)
        pipeline->last = exchange;")
dlt_add_redis_mutant(answers_the_next_of_who_gave_up
  C9_the_reader_gives_up_and_its_answer_is_nobodys
  "exchange, exchange->skip + 1)" "exchange, exchange->skip)")
dlt_add_redis_mutant(asks_on_after_who_gave_up
  C9_the_last_gives_up_and_its_answer_is_nobodys
  "        atomic_store(&pipeline->dead, true);
        if (exchange->next != NULL)" "        if (exchange->next != NULL)")
dlt_add_redis_mutant(keeps_the_lead
  C9_the_reader_gives_up_and_its_answer_is_nobodys
  "tell(pipeline->last, LEADS, wakes)" "(void)wakes")
dlt_add_redis_mutant(forgets_the_rest
  C1_what_does_not_fit_is_sent_later_and_in_order
  "fds[0].events |= POLLOUT" "timeout.tv_sec = 10" pipeline.c test_redis_backlog.c)
dlt_add_redis_mutant(forgets_how_long_an_answer_may_be
  C9_a_long_answer_that_is_given_up_is_nobodys
  "size_t longest = answer_max(gone);" "size_t longest = 0 * answer_max(gone);")
dlt_add_redis_mutant(sends_after_the_deadline
  C8_a_question_without_time_is_not_sent
  "if (now(pool) >= exchange->deadline_ns)" "if (now(pool) < 0)" call.c)
