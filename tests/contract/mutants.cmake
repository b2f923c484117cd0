# Can the cases see? Each mutant is a plugin with one planted defect, and names a case that has to
# fail on it.
include(${PROJECT_SOURCE_DIR}/tests/kit/mutate.cmake)

# dlt_test_mutant(<name> <program> <plugin-dir> <case> [<plugin>] <uri>)
function(dlt_test_mutant name program plugin_dir case)
  add_test(NAME mutant_${name}
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_mutant.sh ${PROJECT_SOURCE_DIR}
      ${program} ${plugin_dir} ${case} ${name} ${ARGN})
  set_tests_properties(mutant_${name} PROPERTIES TIMEOUT 600 LABELS "conformance;meta")
endfunction()

# dlt_plant(<plugin> <name> <file> <original> <mutated>): the module mutants/<name>/dlock_<plugin>.so.
function(dlt_plant plugin name file original mutated)
  set(plugin_dir ${PROJECT_SOURCE_DIR}/plugins/${plugin})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name})
  dlt_mutate(copy ${name} plugins/${plugin}/${file} "${original}" "${mutated}")
  set(sources ${copy})
  if(NOT file STREQUAL plugin.c)
    list(APPEND sources ${plugin_dir}/plugin.c) # with the entry that a module exports
  endif()
  add_library(mutant_${name} MODULE ${sources})
  target_include_directories(mutant_${name} PRIVATE ${plugin_dir})
  # Of the archive the linker takes only what is not defined yet.
  target_link_libraries(mutant_${name} PRIVATE dlock_flags dlock_plugin_${plugin}_static)
  # Some of the defects leave something unused.
  target_compile_options(mutant_${name} PRIVATE -Wno-unused -Wno-unused-parameter)
  set_target_properties(mutant_${name} PROPERTIES
    EXPORT_COMPILE_COMMANDS OFF # not to be linted
    PREFIX "" OUTPUT_NAME dlock_${plugin} LIBRARY_OUTPUT_DIRECTORY ${out})
endfunction()

# dlt_add_plugin_mutant(<plugin> <uri> <name> <file> <case> <original> <mutated>)
function(dlt_add_plugin_mutant plugin uri name file case original mutated)
  dlt_plant(${plugin} ${name} ${file} "${original}" "${mutated}")
  dlt_test_mutant(${name} $<TARGET_FILE:dlock-conformance> ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name} ${case} ${uri})
endfunction()

# dlt_add_mutant(<name> <file> <case> <original> <mutated>): of the memory plugin.
function(dlt_add_mutant name file case original mutated)
  dlt_add_plugin_mutant(memory memory://mutant ${name} ${file} ${case} "${original}" "${mutated}")
endfunction()

dlt_add_mutant(lets_everybody_in queue.c exclusion_handles
  "if (mode == DLOCK_SHARED && list->mode == DLOCK_SHARED)" "if (list->expires_ns > 0)")
dlt_add_mutant(releases_for_anybody lease.c loss_found_by_unlock
  "mine = entry != NULL && (entry->fence != 0 || queued_too)"
  "entry = entry != NULL ? entry : name->holders; mine = entry != NULL")
dlt_add_mutant(renews_for_anybody lease.c loss_by_break
  "    if (name == NULL)
        return DLOCK_LOST;"
  "    op->grant.lease_ms = req->ttl_ms;
    if (name == NULL || memory_queue_find(name, req->token) == NULL)
        return DLOCK_OK;")
dlt_add_mutant(shortens_a_lease store.c renew_with_another_ttl
  "if (expires_ns > entry->expires_ns)" "if (expires_ns > 0)")
dlt_add_mutant(ends_leases_early store.c wait_ends_by_expiry
  "now_ns + lease_ms * DL_NS_PER_MS" "now_ns + lease_ms * DL_NS_PER_MS / 2")
dlt_add_mutant(ends_leases_late store.c wait_ends_by_expiry
  "now_ns + lease_ms * DL_NS_PER_MS" "now_ns + (lease_ms + 3000) * DL_NS_PER_MS")
dlt_add_mutant(ends_leases_on_whole_seconds store.c lease_ends_on_time
  "if (entry->expires_ns <= now_ns)" "if (entry->expires_ns / 1000000000 * 1000000000 <= now_ns)")
dlt_add_mutant(ends_leases_a_little_late store.c lease_ends_on_time
  "now_ns + lease_ms * DL_NS_PER_MS" "now_ns + (lease_ms + 1200) * DL_NS_PER_MS")
dlt_add_mutant(repeats_a_fence queue.c fence_rises
  "atomic_fetch_add(&last_fence, 1 + MEMORY_FENCE_ROOM)" "atomic_load(&last_fence)")
dlt_add_mutant(forgets_to_wake queue.c wait_ends_by_unlock
  "memory_waiter_wake(name->waiters, head->token)" "(void)name->waiters")
dlt_add_mutant(cannot_be_interrupted store.c wait_can_be_cancelled
  "waiter->interrupted = true" "waiter->interrupted = false")
dlt_add_mutant(folds_case store.c names_are_bytes
  "memcmp(a->bytes, b->bytes, common)"
  "strncasecmp((const char *)a->bytes, (const char *)b->bytes, common)")
dlt_add_mutant(cuts_names_at_nul store.c names_are_bytes
  "memcmp(a->bytes, b->bytes, common)"
  "strncmp((const char *)a->bytes, (const char *)b->bytes, common)")
dlt_add_mutant(hides_a_capability plugin.c caps_in_force
  "info->caps = MEMORY_CAPS" "info->caps = DLOCK_CAP_WATCH | DLOCK_CAP_CONCURRENT")
dlt_add_mutant(shows_the_expired inspect.c inspect_forgets_the_expired
  "c->expires_ns > shot->now_ns ?" "shot->now_ns > 0 ?")
dlt_add_mutant(lists_everything inspect.c list_by_prefix
  "shot->prefix.len == 0 ||" "shot->prefix.len < 256 ||")
dlt_add_mutant(breaks_any_owner lease.c break_by_owner
  "owner == NULL || strcmp(owner, holder) == 0" "owner == NULL || holder[0] != 0")
dlt_add_mutant(leaks_a_descriptor plugin.c exec_closes_descriptors
  "    memory_store_init();" "    memory_store_init(); (void)!dup(0);")
dlt_add_mutant(readers_pass_a_waiting_writer lease.c shared_stream_and_a_writer
  "memory_entry_append(&name->queue, entry);"
  "if (req->mode == DLOCK_SHARED) { entry->next = name->queue; name->queue = entry; }
    else memory_entry_append(&name->queue, entry);")
dlt_add_mutant(lets_readers_try_past_a_writer lease.c shared_try_behind_a_writer
  "memory_entry_append(&name->queue, entry);"
  "if (req->mode == DLOCK_SHARED) { entry->next = name->queue; name->queue = entry; }
    else memory_entry_append(&name->queue, entry);")
dlt_add_mutant(starves_readers lease.c shared_among_writers
  "memory_entry_append(&name->queue, entry);"
  "if (req->mode == DLOCK_EXCLUSIVE) { entry->next = name->queue; name->queue = entry; }
    else memory_entry_append(&name->queue, entry);")
dlt_add_mutant(lets_readers_in_with_a_writer queue.c shared_excludes_exclusive
  "if (mode == DLOCK_SHARED && list->mode == DLOCK_SHARED)" "if (mode == DLOCK_SHARED)")
dlt_add_mutant(lets_a_writer_in_with_readers queue.c shared_by_many
  "if (mode == DLOCK_SHARED && list->mode == DLOCK_SHARED)" "if (list->mode == DLOCK_SHARED)")
dlt_add_mutant(renews_all_readers lease.c shared_each_its_own_ttl
  "    memory_entry_extend(holder, req->ttl_ms, now_ns);"
  "    for (struct memory_entry *e = name->holders; e != NULL; e = e->next)
        memory_entry_extend(e, req->ttl_ms, now_ns);")
dlt_add_mutant(buries_all_readers_together store.c shared_each_its_own_ttl
  "    while (*list != NULL) {
        struct memory_entry *entry = *list;

        if (entry->expires_ns <= now_ns)"
  "    int dead = 0;
    for (const struct memory_entry *e = *list; e != NULL; e = e->next)
        dead |= e->expires_ns <= now_ns;
    while (*list != NULL) {
        struct memory_entry *entry = *list;

        if (dead)")
dlt_add_mutant(does_not_downgrade lease.c downgrade_lets_readers_in
  "holder->mode = DLOCK_SHARED;" "holder->mode = holder->mode;")
dlt_add_mutant(downgrades_with_a_gap lease.c downgrade_leaves_no_gap
  "        holder->mode = DLOCK_SHARED;"
  "    {
        name->holders = NULL;
        memory_queue_grant(name, now_ns);
        holder->mode = DLOCK_SHARED;
        holder->next = name->holders;
        name->holders = holder;
    }")
dlt_add_mutant(drops_the_queue_at_a_downgrade lease.c downgrade_keeps_the_order
  "        holder->mode = DLOCK_SHARED;"
  "    {
        holder->mode = DLOCK_SHARED;
        for (struct memory_entry *c = name->queue; c != NULL; c = c->next)
            if (c->mode == DLOCK_EXCLUSIVE)
                c->expires_ns = now_ns;
    }")
dlt_add_mutant(does_not_renew_readers lease.c downgrade_is_renewed
  "    if (holder == NULL)" "    if (holder == NULL || holder->mode == DLOCK_SHARED)")
dlt_add_mutant(downgrades_anybody lease.c downgrade_or_a_refusal
  "    if (name == NULL)
        return DLOCK_LOST;
    memory_store_reap"
  "    if (name == NULL) {
        op->grant.lease_ms = req->ttl_ms;
        return DLOCK_OK;
    }
    memory_store_reap")
dlt_add_mutant(serves_the_last_first lease.c queue_is_fifo
  "memory_entry_append(&name->queue, entry);" "entry->next = name->queue; name->queue = entry;")
dlt_add_mutant(grants_with_the_same_fence queue.c queue_is_fifo
  "head->fence = atomic_fetch_add(&last_fence, 1 + MEMORY_FENCE_ROOM) + 1;"
  "(void)atomic_fetch_add(&last_fence, 1 + MEMORY_FENCE_ROOM); head->fence = 1;")
dlt_add_mutant(counts_no_waiters queue.c queue_counts_in_inspect
  "count += e->expires_ns > now_ns;" "count += 0;")
dlt_add_mutant(shows_the_last_first inspect.c queue_is_shown
  "waiter_report(&shot.found[i], i, fn, arg);" "waiter_report(&shot.found[shot.count - 1 - i], i, fn, arg);")
dlt_add_mutant(shows_no_age_of_waiters inspect.c queue_is_shown
  ".waited_ms = found->info.held_ms," ".waited_ms = 0,")
dlt_add_mutant(shows_no_modes_of_waiters inspect.c queue_is_shown
  ".mode = entry->mode," ".mode = DLOCK_EXCLUSIVE,")
dlt_add_mutant(keeps_places_that_were_left plugin.c queue_is_left_at_the_timeout
  "(void)memory_lease_end(session, req, true);" "(void)req;")
dlt_add_mutant(keeps_places_of_the_cancelled plugin.c queue_with_the_cancelled
  "(void)memory_lease_end(session, req, true);" "(void)req;")
dlt_add_mutant(lets_one_who_tries_pass lease.c queue_is_not_passed
  "    memory_queue_grant(name, now_ns);
    if (entry"
  "    if (!refresh && !enqueue) {
        struct memory_entry **link = &name->queue;
        while (*link != NULL && *link != entry)
            link = &(*link)->next;
        if (*link == entry) {
            *link = entry->next;
            entry->next = name->queue;
            name->queue = entry;
        }
    }
    memory_queue_grant(name, now_ns);
    if (entry")
dlt_add_mutant(passes_on_nothing_broken lease.c queue_passes_on_what_was_broken
  "    memory_queue_pass_on(store, name, now_ns);
    return refusal;"
  "    memory_store_tidy(store, name);
    return refusal;")
dlt_add_mutant(forgets_who_is_not_queued queue.c queue_off_is_woken
  "memory_waiter_wake_unqueued(name->waiters);" "(void)name->waiters;")
dlt_add_mutant(keeps_a_grant_that_was_left lease.c queue_cancelled_at_the_grant
  "entry != NULL && (entry->fence != 0 || queued_too)"
  "entry != NULL && (queued_too ? entry->fence == 0 : entry->fence != 0)")
dlt_add_mutant(passes_on_nothing_that_was_left lease.c queue_cancelled_at_the_grant
  "    memory_queue_pass_on(store, name, now_ns);
    return mine;"
  "    if (queued_too)
        memory_store_tidy(store, name);
    else
        memory_queue_pass_on(store, name, now_ns);
    return mine;")
dlt_add_mutant(counts_a_hand_off_as_nothing queue.c handoff_fences_rise
  "atomic_fetch_add(&last_fence, 1 + MEMORY_FENCE_ROOM)" "atomic_fetch_add(&last_fence, 1)")
dlt_add_mutant(hides_waiters_from_the_holder queue.c handoff_lets_others_in
  "    grant->waiters = memory_queue_count(name, now_ns);"
  "    grant->waiters = 0;")
dlt_add_mutant(renews_what_was_released lease.c adopt_twice
  "    if (name == NULL)
        return DLOCK_LOST;"
  "    op->grant.lease_ms = req->ttl_ms;
    if (name == NULL || memory_queue_find(name, req->token) == NULL)
        return DLOCK_OK;")
dlt_add_mutant(lets_one_more_in queue.c limit_permits
  "longer_than(lists[1], entry, 0) < limit" "longer_than(lists[1], entry, 0) <= limit")
dlt_add_mutant(gives_a_permit_twice queue.c limit_race
  "while (has_permit(name->holders, permit))" "while (has_permit(name->holders, permit) && permit < 1)")
dlt_add_mutant(takes_any_limit queue.c limit_is_one_number
  "first->limit == limit ? 0 : first->limit" "first->limit == limit ? 0 : 0")
dlt_add_mutant(keeps_nothing lease.c keep_takes_the_name
  "req->keep_ms > 0)" "req->keep_ms > 100000)")
dlt_add_mutant(keeps_the_data_of_a_kept_name lease.c data_end_with_the_claim
  "    entry->data_len = 0;\n" "")
dlt_add_mutant(publishes_one_byte_less store.c data_are_bytes
  "entry->data_len = data_len;" "entry->data_len = data_len > 256 ? 256 : data_len;")
dlt_add_mutant(shows_the_data_of_the_first inspect.c data_of_each_holder
  "memcpy(found->data, c->data, c->data_len);"
  "memcpy(found->data, name->holders->data, c->data_len);")
dlt_add_mutant(shows_the_data_of_the_one_before inspect.c data_belong_to_the_claim
  "memcpy(found->data, c->data, c->data_len);"
  "{
            static unsigned char before[DLOCK_DATA_MAX];

            memcpy(found->data, before, c->data_len);
            memcpy(before, c->data, c->data_len);
        }")
dlt_add_mutant(shows_the_first_64 inspect.c limit_of_many
  "c != NULL; c = c->next) {
        struct found" "c != NULL && shot->count < 64; c = c->next) {
        struct found")
dlt_add_mutant(lets_a_race_be_lost queue.c race_of_threads
  "if (mode == DLOCK_SHARED && list->mode == DLOCK_SHARED)" "if (list->expires_ns > 0)")
