# Does the simulation see? Each defect is core, or the simulation's own server, with one rule taken
# away, and that rule of the checker, or of the simulation, has to be found broken within some seeds of
# a profile. What else is broken by the same defect comes before it or after, as seeds have it.
#
# The async driver has to let it be found, too: without DLOCK_LONG_TESTS for the defects in SIM_ASYNC_DEFECTS.
set(SIM_ASYNC_DEFECTS grant_counts_from_reply handoff_keeps_the_fence gives_up_without_leave
  no_least_validity lengthens_past_the_deadline batch_answers_are_mixed_up
  batch_deadlines_are_far_apart)

# The first seed, if it is not 1: of a defect that few seeds find, near one that does.
set(SIM_FIRST_sim_defect_batch_answers_are_mixed_up 600)
set(SIM_FIRST_sim_async_defect_lengthens_past_the_deadline 205)
set(SIM_FIRST_sim_async_defect_FO_1_a_start_is_guarded_for_T_alone 440)
set(SIM_FIRST_sim_async_defect_FO_9_believes_any_message 1470)
set(SIM_FIRST_sim_defect_FO_9_believes_any_message 520)

# dlt_add_sim_defect(<name> <profile> <store> <seeds> <rule> {<file> <original> <mutated>}...)
# NO_<rule>: it is a part of other defects, and alone does not break that rule.
function(dlt_add_sim_defect name profile store seeds rule)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/defects/${name})
  set(sources)
  set(at_path 5)
  while(at_path LESS ARGC) # not as a list: the texts have semicolons
    math(EXPR at_original "${at_path} + 1")
    math(EXPR at_mutated "${at_path} + 2")
    set(path "${ARGV${at_path}}")
    set(original "${ARGV${at_original}}")
    set(mutated "${ARGV${at_mutated}}")
    math(EXPR at_path "${at_path} + 3")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${path})
    get_filename_component(file ${path} NAME)
    if("${out}/${file}" IN_LIST sources)
      file(READ ${out}/${file} text)
    else()
      file(READ ${PROJECT_SOURCE_DIR}/${path} text)
      list(APPEND sources ${out}/${file})
    endif()
    string(FIND "${text}" "${original}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "defect ${name}: ${path} has no \"${original}\"")
    endif()
    string(REPLACE "${original}" "${mutated}" text "${text}")
    file(CONFIGURE OUTPUT ${out}/${file} CONTENT "${text}" @ONLY)
  endwhile()
  # What comes first at linking stands in for the same file of the libraries.
  add_executable(sim_${name} main.c ${sources})
  target_link_libraries(sim_${name} PRIVATE dlock_flags dlock_sim)
  # Some of the defects leave something unused.
  target_compile_options(sim_${name} PRIVATE -Wno-unused -Wno-unused-parameter)
  set_target_properties(sim_${name} PROPERTIES
    EXPORT_COMPILE_COMMANDS OFF # not to be linted
    RUNTIME_OUTPUT_DIRECTORY ${out})
  set(caught --caught ${rule})
  if(rule MATCHES "^NO_(.*)$")
    set(caught --never ${CMAKE_MATCH_1})
  endif()
  foreach(test sim_defect_${name} sim_async_defect_${name})
    if(NOT DEFINED SIM_FIRST_${test})
      set(SIM_FIRST_${test} 1)
    endif()
  endforeach()
  add_test(NAME sim_defect_${name}
    COMMAND sim_${name} ${caught} --profile ${profile} --store ${store}
      --seed ${SIM_FIRST_sim_defect_${name}} --count ${seeds})
  set_tests_properties(sim_defect_${name} PROPERTIES TIMEOUT 600 LABELS "sim;meta")
  if(DLOCK_LONG_TESTS OR name IN_LIST SIM_ASYNC_DEFECTS)
    add_test(NAME sim_async_defect_${name} COMMAND sim_${name} ${caught} --driver async
      --profile ${profile} --store ${store} --seed ${SIM_FIRST_sim_async_defect_${name}} --count ${seeds})
    set_tests_properties(sim_async_defect_${name} PROPERTIES TIMEOUT 600 LABELS "sim;meta")
  endif()
endfunction()

# ---- core ----

dlt_add_sim_defect(no_margin everything any 100 OVERLAP core/hold/lease.c
  "return part_ns > MARGIN_LEAST_NS ? part_ns : MARGIN_LEAST_NS" "return part_ns * 0")
dlt_add_sim_defect(no_least_validity lossy queue 300 C3 core/hold/lease.c
  "return until_ns - now_ns > dl_lease_least_ns(lease_ms)"
  "return until_ns > now_ns || lease_ms < 0"
  core/hold/handle.c "return dl_later(lease_ns, ttl_ns)" "return lease_ns < 0 ? ttl_ns : 0")
dlt_add_sim_defect(grant_counts_from_reply lossy any 100 OVERLAP core/acquire/acquire_fsm.c
  "grant->since_ns != 0 ? grant->since_ns : sent_ns"
  "grant->since_ns != 0 ? grant->since_ns : now_ns")
dlt_add_sim_defect(place_counts_from_the_answer storm queue 100 OVERLAP core/acquire/acquire_fsm.c
  "attempt->entry_base_ns = sent_ns" "attempt->entry_base_ns = attempt->until_ns")
dlt_add_sim_defect(old_grants_count lossy queue 100 OVERLAP
  core/acquire/acquire_fsm.c "grant->fence <= attempt->entry_fence ||" ""
  tests/stress/sim/wait.c "waiter->grant.fence > waiter->seen_fence" "waiter->grant.fence > 0")
dlt_add_sim_defect(gives_up_without_leave calm queue 100 STALLED core/hold/claim.c
  "        claim_dequeue(client, claim, use, deadline_ns, &ignored)" "        (void)session")
dlt_add_sim_defect(one_token_a_handle lossy any 100 OVERLAP core/hold/claim.c
  "memcpy(claim->req.token, token, sizeof claim->req.token)"
  "if (claim->req.token[0] == 0) claim->req.token[0] = 1, memcpy(claim->req.token + 1, token + 1, 15)")
dlt_add_sim_defect(renewal_counts_from_reply lossy poll 100 OVERLAP core/hold/renewal.c
  "dl_lease_valid_until_ns(answer->sent_ns,"
  "dl_lease_valid_until_ns(answer->now_ns,")
dlt_add_sim_defect(renewal_is_not_repeated lossy any 100 RENEWAL core/hold/renewal.c
  "    if (renewal->automatic)
        renewal->at_ns ="
  "    renewal->at_ns = DL_NEVER;
    if (renewal->automatic && now_ns < 0)
        renewal->at_ns =")
dlt_add_sim_defect(asked_renewal_has_all_of_op_timeout failover any 60 RENEWAL core/hold/renewer.c
  "return lock->renewal.automatic ?" "return lock->renewal.automatic && lock->depth > 9 ?")
dlt_add_sim_defect(unknown_renewal_is_enough lossy any 100 TAKEN core/hold/renewal.c
  "bool extended = answer->status == DLOCK_OK;"
  "struct dl_renewal_answer yes = *answer;
    if (yes.status == DLOCK_UNKNOWN) yes.status = DLOCK_OK, yes.lease_ms = renewal->lease_ms;
    answer = &yes;
    bool extended = answer->status == DLOCK_OK;")
dlt_add_sim_defect(due_while_busy_is_forgotten storm queue 60 C14 core/hold/renew_schedule.c
  "if (lock->due.heap_index != 0)" "if (lock->due.heap_index != 0 && lock->depth > 9)")
dlt_add_sim_defect(loss_is_told_again lossy any 100 LOST_TWICE core/hold/held.c
  "    if (lock->reported)
        return;" "")
dlt_add_sim_defect(gone_is_lost_after_unknown lossy any 100 TAKEN core/hold/release_fsm.c
  "    if (status == DLOCK_LOST && (release->gone_is_ok || release->uncertain)) {
        done(release, DLOCK_OK);"
  "    if (status == DLOCK_LOST) {
        done(release, release->gone_is_ok ? DLOCK_OK : DLOCK_LOST);")
dlt_add_sim_defect(handoff_keeps_the_fence calm any 100 FENCE core/acquire/acquire_steps.c
  "claim->fence + claim->handoffs" "claim->fence")
dlt_add_sim_defect(batch_answers_are_mixed_up lossy any 100 OVERLAP core/acquire/try_batch.c
  "exchange.elements[i].status" "exchange.elements[exchange.n - 1 - i].status")
dlt_add_sim_defect(batch_deadlines_are_far_apart lossy any 100 BAT-3 core/hold/unlock.c
  "return a_ns - b_ns <= DL_BATCH_SPREAD_NS / 2 &&" "return a_ns != b_ns - DL_NS_PER_S ||"
)
dlt_add_sim_defect(local_readers_pass_writers calm any 100 OVERTAKEN core/client/name_state.c
  "last->mode == DLOCK_SHARED && last->admitted" "last->queued")
dlt_add_sim_defect(lengthens_past_the_deadline lossy queue 300 DEADLINE core/acquire/acquire_steps.c
  "deadline_ns = dl_acquire_fsm_exchange_until(attempt, now_ns)"
  "deadline_ns = now_ns + attempt->rules.op_timeout_ns")
dlt_add_sim_defect(session_used_again lossy session 100 FAI-1 core/hold/claim.c
  "status == DLOCK_OK || status == DLOCK_BUSY ? DLOCK_OK : DLOCK_UNKNOWN" "DLOCK_OK")
dlt_add_sim_defect(asks_for_any_ttl grid any 20 TTL-1 core/hold/handle.c
  "return dl_client_ttl_ms(lock->client, lock->options->ttl_ms);" "return lock->options->ttl_ms;")
dlt_add_sim_defect(renews_for_any_ttl grid any 20 TTL-1 core/hold/renewer.c
  "req->ttl_ms = dl_client_ttl_ms(lock->client, req->ttl_ms);" "")
dlt_add_sim_defect(run_out_lease_stays tethered any 100 TET-1 core/hold/held.c
  "    if (dl_client_has(lock->client, DLOCK_CAP_TETHERED) ||
        lock->claim->req.ttl_ms == DLOCK_TTL_NONE)
        dl_renew_schedule_must_give_back_locked(lock);" "")
dlt_add_sim_defect(run_out_lease_keeps_others_out tethered any 100 STALLED core/hold/held.c
  "    if (dl_client_has(lock->client, DLOCK_CAP_TETHERED) ||
        lock->claim->req.ttl_ms == DLOCK_TTL_NONE)
        dl_renew_schedule_must_give_back_locked(lock);" ""
  tests/stress/sim/tether.c "    sim_store_each(claim_check);" "")
dlt_add_sim_defect(unlock_leaves_what_ran_out tethered any 100 TET-1 core/hold/unlock.c
  "    if (!lock->reported)
        dl_held_run_out_locked(lock);" "")
dlt_add_sim_defect(released_by_the_plugin_is_lost tethered any 100 TAKEN core/hold/release_fsm.c
  "release->gone_is_ok |= release->tethered;" "")

dlt_add_sim_defect(permit_of_the_first_grant permits any 100 PERMIT core/hold/held.c
  "atomic_store(&lock->permit, grant->permit)"
  "if (lock->permit == 0) atomic_store(&lock->permit, grant->permit)")

dlt_add_sim_defect(sets_in_the_order_of_the_caller sets any 60 ever core/api/set.c
  "    qsort(entries, count, sizeof entries[0], entries_compare);
" "")
dlt_add_sim_defect(set_outlives_a_member sets any 60 C18 core/api/set.c
  "        lost |= state == DLOCK_STATE_LOST;" "        lost |= i == DLOCK_SET_MAX;")
dlt_add_sim_defect(set_keeps_what_it_has sets any 60 C18 core/api/set.c
  "        if (status != DLOCK_OK)
            return give_back(set, count, status, err);" "        if (status != DLOCK_OK)
            return status;")
dlt_add_sim_defect(set_unlock_hides_a_loss sets any 60 C18 core/api/set.c
  "    case DLOCK_LOST:
        return 3;" "    case DLOCK_LOST:
        return 0;")
dlt_add_sim_defect(hands_on_a_lease_that_keeps keep any 100 KEEP core/hold/unlock.c
  "to->options->limit > 1 || lock->keep_ms > 0" "to->options->limit > 1")
dlt_add_sim_defect(keeps_from_the_release_on_too_short keep any 100 KEEP core/hold/claim.c
  "int64_t left_ns = claim->keep_until_ns - now_ns;"
  "int64_t left_ns = (claim->keep_until_ns - now_ns) * 9 / 10;")

dlt_add_sim_defect(hands_on_a_lease_with_data data any 100 DATA core/hold/unlock.c
  "claim->req.data_len > 0 || to->options->data_len > 0" "now_ns < 0")

# ---- the server ----

dlt_add_sim_defect(leave_keeps_the_grant calm queue 100 STALLED tests/stress/sim/store.c
  "    case SIM_LEAVE:
        mine = list_drop(&name->holders, ask->token);" "    case SIM_LEAVE:")
dlt_add_sim_defect(renewal_shortens everything any 100 TAKEN tests/stress/sim/store.c
  "if (expires_ns > claim->expires_ns)" "if (expires_ns > 0)")
dlt_add_sim_defect(renewal_creates everything any 300 TAKEN tests/stress/sim/store.c
  "        answer->status = DLOCK_LOST;
        return;" "        answer->grant.lease_ms = ask->ttl_ms;
        return;")
dlt_add_sim_defect(releases_for_anybody lossy any 100 TAKEN tests/stress/sim/store.c
  "        mine = let_go(name, ask, now_ns);
        answer->status"
  "        mine = name->holders.count > 0;
        if (mine) list_remove(&name->holders, 0);
        answer->status")
dlt_add_sim_defect(readers_pass_writers calm queue 100 OVERTAKEN tests/stress/sim/store.c
  "        claim->fence = 0;
    }"
  "        claim->fence = 0;
        if (ask->mode == DLOCK_SHARED) {
            struct claim reader = *claim;
            memmove(&name->queue.claims[1], &name->queue.claims[0],
                    (name->queue.count - 1) * sizeof reader);
            name->queue.claims[0] = reader;
        }
    }")
dlt_add_sim_defect(fence_stands_still calm any 100 FENCE tests/stress/sim/store.c
  "sim_failover_fence(name->fence + 1 + FENCE_ROOM)" "1 + FENCE_ROOM")
dlt_add_sim_defect(lets_everybody_in calm any 100 OVERLAP tests/stress/sim/store.c
  "mode != DLOCK_SHARED || list->claims[i].ask.mode != DLOCK_SHARED"
  "list->claims[i].expires_ns == 1")

# Core refuses a permit beyond the limit.
dlt_add_sim_defect(one_more_than_the_limit permits any 100 INTERNAL tests/stress/sim/store.c
  "return count >= ask->limit" "return count > ask->limit")
dlt_add_sim_defect(counts_permits permits any 100 PERMIT tests/stress/sim/store.c
  "    while (is_taken(holders, permit))
        permit++;
    return permit;" "    return (uint32_t)holders->count;")
dlt_add_sim_defect(locks_beside_permits permits any 100 OVERLAP tests/stress/sim/process.c
  "options.limit = sim_limit(handle);" "options.limit = sim_chance(500000) ? 1 : sim_limit(handle);"
  tests/stress/sim/store.c
  "    for (size_t i = 0; i < count; i++)
        if (mode" "    for (size_t i = 0; i < count; i++)
        if (list->claims[i].ask.limit > 1) continue; else if (mode")
dlt_add_sim_defect(permits_pass_waiters permits queue 100 OVERTAKEN tests/stress/sim/store.c
  "        claim->fence = 0;
    }"
  "        claim->fence = 0;
        if (ask->limit > 1) {
            struct claim last = *claim;
            memmove(&name->queue.claims[1], &name->queue.claims[0],
                    (name->queue.count - 1) * sizeof last);
            name->queue.claims[0] = last;
        }
    }")

dlt_add_sim_defect(forgets_half_of_keep_ms keep any 100 KEEP tests/stress/sim/store.c
  "now_ns + ask->keep_ms * SIM_MS" "now_ns + ask->keep_ms * SIM_MS / 2")
dlt_add_sim_defect(keeps_another_permit keep any 100 KEEP tests/stress/sim/store.c
  "    claim->kept = true;" "    claim->kept = true;
    claim->permit = 63;")

dlt_add_sim_defect(data_of_the_holder_before data any 100 DATA tests/stress/sim/store.c
  "        claim->permit = permit;
        claim->fence = fence_next(name);"
  "        static uint32_t before[SIM_NAMES];
        const uint32_t data = before[claim->ask.name];
        before[claim->ask.name] = claim->ask.data;
        if (data != 0)
            claim->ask.data = data;
        claim->permit = permit;
        claim->fence = fence_next(name);")

# ---- the failover guard: rules taken away; docs/test-results.md says what sees the others ----

set(SIM_GUARD tests/stress/sim/failover_guard.c)
dlt_add_sim_defect(FO_1_grants_as_soon_as_it_answers_yours failover any 60 OVERLAP ${SIM_GUARD}
  "grants_ns = longest_ns + old_ns;" "grants_ns = yours_ns;")
dlt_add_sim_defect(FO_1_a_start_is_guarded_for_T_alone failover any 100 OVERLAP
  tests/stress/sim/failover.c
  "server->id = ++last_id;" "server->id = ++last_id + (server->follows == NO_SERVER ? UINT64_C(1) << 40 : 0);"
  ${SIM_GUARD} "grants = refuse(server, &ask->seen, grants_ns, &left_ns);"
  "grants = refuse(server, &ask->seen, server->id >> 40 != 0 ? longest_ns : grants_ns, &left_ns);")
dlt_add_sim_defect(FO_2_answers_yours_at_once failover any 300 OVERLAP ${SIM_GUARD}
  "yours_ns = old_ns + differ_ns;" "yours_ns = 0;")
dlt_add_sim_defect(FO_3_forgets_that_replicas_left failover any 60 OVERLAP ${SIM_GUARD}
  "return server->term.joined == server->joins || to_ns - from_ns <= lasts_ns;" "return true;")
dlt_add_sim_defect(FO_4_leases_are_longer failover any 60 OVERLAP ${SIM_GUARD}
  "longest_ns = ttl_ns;" "longest_ns = ttl_ns / 8;")
dlt_add_sim_defect(FO_5_believes_a_record_in_the_data failover any 60 OVERLAP ${SIM_GUARD}
  "known = term->id == server->id" "known = term->id != 0")
dlt_add_sim_defect(FO_6_the_server_does_not_look failover any 60 OVERLAP ${SIM_GUARD}
  "if (server->id != seen->id)
        return SIM_OTHER;
    if (since_ns == 0 ||
        !(look_confirmed(server, &seen->views[0]) || look_confirmed(server, &seen->views[1])))"
  "if (since_ns == 0)")
dlt_add_sim_defect(FO_8_fences_without_the_clock failover queue 60 FENCE ${SIM_GUARD}
  "sim_fails_over() && clock_us > next" "clock_us == 1")

# FO-9 keeps what others keep as well: a part of those has to go with it, which alone lets nothing through.
# A master queues clients as soon as it is promoted. Else it does so when all that the master before
# has granted is over, and for new tokens.
set(SIM_QUEUES_AT_ONCE tests/stress/sim/store.c "if (!sim_failover_admit(ask, answer))"
  "if (!sim_failover_admit(ask, answer) &&
        !(answer->refusal == SIM_YOUNG && ask->verb == SIM_TRY &&
          list_find(&name->holders, ask->token) == NULL))")
dlt_add_sim_defect(FO_9_queues_at_once failover queue 40 NO_OVERLAP ${SIM_QUEUES_AT_ONCE})
dlt_add_sim_defect(FO_9_believes_any_message failover queue 60 OVERLAP ${SIM_QUEUES_AT_ONCE}
  tests/stress/sim/backend.c "waiter->granted_by != answer->promotion" "false")

# ---- the plugin ----

dlt_add_sim_defect(leftovers_stay tethered any 100 TET-1 tests/stress/sim/tether.c
  "    process->leftover_count++;" "")

# A defect that breaks another rule than the one that is named has not been caught.
add_test(NAME sim_caught_by_another_rule COMMAND sh -c
  "line=$(\"$0\" --caught \"$1\" --profile calm | sed -n 's/^not ok 1 - .* something else .*/ok 1 - not caught/p')
  echo \"$line\"; echo 1..1; [ -n \"$line\" ]"
  $<TARGET_FILE:sim_lets_everybody_in> FENCE)
set_tests_properties(sim_caught_by_another_rule PROPERTIES TIMEOUT 600 LABELS "sim;meta")
