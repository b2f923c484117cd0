# Can the cases see? Each mutant is the memory plugin with one planted defect, and names a case that
# has to fail on it.
#
# dlt_add_mutant(<name> <file> <case> <original> <mutated>)
include(${PROJECT_SOURCE_DIR}/tests/mutate.cmake)

function(dlt_add_mutant name file case original mutated)
  set(plugin_dir ${PROJECT_SOURCE_DIR}/plugins/memory)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name})
  dlt_mutate(copy ${name} ${file} "${original}" "${mutated}")
  set(sources plugin.c store.c lease.c queue.c waiter.c look.c)
  list(TRANSFORM sources PREPEND ${plugin_dir}/)
  list(REMOVE_ITEM sources ${plugin_dir}/${file})
  add_library(mutant_${name} MODULE ${sources} ${copy})
  target_include_directories(mutant_${name} PRIVATE ${plugin_dir} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(mutant_${name} PRIVATE dlock_flags Threads::Threads)
  # Some of the defects leave something unused.
  target_compile_options(mutant_${name} PRIVATE -Wno-unused -Wno-unused-parameter)
  set_target_properties(mutant_${name} PROPERTIES
    EXPORT_COMPILE_COMMANDS OFF # not to be linted
    PREFIX "" OUTPUT_NAME dlock_memory LIBRARY_OUTPUT_DIRECTORY ${out})
  add_test(NAME mutant_${name}
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_mutant.sh ${PROJECT_SOURCE_DIR}
      $<TARGET_FILE:dlock-conformance> ${out} ${case})
  set_tests_properties(mutant_${name} PROPERTIES TIMEOUT 120 LABELS "conformance;meta")
endfunction()

dlt_add_mutant(lets_everybody_in queue.c exclusion_handles
  "if (mode == DLOCK_SHARED && list->mode == DLOCK_SHARED)" "if (list->expires_ns > 0)")
dlt_add_mutant(releases_for_anybody lease.c loss_found_by_unlock
  "mine = claim != NULL && (claim->fence != 0 || place_too)"
  "claim = claim != NULL ? claim : name->holders; mine = claim != NULL")
dlt_add_mutant(renews_for_anybody lease.c loss_by_break
  "    if (name == NULL)
        return DLOCK_LOST;"
  "    op->grant.lease_ms = req->ttl_ms;
    if (name == NULL || memory_claim_find(name, req->token) == NULL)
        return DLOCK_OK;")
dlt_add_mutant(shortens_a_lease queue.c renew_with_another_ttl
  "if (expires_ns > claim->expires_ns)" "if (expires_ns > 0)")
dlt_add_mutant(ends_leases_early queue.c wait_ends_by_expiry
  "now_ns + lease_ms * MEMORY_NS_PER_MS" "now_ns + lease_ms * MEMORY_NS_PER_MS / 2")
dlt_add_mutant(ends_leases_late queue.c wait_ends_by_expiry
  "now_ns + lease_ms * MEMORY_NS_PER_MS" "now_ns + lease_ms * MEMORY_NS_PER_MS * 4")
dlt_add_mutant(repeats_a_fence queue.c fence_rises
  "atomic_fetch_add(&last_fence, 1 + MEMORY_FENCE_ROOM)" "atomic_load(&last_fence)")
dlt_add_mutant(forgets_to_wake queue.c wait_ends_by_unlock
  "memory_waiter_wake(name->sleepers, head->token)" "(void)name->sleepers")
dlt_add_mutant(cannot_be_interrupted waiter.c wait_can_be_cancelled
  "waiter->interrupted = 1" "waiter->interrupted = 0")
dlt_add_mutant(folds_case store.c names_are_bytes
  "memcmp(a->bytes, b->bytes, common)"
  "strncasecmp((const char *)a->bytes, (const char *)b->bytes, common)")
dlt_add_mutant(cuts_names_at_nul store.c names_are_bytes
  "memcmp(a->bytes, b->bytes, common)"
  "strncmp((const char *)a->bytes, (const char *)b->bytes, common)")
dlt_add_mutant(hides_a_capability plugin.c caps_in_force
  "info->caps = MEMORY_CAPS" "info->caps = DLOCK_CAP_WATCH | DLOCK_CAP_CONCURRENT")
dlt_add_mutant(shows_the_expired look.c inspect_forgets_the_expired
  "c->expires_ns > shot->now_ns ?" "shot->now_ns > 0 ?")
dlt_add_mutant(lists_everything look.c list_by_prefix
  "shot->prefix.len == 0 ||" "shot->prefix.len < 256 ||")
dlt_add_mutant(breaks_any_owner lease.c break_by_owner
  "owner == NULL || strcmp(owner, holder) == 0" "owner == NULL || holder[0] != 0")
dlt_add_mutant(leaks_a_descriptor plugin.c exec_closes_descriptors
  "    memory_store_init();" "    memory_store_init(); (void)!dup(0);")
