# Can the tests see an answer that goes to the wrong thread? Each mutant is test_redis_share with a
# defective file (link/pipeline.c), and names a test that has to fail on it.
include(${PROJECT_SOURCE_DIR}/tests/kit/mutate.cmake)

# dlt_add_redis_mutant(<name> <test> <original> <mutated> [<file> [<test program>]])
function(dlt_add_redis_mutant name test original mutated)
  set(program redis_mutant_${name})
  set(file link/pipeline.c)
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
        pipeline->last = exchange;" link/pipeline.c)
dlt_add_redis_mutant(answers_the_next_of_who_gave_up
  C9_the_reader_gives_up_and_its_answer_is_nobodys
  "exchange, exchange->skip + 1)" "exchange, exchange->skip)" link/pipeline.c)
dlt_add_redis_mutant(asks_on_after_who_gave_up
  C9_the_last_gives_up_and_its_answer_is_nobodys
  "        atomic_store(&pipeline->dead, true);
        if (exchange->next != NULL)" "        if (exchange->next != NULL)" link/pipeline.c)
dlt_add_redis_mutant(keeps_the_lead
  C9_the_reader_gives_up_and_its_answer_is_nobodys
  "tell(pipeline->last, LEADS, wakes)" "(void)wakes")
dlt_add_redis_mutant(forgets_the_rest
  C1_what_does_not_fit_is_sent_later_and_in_order
  "fds[0].events |= POLLOUT" "timeout.tv_sec = 10" link/pipeline.c test_redis_backlog.c)
dlt_add_redis_mutant(forgets_how_long_an_answer_may_be
  C9_a_long_answer_that_is_given_up_is_nobodys
  "size_t longest = answer_max(gone);"
  "size_t longest = 0 * answer_max(gone);" link/pipeline.c)
dlt_add_redis_mutant(sends_after_the_deadline
  C8_a_question_without_time_is_not_sent
  "if (now(pool) >= exchange->deadline_ns)" "if (now(pool) < 0)" call/call.c)

# Is each rule of the failover guard needed, and would a test notice its absence? A mutant for each
# rule (docs/adr/0034-redis-failover-guard.md); they wait most of the time, so one test runs all at once.
set(DLT_GUARD_MUTANTS)

# dlt_guard_mutant(<name> <test program> <file> <original> <mutated>): the program with a C file, or a
# script, that has a defect.
function(dlt_guard_mutant name whole file original mutated)
  set(program redis_mutant_${name})
  dlt_mutate(copy ${name} plugins/redis/${file} "${original}" "${mutated}")
  if(file MATCHES "\\.lua$")
    set(scripts ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name}/lua)
    file(COPY ${PROJECT_SOURCE_DIR}/plugins/redis/lua DESTINATION ${scripts} FILES_MATCHING PATTERN "*.lua")
    # COPY would leave a file of the same second alone.
    file(COPY_FILE ${copy} ${scripts}/${file})
    set(embed ${PROJECT_SOURCE_DIR}/plugins/resp/embed.cmake)
    get_property(parts GLOBAL PROPERTY DLOCK_REDIS_SCRIPTS)
    set(out ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name}/scripts.c)
    file(GLOB all ${PROJECT_SOURCE_DIR}/plugins/redis/lua/*.lua)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${all})
    add_custom_command(OUTPUT ${out}
      COMMAND ${CMAKE_COMMAND} -DDIR=${scripts}/lua -DOUT=${out} -DPREFIX=redis "-DSCRIPTS=${parts}" -P ${embed}
      DEPENDS ${copy} ${all} ${embed} VERBATIM)
    set(copy ${out})
  endif()
  set_property(GLOBAL PROPERTY DLT_GUARD_COPY_${name} ${copy})
  add_executable(${program} $<TARGET_OBJECTS:${whole}> ${copy})
  target_compile_definitions(${program} PRIVATE DLOCK_STATIC)
  target_compile_options(${program} PRIVATE -Wno-unused -Wno-unused-parameter)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/plugins/redis)
  target_link_libraries(${program} PRIVATE dlock_flags dlock_criterion dlock_redis_kit dlock_faults)
  set_target_properties(${program} PROPERTIES EXPORT_COMPILE_COMMANDS OFF) # not to be linted
endfunction()

# dlt_add_guard_mutant(<name> <test> <file> <original> <mutated>)
function(dlt_add_guard_mutant name test file original mutated)
  dlt_guard_mutant(${name} test_redis_promoted ${file} "${original}" "${mutated}")
  set_property(GLOBAL APPEND PROPERTY DLT_GUARD_SEEN ${name})
  set(DLT_GUARD_MUTANTS ${DLT_GUARD_MUTANTS} $<TARGET_FILE:redis_mutant_${name}>=${test} PARENT_SCOPE)
endfunction()

dlt_add_guard_mutant(F1_grants_as_soon_as_it_answers_yours
  F1_F2_a_promoted_master_says_yours_after_D_and_S_and_grants_after_T_and_D
  guard/view.c "guard->grants_ms = longest_ms + lasts_ms;" "guard->grants_ms = guard->yours_ms;")
dlt_add_guard_mutant(F1_passes_on_at_once F1_a_promoted_master_passes_nothing_on
  lua/release.lua "if guard.refuse_grants() then" "if false then")
dlt_add_guard_mutant(F2_answers_yours_at_once
  F1_F2_a_promoted_master_says_yours_after_D_and_S_and_grants_after_T_and_D
  guard/view.c "guard->yours_ms = lasts_ms + CLOCKS_DIFFER_MS;" "guard->yours_ms = 0;")
dlt_add_guard_mutant(F3_a_look_counts_for_ever
  F3_a_master_that_stood_still_executes_nothing_of_what_waited
  lua/guard.lua "or age > tonumber(lasts) then" "then")
dlt_add_guard_mutant(F4_takes_any_ttl F4_no_lease_is_longer_than_T
  lease.c "session->config.restart_guard_ms" "0")
dlt_add_guard_mutant(F4_renews_for_any_time F4_no_lease_is_longer_than_T
  renew.c "session->config.restart_guard_ms" "0")
dlt_add_guard_mutant(F3_forgets_that_replicas_left F3_an_old_master_that_is_followed_again_begins_anew
  lua/view.lua "return joined == joins or to - from <= lasts" "return true")
dlt_add_guard_mutant(F5_believes_a_record_in_the_data F5_each_promotion_has_a_guard_of_its_own
  lua/view.lua "if known ~= id then" "if not known then")
dlt_add_guard_mutant(F5_fewer_replicas_are_enough F5_a_term_of_fewer_replicas_is_none
  lua/view.lua "if needed > before or lower then" "if lower then")
dlt_add_guard_mutant(F6_the_script_does_not_look
  F3_F6_an_old_master_without_replicas_answers_nothing_after_D
  call/call.c "guarded = pipeline->guard->on;" "guarded = false;")
dlt_add_guard_mutant(F6_the_script_for_many_names_does_not_look
  F3_F6_an_old_master_without_replicas_answers_nothing_after_D
  call/call.c "        call->with_guard = &redis_scripts[REDIS_SCRIPT_GUARDED_ACQUIRE_MANY];" "        call->with_guard = NULL;")
dlt_add_guard_mutant(F7_a_start_is_guarded_for_T_alone
  F7_a_master_that_was_started_grants_nothing_for_T_and_D
  guard/view.c "guard->grants_ms = longest_ms + lasts_ms;" "guard->grants_ms = longest_ms;")
dlt_add_guard_mutant(F8_counts_only
  F1_F2_a_promoted_master_says_yours_after_D_and_S_and_grants_after_T_and_D
  lua/fence.lua "if ahead <= 0 then" "if false then")
dlt_add_guard_mutant(F9_believes_any_message F9_a_message_of_another_promotion_is_no_grant
  waiter.c "strcmp(promotion, waiter->queued_by) == 0" "true")
dlt_add_guard_mutant(F10_adopts_what_was_unlocked F10_a_token_that_was_unlocked_is_not_adopted
  lua/renew.lua "ARGV[3] == 'A' and" "false and")

add_test(NAME redis_guard_mutants COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/guard_mutants.sh
  ${PROJECT_SOURCE_DIR} failover ${DLT_GUARD_MUTANTS})
set_tests_properties(redis_guard_mutants PROPERTIES TIMEOUT 600 LABELS "redis;meta")

# The same for the rules of a cluster (docs/adr/0040-the-failover-guard-in-a-cluster.md). ASK has none:
# the look and the call both refuse.
set(DLT_CLUSTER_MUTANTS)

# dlt_add_cluster_mutant(<name> <case of test_redis_cluster_guard> <clause> <file> <original> <mutated>)
function(dlt_add_cluster_mutant name case clause file original mutated)
  dlt_guard_mutant(${name} test_redis_cluster_guard ${file} "${original}" "${mutated}")
  set_property(GLOBAL APPEND PROPERTY DLT_GUARD_SEEN ${name})
  set(DLT_CLUSTER_MUTANTS ${DLT_CLUSTER_MUTANTS} $<TARGET_FILE:redis_mutant_${name}>=${case}=${clause} PARENT_SCOPE)
endfunction()

dlt_add_cluster_mutant(cluster_F2_answers_yours_at_once
  F1_F2_a_promoted_master_says_yours_after_D_and_S_and_grants_after_T_and_D F2
  guard/view.c "guard->yours_ms = lasts_ms + CLOCKS_DIFFER_MS;" "guard->yours_ms = 0;")
dlt_add_cluster_mutant(cluster_F3_a_look_counts_for_ever
  F3_a_master_that_stood_still_executes_nothing_of_what_waited F3
  lua/guard.lua "or age > tonumber(lasts) then" "then")
dlt_add_cluster_mutant(FO_12_forgets_when_a_slot_came FO_12_a_slot_that_moves_has_a_guard_of_its_own FO-12
  lua/owned.lua "not migrates and range[3] or moment" "not migrates and range[3] or 0")
dlt_add_cluster_mutant(FO_12_believes_a_look_of_before FO_12_a_look_of_before_knows_nothing_of_the_slot FO-12
  guard/view.c "if (there_us < 0 || guard->since_us == 0)" "if (guard->since_us == 0)")
dlt_add_cluster_mutant(FO_12_forgets_the_epoch FO_12_a_slot_that_went_away_and_came_back_unseen FO-12
  lua/owned.lua "whose == id and (is_recent or before == epoch)" "whose == id")
dlt_add_cluster_mutant(FO_12_a_slot_that_leaves_is_old FO_12_a_move_that_is_taken_back_has_lost_the_keys FO-12
  lua/owned.lua "was_here and not migrates and range[3]" "was_here and range[3]")

dlt_add_cluster_mutant(cluster_ends_renewals_behind_a_name_that_moves
  C5_a_name_that_moves_delays_no_renewal_of_others C5
  renew.c "call->outcome.of_name ||
           call->outcome.redirect.kind != REDIS_REDIRECT_NONE || call->asking" "false")
dlt_add_cluster_mutant(cluster_ends_renewals_behind_a_slot_that_came
  C5_a_slot_that_came_delays_no_renewal_of_others C5
  renew.c "call->outcome.of_name ||" "")

add_test(NAME redis_cluster_mutants COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cluster_mutants.sh
  ${PROJECT_SOURCE_DIR} ${DLT_CLUSTER_MUTANTS})
set_tests_properties(redis_cluster_mutants PROPERTIES TIMEOUT 600 LABELS "redis;meta")

# A release without a look that counts, and one that keeps outside of the guard: test_redis_terms.
dlt_guard_mutant(releases_without_a_look test_redis_terms
  call/call.c "if (redis_view_expired(pipeline->guard, now_ns))" "if (false)")
dlt_guard_mutant(FO_11_keeps_outside_of_the_guard test_redis_terms lua/keep.lua "if refusal then" "if false then")
add_test(NAME redis_terms_mutants COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/guard_mutants.sh ${PROJECT_SOURCE_DIR} terms
  $<TARGET_FILE:redis_mutant_releases_without_a_look>=a_release_after_a_long_time_passes_the_name_on
  $<TARGET_FILE:redis_mutant_FO_11_keeps_outside_of_the_guard>=FO_11_an_old_master_keeps_nothing)
set_tests_properties(redis_terms_mutants PROPERTIES TIMEOUT 600 LABELS "redis;meta")

# Scripts that do not look at their server, and a client that does not look at its settings: test_redis_changed.
dlt_guard_mutant(grants_at_another_server test_redis_changed lua/acquire.lua "if not is_same then" "if false then")
dlt_guard_mutant(passes_on_at_another_server test_redis_changed lua/release.lua "if not is_same then" "if false then")
dlt_guard_mutant(takes_a_backup_for_a_replica test_redis_changed lua/same.lua "== copies" "== 0")
dlt_guard_mutant(checks_the_settings_once test_redis_changed
  call/call.c "if (is_due(&pipeline->settings_ns, now_ns, SETTINGS_LAST_NS))" "if (false)")
add_test(NAME redis_changed_mutants COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/guard_mutants.sh ${PROJECT_SOURCE_DIR} changed
  $<TARGET_FILE:redis_mutant_grants_at_another_server>=C1_a_restart_that_a_proxy_hides_has_its_guard
  $<TARGET_FILE:redis_mutant_passes_on_at_another_server>=C1_a_release_at_another_server_passes_nothing_on
  $<TARGET_FILE:redis_mutant_takes_a_backup_for_a_replica>=C8_a_backup_is_no_replica
  $<TARGET_FILE:redis_mutant_checks_the_settings_once>=C16_durability_that_a_setting_ends_is_gone)
set_tests_properties(redis_changed_mutants PROPERTIES TIMEOUT 600 LABELS "redis;meta")

# The same defects as plugins, for `dlock-torture --guard-rule N off`: guard-rules/N/dlock_redis.so in the
# build tree lacks rule FO-N. They are never installed, and the plugin that is has no such switch. What such a plugin lacks,
# a test has to see by itself: a run of the torture may miss it.
#
# dlt_guard_plugin(<rule> <mutant of a C file, or of a script>...)
function(dlt_guard_plugin rule)
  set(objects $<TARGET_OBJECTS:dlock_plugin_redis_objects>)
  set(copies)
  get_property(seen GLOBAL PROPERTY DLT_GUARD_SEEN)
  foreach(name IN LISTS ARGN)
    if(NOT name IN_LIST seen)
      message(FATAL_ERROR "guard-rules/${rule}: no test has to see ${name}")
    endif()
    get_property(copy GLOBAL PROPERTY DLT_GUARD_COPY_${name})
    get_filename_component(file ${copy} NAME)
    string(REPLACE "." "[.]" file ${file})
    set(objects $<FILTER:${objects},EXCLUDE,/[a-z_]*${file}[.]o$>)
    list(APPEND copies ${copy})
  endforeach()
  set(target redis_without_FO_${rule})
  add_library(${target} MODULE ${PROJECT_SOURCE_DIR}/plugins/redis/plugin.c ${copies} ${objects})
  target_compile_options(${target} PRIVATE -Wno-unused -Wno-unused-parameter)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/plugins/redis
    ${PROJECT_SOURCE_DIR}/plugins)
  target_link_libraries(${target} PRIVATE dlock_flags dlock_lib dlock_resp)
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME dlock_redis EXPORT_COMPILE_COMMANDS OFF
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/guard-rules/${rule})
  add_custom_command(TARGET ${target} POST_BUILD COMMAND chmod go-w $<TARGET_FILE:${target}>
    $<TARGET_FILE_DIR:${target}> VERBATIM)
endfunction()

dlt_guard_plugin(1 F1_grants_as_soon_as_it_answers_yours F1_passes_on_at_once)
dlt_guard_plugin(2 F2_answers_yours_at_once)
dlt_guard_plugin(3 F3_a_look_counts_for_ever)
dlt_guard_plugin(4 F4_takes_any_ttl F4_renews_for_any_time)
dlt_guard_plugin(5 F5_believes_a_record_in_the_data)
dlt_guard_plugin(6 F6_the_script_does_not_look)
dlt_guard_plugin(7 F7_a_start_is_guarded_for_T_alone)
dlt_guard_plugin(8 F8_counts_only)
dlt_guard_plugin(9 F9_believes_any_message)
dlt_guard_plugin(12 FO_12_forgets_when_a_slot_came)
