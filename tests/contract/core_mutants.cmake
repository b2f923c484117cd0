# The same for core: dlock-conformance, linked with core as it is but for one file.
#
# dlt_add_core_mutant(<name> <file> <case> <original> <mutated> [<plugin-dir> <uri>])
function(dlt_add_core_mutant name file case original mutated)
  set(plugin_dir ${PROJECT_BINARY_DIR}/plugins)
  set(uri memory://mutant)
  if(ARGC GREATER 5)
    set(plugin_dir ${ARGV5})
    set(uri ${ARGV6})
  endif()
  set(out ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name})
  dlt_mutate(copy ${name} core/${file} "${original}" "${mutated}")
  add_executable(mutant_${name} program.c ${copy}) # before the library's, which is left out
  target_compile_definitions(mutant_${name} PRIVATE DLOCK_BUILDING_LIBRARY)
  target_compile_options(mutant_${name} PRIVATE -Wno-unused -Wno-unused-parameter)
  target_link_libraries(mutant_${name} PRIVATE
    dlock_flags dlt_kit dlt_cases dlock_history_objects dlock_testing Threads::Threads)
  set_target_properties(mutant_${name} PROPERTIES
    EXPORT_COMPILE_COMMANDS OFF # not to be linted
    RUNTIME_OUTPUT_DIRECTORY ${out})
  dlt_test_mutant(${name} $<TARGET_FILE:mutant_${name}> ${plugin_dir} ${case} ${uri})
endfunction()

dlt_add_core_mutant(lets_threads_jump_the_line client/name_state.c local_line_is_fifo
  "    if (queue->last != NULL)
        queue->last->next = waiter;
    else
        queue->first = waiter;
    queue->last = waiter;"
  "    if (queue->first != queue->last) {
        waiter->prev = queue->first;
        waiter->next = queue->first->next;
        waiter->next->prev = waiter;
        queue->first->next = waiter;
        return;
    }
    if (queue->last != NULL)
        queue->last->next = waiter;
    else
        queue->first = waiter;
    queue->last = waiter;")
dlt_add_core_mutant(lets_threads_try_past_the_line acquire/local_waiter.c local_line_holds_by_itself
  "return dl_local_queue_open_to(queue, mode) ? DLOCK_OK : DLOCK_BUSY;" "return DLOCK_OK;")
dlt_add_core_mutant(lets_local_readers_pass client/name_state.c shared_in_one_client
  "last->mode == DLOCK_SHARED && last->admitted" "last != NULL")
dlt_add_core_mutant(hands_on_the_same_fence hold/unlock.c handoff_fences_rise
  "    claim->handoffs++;" "    claim->handoffs += 0;")
dlt_add_core_mutant(hands_on_though_told_not_to hold/unlock.c handoff_lets_others_in
  "if (input->handoffs >= input->handoffs_most)" "if (input->handoffs_most > 1000)")
dlt_add_core_mutant(hands_on_for_long_in_a_crowd hold/unlock.c handoff_lets_others_in
  "input->contended_since_ns != DL_NEVER &&" "input->contended_since_ns == 0 &&")
dlt_add_core_mutant(hands_on_another_ttl hold/unlock.c handoff_between_ttls
  "claim->req.ttl_ms != dl_handle_ttl_ms(to) ||" "claim->req.ttl_ms == 0 ||")
dlt_add_core_mutant(renews_unasked hold/renewal.c handoff_is_kept_as_asked
  "if (!renewal->automatic ||" "if (renewal->lease_ms < 0 ||")
dlt_add_core_mutant(reports_a_loss_to_the_giver hold/unlock.c handoff_then_loss
  "    dl_held_end_locked(lock, now_ns);
    claims_swap(lock, to);"
  "    dl_held_lose_locked(lock, DLOCK_REASON_TAKEN, now_ns);
    claims_swap(lock, to);")
dlt_add_core_mutant(does_not_count hold/unlock.c recursive_counts
  "if (lock->depth > 0)" "if (lock->depth > 1000)")
dlt_add_core_mutant(acknowledges_all_at_once hold/unlock.c recursive_loss
  "    if (whole)" "    if (whole || state == DLOCK_STATE_LOST)")
dlt_add_core_mutant(upgrades hold/held.c recursive_modes
  "lock->claim->req.mode == DLOCK_SHARED && mode == DLOCK_EXCLUSIVE" "lock->depth > 1000")
dlt_add_core_mutant(downgrades_what_others_rely_on hold/renewer.c recursive_modes
  "if (lock->depth > 0)" "if (lock->depth > 1000)")
dlt_add_core_mutant(adopts_without_the_fence api/adopt.c adopt_by_token
  "grant.fence = found.fence;" "grant.fence = 0;")
dlt_add_core_mutant(hands_on_the_data_of_another hold/unlock.c data_arrive_with_the_grant
  "claim->req.data_len > 0 || to->options->data_len > 0" "false")
dlt_add_core_mutant(adopts_beside_a_lock api/adopt.c adopt_or_a_refusal
  "lock->phase != DL_PHASE_IDLE || state != DLOCK_STATE_FREE" "lock->phase != DL_PHASE_IDLE")
dlt_add_core_mutant(leaves_its_place_behind acquire/acquire_fsm.c teardown_leaves_the_queue
  "else if (attempt->enqueued)" "else if (attempt->deadline_ns < 0)")
dlt_add_core_mutant(ends_in_a_callback api/handle.c teardown_in_a_callback
  "self = dl_renewer_is_self_locked(client);" "self = false;")
dlt_add_core_mutant(ends_beneath_a_callback api/handle.c teardown_awaits_a_callback
  "lock->in_callback ||" "")
if(TARGET dlt_tethered)
  foreach(case tethered_ends_with_the_claim tethered_ends_at_max_hold)
    dlt_add_core_mutant(keeps_what_ran_out_${case} hold/held.c ${case}
      "dl_client_has(lock->client, DLOCK_CAP_TETHERED)" "lock->depth > 1000"
      $<TARGET_FILE_DIR:dlt_tethered> tethered://mutant)
  endforeach()
  dlt_add_core_mutant(adopts_from_a_session api/adopt.c adopt_or_a_refusal
    "dl_client_has(lock->client, DLOCK_CAP_TETHERED)" "lock->depth > 1000"
    $<TARGET_FILE_DIR:dlt_tethered> tethered://mutant)
endif()
dlt_add_core_mutant(forgets_an_operation_before_its_done_is_taken hold/operation.c async_one_at_a_time
  "if (!dl_operation_under_way(operation) ||" "if (!dl_operation_in_progress(operation) ||")
dlt_add_core_mutant(loses_an_early_cancel acquire/acquire.c async_cancel
  "lock->waiting == NULL && !dl_operation_under_way(lock->operation)" "false")
