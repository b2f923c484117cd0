/* SPDX-License-Identifier: MIT */
/*
 * release_fsm.h - what to do next until the store has confirmed an unlock: repeat or give up after
 * each answer, as a state machine. Pure; unlock.c and claim.c do the steps.
 *
 * A release that found nothing to release is OK if an earlier one may have been executed.
 */
#ifndef DL_RELEASE_FSM_H
#define DL_RELEASE_FSM_H

#include <dlock/types.h>
#include <stdbool.h>
#include <stdint.h>

enum dl_release_fsm_step {
    DL_RELEASE_SEND,  /* one unlock, with or without an answer by deadline_ns */
    DL_RELEASE_PAUSE, /* for DL_RELEASE_PAUSE_NS */
    DL_RELEASE_DONE   /* result */
};

#define DL_RELEASE_PAUSE_NS INT64_C(10000000)

/* An exchange near the caller's deadline gets at least this time, so that it can end with an
 * answer, and so does the release after it: both fit into the 100 ms that C8 allows. */
#define DL_GRACE_NS INT64_C(40000000)

struct dl_release_fsm {
    int64_t deadline_ns;
    bool
        session; /* the lease lives in a session, which is not used again after a failure [SES-2] */
    /* The plugin itself may release what a failed SEND has left [TET-3]. Set after
     * dl_release_fsm_start. */
    bool tethered;
    bool gone_is_ok; /* an unlock before this one may have been executed without an answer */
    bool uncertain;  /* a SEND of this one may have been executed without an answer */
    enum dl_release_fsm_step step;
    enum dlock_status result; /* at DONE; before: of the last exchange */
};

/* again: an unlock before this one ended without an answer. */
void dl_release_fsm_start(struct dl_release_fsm *release, int64_t deadline_ns, bool session,
                          bool again);

/* SEND got no session. */
void dl_release_fsm_no_session(struct dl_release_fsm *release, enum dlock_status status);

/* SEND has ended with status. */
void dl_release_fsm_answered(struct dl_release_fsm *release, int64_t now_ns,
                             enum dlock_status status);

void dl_release_fsm_paused(struct dl_release_fsm *release, int64_t now_ns);

#endif
