/* SPDX-License-Identifier: MIT */
/*
 * conformance.h - the table of cases: what every store has to do, whatever is behind its URI.
 *
 * A case knows dlock.h and nothing of the store. cases.c is the table; case_<topic>.c hold the
 * functions. The same table is run by dlock-conformance and by Criterion.
 */
#ifndef DLT_CONFORMANCE_H
#define DLT_CONFORMANCE_H

#include "kit.h"
#include "options.h"
#include "waiter.h"

#include <getopt.h>
#include <stdbool.h>

enum {
    DLT_PROCESSES = 1u << 0, /* several processes share the store: no sense where it is private */
    DLT_SERIAL = 1u << 1,    /* measures time, or leaves none to others: nothing runs beside it */
    DLT_PROXY = 1u << 2,     /* of dlock-slot-check: needs --proxy */
    DLT_STOPS = 1u << 3      /* ... and --stop-cmd */
};

/* Other flags: the number of clients that a case opens at once. A case without one opens a few. */
#define DLT_CLIENTS(n)        ((unsigned)(n) << 8)
#define DLT_CLIENTS_OF(flags) ((flags) >> 8)

struct dlt_case {
    const char *name;
    const char *clauses; /* "C1 TRY-1": docs/guarantees.md and plugin.h */
    uint64_t caps;       /* needed; a store without them skips the case, visibly */
    unsigned flags;
    int limit_s; /* 0: 20 */
    void (*run)(struct dlt_run *run);
    const char *sentence; /* what it does, for --list and for reports of failures */
};

/* A program over a table of its own. */
struct dlt_program {
    const char *name;
    const char *usage; /* the first lines of --help, before the options that all have */
    const struct option
        *own; /* of getopt_long, with val from DLT_OPTION_OWN on; ends with name NULL */
    /* Takes an option of `own`. False: a bad value. */
    bool (*take)(int option, const char *value);
    /* Takes the words behind the options, and leaves the URIs in options->uris. 0; else the exit
     * status, and it has been said what is wrong. */
    int (*ready)(struct dlt_options *options);
    /* The option without which the case cannot be tried, and which was not given; NULL: none. */
    const char *(*lacks)(const struct dlt_case *c);
};

struct dlt_table {
    const struct dlt_case *cases;
    size_t count;
    const struct dlt_program *program; /* NULL: dlock-conformance */
};

extern const struct dlt_table dlt_table;

/* The case of this name, or NULL. */
const struct dlt_case *dlt_case_find(const struct dlt_table *table, const char *name);

/* The program dlock-conformance, over any table. Returns its exit status. */
int dlt_main(const struct dlt_table *table, int argc, char **argv);

/* case_admin.c */
void dlt_case_caps_in_force(struct dlt_run *run);
void dlt_case_probe_finds_what_is_in_force(struct dlt_run *run);
void dlt_case_client_names_its_store(struct dlt_run *run);
void dlt_case_inspect_tells_all(struct dlt_run *run);
void dlt_case_inspect_forgets_the_expired(struct dlt_run *run);
void dlt_case_list_by_prefix(struct dlt_run *run);
void dlt_case_break_by_owner(struct dlt_run *run);

/* case_adopt.c */
void dlt_case_adopt_by_token(struct dlt_run *run);
void dlt_case_adopt_from_the_dead(struct dlt_run *run);
void dlt_case_adopt_shared(struct dlt_run *run);
void dlt_case_adopt_or_a_refusal(struct dlt_run *run);
void dlt_case_adopt_permit(struct dlt_run *run);
void dlt_case_adopt_twice(struct dlt_run *run);
void dlt_case_adopt_after_a_handoff(struct dlt_run *run);

/* case_close.c */
void dlt_case_shutdown_ends_waits(struct dlt_run *run);
void dlt_case_close_ends_waits(struct dlt_run *run);
void dlt_case_free_ends_a_wait(struct dlt_run *run);
void dlt_case_free_unlocks(struct dlt_run *run);
void dlt_case_close_leaves_nothing(struct dlt_run *run);

/* case_data.c */
void dlt_case_no_ttl_or_a_refusal(struct dlt_run *run);
void dlt_case_data_are_bytes(struct dlt_run *run);
void dlt_case_data_belong_to_the_claim(struct dlt_run *run);
void dlt_case_data_arrive_with_the_grant(struct dlt_run *run);
void dlt_case_data_of_each_holder(struct dlt_run *run);
void dlt_case_data_end_with_the_claim(struct dlt_run *run);
void dlt_case_data_are_adopted(struct dlt_run *run);
void dlt_case_data_are_observed(struct dlt_run *run);
void dlt_case_data_or_a_refusal(struct dlt_run *run);

/* case_downgrade.c */
void dlt_case_downgrade_lets_readers_in(struct dlt_run *run);
void dlt_case_downgrade_leaves_no_gap(struct dlt_run *run);
void dlt_case_downgrade_keeps_the_order(struct dlt_run *run);
void dlt_case_downgrade_is_renewed(struct dlt_run *run);
void dlt_case_downgrade_or_a_refusal(struct dlt_run *run);

/* case_exclusion.c */
void dlt_case_exclusion_handles(struct dlt_run *run);
void dlt_case_exclusion_threads(struct dlt_run *run);
void dlt_case_exclusion_expiry(struct dlt_run *run);
void dlt_case_exclusion_processes(struct dlt_run *run);

/* case_expiry.c */
void dlt_case_lease_ends_on_time(struct dlt_run *run);

/* case_fence.c */
void dlt_case_fence_rises(struct dlt_run *run);
void dlt_case_fence_rises_for_waiters(struct dlt_run *run);
void dlt_case_fence_stays_when_renewed(struct dlt_run *run);
void dlt_case_fence_over_processes(struct dlt_run *run);
void dlt_case_fence_on_demand(struct dlt_run *run);

/* case_fork.c */
void dlt_case_fork_child_is_told(struct dlt_run *run);
void dlt_case_fork_amid_calls(struct dlt_run *run);
void dlt_case_exec_closes_descriptors(struct dlt_run *run);
void dlt_case_exec_child_is_a_stranger(struct dlt_run *run);
void dlt_case_signals_are_left_alone(struct dlt_run *run);

/* case_renewer.c */
void dlt_case_renewer_renews(struct dlt_run *run);
void dlt_case_renewer_keeps_many(struct dlt_run *run);
void dlt_case_renewer_stops_at_max_hold(struct dlt_run *run);
void dlt_case_renewer_stops_within_the_lease(struct dlt_run *run);
void dlt_case_renewer_leaves_renewal_to_the_caller(struct dlt_run *run);
void dlt_case_renew_with_another_ttl(struct dlt_run *run);
void dlt_case_renewer_stops_with_unlock(struct dlt_run *run);

/* case_keep.c */
void dlt_case_keep_takes_the_name(struct dlt_run *run);
void dlt_case_keep_lets_nobody_in(struct dlt_run *run);
void dlt_case_keep_is_taken_back(struct dlt_run *run);
void dlt_case_keep_and_limit(struct dlt_run *run);
void dlt_case_keep_or_a_refusal(struct dlt_run *run);

/* case_limit.c */
void dlt_case_limit_permits(struct dlt_run *run);
void dlt_case_limit_of_many(struct dlt_run *run);
void dlt_case_limit_is_one_number(struct dlt_run *run);
void dlt_case_limit_race(struct dlt_run *run);
void dlt_case_limit_is_fifo(struct dlt_run *run);
void dlt_case_limit_with_the_dead(struct dlt_run *run);
void dlt_case_limit_or_a_refusal(struct dlt_run *run);

/* case_local.c */
void dlt_case_local_line_is_fifo(struct dlt_run *run);
void dlt_case_local_line_is_not_passed(struct dlt_run *run);
void dlt_case_local_line_holds_by_itself(struct dlt_run *run);
void dlt_case_local_given_up_at_the_handoff(struct dlt_run *run);
void dlt_case_handoff_fences_rise(struct dlt_run *run);
void dlt_case_handoff_between_ttls(struct dlt_run *run);
void dlt_case_handoff_then_loss(struct dlt_run *run);
void dlt_case_handoff_is_kept_as_asked(struct dlt_run *run);
void dlt_case_handoff_lets_others_in(struct dlt_run *run);

/* case_loss.c */
void dlt_case_loss_by_expiry(struct dlt_run *run);
void dlt_case_loss_by_break(struct dlt_run *run);
void dlt_case_loss_found_by_renew(struct dlt_run *run);
void dlt_case_loss_found_by_unlock(struct dlt_run *run);
void dlt_case_loss_callback(struct dlt_run *run);
void dlt_case_loss_leaves_the_next_holder_alone(struct dlt_run *run);
void dlt_case_loss_is_not_renewed_away(struct dlt_run *run);
void dlt_case_loss_dies_with_the_handle(struct dlt_run *run);

/* case_misuse.c */
void dlt_case_misuse_of_a_handle(struct dlt_run *run);
void dlt_case_misuse_of_a_waiting_handle(struct dlt_run *run);
void dlt_case_misuse_of_options(struct dlt_run *run);
void dlt_case_ttl_from_least_to_most(struct dlt_run *run);
void dlt_case_ttl_is_foretold(struct dlt_run *run);
void dlt_case_misuse_of_pointers(struct dlt_run *run);
void dlt_case_misuse_of_defaults(struct dlt_run *run);
void dlt_case_errors_keep_to_their_size(struct dlt_run *run);

/* case_modes.c */
void dlt_case_modes_or_a_refusal(struct dlt_run *run);

/* case_names.c */
void dlt_case_names_are_bytes(struct dlt_run *run);
void dlt_case_names_have_limits(struct dlt_run *run);
void dlt_case_names_of_one_byte(struct dlt_run *run);
void dlt_case_names_by_the_thousand(struct dlt_run *run);

/* case_observe.c */
void dlt_case_observe_each_change(struct dlt_run *run);
void dlt_case_observe_several(struct dlt_run *run);
void dlt_case_observe_ends(struct dlt_run *run);

/* case_owner.c */
void dlt_case_owner_tokens_differ(struct dlt_run *run);
void dlt_case_owner_is_who_inspect_says(struct dlt_run *run);
void dlt_case_owner_alone_can_release(struct dlt_run *run);

/* case_queue.c */
void dlt_case_queue_is_fifo(struct dlt_run *run);
void dlt_case_queue_counts_in_inspect(struct dlt_run *run);
void dlt_case_queue_is_shown(struct dlt_run *run);
void dlt_case_queue_is_left_at_the_timeout(struct dlt_run *run);
void dlt_case_queue_is_not_passed(struct dlt_run *run);
void dlt_case_queue_passes_on_what_was_broken(struct dlt_run *run);
void dlt_case_queue_off_is_woken(struct dlt_run *run);
void dlt_case_queue_off_among_queued(struct dlt_run *run);

/* case_queue_faults.c */
void dlt_case_queue_with_the_dead(struct dlt_run *run);
void dlt_case_queue_with_the_stopped(struct dlt_run *run);
void dlt_case_queue_with_the_cancelled(struct dlt_run *run);
void dlt_case_queue_cancelled_at_the_grant(struct dlt_run *run);
void dlt_case_queue_timed_out_at_the_grant(struct dlt_run *run);
void dlt_case_queue_of_fifty_behind_the_dead(struct dlt_run *run);

/* case_race.c */
void dlt_case_race_of_threads(struct dlt_run *run);
void dlt_case_race_of_processes(struct dlt_run *run);

/* case_recursive.c */
void dlt_case_recursive_counts(struct dlt_run *run);
void dlt_case_recursive_loss(struct dlt_run *run);
void dlt_case_recursive_modes(struct dlt_run *run);
void dlt_case_recursive_and_others(struct dlt_run *run);

/* case_secrets.c */
void dlt_case_passwords_are_told_nobody(struct dlt_run *run);

/* case_set.c */
void dlt_case_set_all_or_none(struct dlt_run *run);
void dlt_case_set_members(struct dlt_run *run);
void dlt_case_set_loss(struct dlt_run *run);
void dlt_case_set_in_a_circle(struct dlt_run *run);
void dlt_case_set_wait_ends(struct dlt_run *run);
void dlt_case_set_in_a_forked_child(struct dlt_run *run);
void dlt_case_set_misuse(struct dlt_run *run);
void dlt_case_set_keeps_whole(struct dlt_run *run);

/* case_shared.c */
void dlt_case_shared_excludes_exclusive(struct dlt_run *run);
void dlt_case_shared_by_many(struct dlt_run *run);
void dlt_case_shared_each_its_own_ttl(struct dlt_run *run);
void dlt_case_shared_with_the_dead(struct dlt_run *run);
void dlt_case_shared_stream_and_a_writer(struct dlt_run *run);
void dlt_case_shared_among_writers(struct dlt_run *run);
void dlt_case_shared_try_behind_a_writer(struct dlt_run *run);
void dlt_case_shared_in_one_client(struct dlt_run *run);

/* case_state.c */
void dlt_case_state_walk(struct dlt_run *run);
void dlt_case_state_ends_with_the_lease(struct dlt_run *run);
void dlt_case_state_keeps_a_margin(struct dlt_run *run);
void dlt_case_state_ok_is_worth_something(struct dlt_run *run);
void dlt_case_state_after_stop(struct dlt_run *run);
void dlt_case_stopped_past_the_end(struct dlt_run *run);

/* case_teardown.c */
void dlt_case_teardown_leaves_the_queue(struct dlt_run *run);
void dlt_case_teardown_amid_renewals(struct dlt_run *run);
void dlt_case_teardown_in_a_callback(struct dlt_run *run);
void dlt_case_teardown_awaits_a_callback(struct dlt_run *run);
void dlt_case_teardown_at_the_handoff(struct dlt_run *run);
void dlt_case_teardown_by_exit(struct dlt_run *run);
void dlt_case_teardown_in_a_forked_child(struct dlt_run *run);

/* case_tethered.c */
void dlt_case_tethered_ends_with_the_claim(struct dlt_run *run);
void dlt_case_tethered_ends_at_max_hold(struct dlt_run *run);

/* case_time.c */
void dlt_case_time_of_a_wait(struct dlt_run *run);
void dlt_case_time_of_the_options(struct dlt_run *run);
void dlt_case_time_in_a_signal_storm(struct dlt_run *run);

/* case_async.c */
void dlt_case_async_lock_and_unlock(struct dlt_run *run);
void dlt_case_async_waits(struct dlt_run *run);
void dlt_case_async_cancel(struct dlt_run *run);
void dlt_case_async_one_at_a_time(struct dlt_run *run);
void dlt_case_async_loss_after_done(struct dlt_run *run);
void dlt_case_async_needs_notices(struct dlt_run *run);
void dlt_case_async_free_and_close(struct dlt_run *run);
void dlt_case_async_fork(struct dlt_run *run);
void dlt_case_async_excludes(struct dlt_run *run);
void dlt_case_async_many(struct dlt_run *run);
void dlt_case_async_together(struct dlt_run *run);
void dlt_case_async_open(struct dlt_run *run);

/* case_wait.c */
void dlt_case_wait_ends_by_unlock(struct dlt_run *run);
void dlt_case_wait_ends_by_unlock_in_one_client(struct dlt_run *run);
void dlt_case_wait_ends_by_unlock_elsewhere(struct dlt_run *run);
void dlt_case_wait_ends_by_break(struct dlt_run *run);
void dlt_case_wait_ends_by_expiry(struct dlt_run *run);
void dlt_case_wait_for_the_dead(struct dlt_run *run);
void dlt_case_wait_leaves_nobody_behind(struct dlt_run *run);
void dlt_case_wait_can_be_cancelled(struct dlt_run *run);
void dlt_case_wait_given_up_leaves_no_trace(struct dlt_run *run);

#endif
