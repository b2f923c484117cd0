/* SPDX-License-Identifier: MIT */
/* slots.h - the cases of dlock-slot-check: what a slot answers when its store does not.
 * slots_main.c is the table. */
#ifndef DLT_SLOTS_H
#define DLT_SLOTS_H

#include "conformance.h"

/* slots_try.c: who gets a name */
void dlt_slots_one_of_two(struct dlt_run *run);
void dlt_slots_readers_share(struct dlt_run *run);
void dlt_slots_lease_ends(struct dlt_run *run);

/* slots_owner.c: on a good network */
void dlt_slots_same_token(struct dlt_run *run);
void dlt_slots_renew_makes_nothing(struct dlt_run *run);

/* slots_faults.c: one fault, at each call */
void dlt_slots_request_swallowed(struct dlt_run *run);
void dlt_slots_answer_swallowed(struct dlt_run *run);
void dlt_slots_request_cut(struct dlt_run *run);
void dlt_slots_answer_cut(struct dlt_run *run);
void dlt_slots_half_an_answer(struct dlt_run *run);
void dlt_slots_answer_late(struct dlt_run *run);
void dlt_slots_request_late(struct dlt_run *run);
void dlt_slots_answer_dribbles(struct dlt_run *run);
void dlt_slots_slow_network(struct dlt_run *run);

/* slots_batch.c: many at once */
void dlt_slots_batch_unanswered(struct dlt_run *run);
void dlt_slots_batch_cut(struct dlt_run *run);

/* slots_session.c: connections, and what is left in them */
void dlt_slots_late_answer_is_nobodys(struct dlt_run *run);
void dlt_slots_closed_while_idle(struct dlt_run *run);
void dlt_slots_open_and_no_answer(struct dlt_run *run);
void dlt_slots_renewal_in_doubt(struct dlt_run *run);
void dlt_slots_wait_without_an_answer(struct dlt_run *run);

/* slots_stop.c: a server that is stopped */
void dlt_slots_stopped_server(struct dlt_run *run);
void dlt_slots_lease_after_a_stop(struct dlt_run *run);

/* slots_wait.c: waiting, on a good network */
void dlt_slots_wait_is_told(struct dlt_run *run);
void dlt_slots_wait_misses_nothing(struct dlt_run *run);
void dlt_slots_wait_keeps_its_deadline(struct dlt_run *run);

#endif
