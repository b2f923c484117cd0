/* SPDX-License-Identifier: MIT */
/*
 * slot.h - what the slots of plugin.h do with the node of an attempt.
 *
 * A node of the token, as long as its session lasts, is known to the slot, or in doubt there, or a
 * leftover.
 *
 * The value of a node that holds a permit of a semaphore begins with "permit 2 of 3: ", and has
 * version 1: it is written once, over the label with which the node was made. A node takes its
 * permit when fewer contenders than the limit are before it, and all of them have theirs: so no two
 * choose at one time, and none can come before them any more. A server that lags behind shows a
 * permit later, but no other one.
 */
#ifndef ZK_SLOT_H
#define ZK_SLOT_H

#include "queue.h"
#include "session.h"

/* INVALID: with key=raw, the name is no path. */
enum dlock_status zk_slot_begin(struct zk_attempt *attempt, struct zk_session *session,
                                const struct dlock_request *req, struct dlock_error *err);

/* ---- requests ---- */

/* The servers have answered, with ZOK or an error. False: the request may have been executed, or
 * not. Also for an exchange that was given up. */
bool zk_slot_answered(struct zk_link *link, const struct zk_call *call);

/*
 * The children of the name, none if it has no node. sync: as the leader knows them now.
 * *session_id: as for zk_exchange_run. Statuses of zk_exchange_run for reads, and of
 * zk_exchange_fail. Always: zk_exchange_free(*exchange), which has the children.
 */
enum dlock_status zk_slot_list(struct zk_attempt *attempt, bool sync, int64_t *session_id,
                               struct zk_exchange **exchange,
                               const struct String_vector **children);

/*
 * Asks where the node stands, and notes it in the slot. A node in doubt is looked for by its token.
 * OK with *known: position says it (its names are NULL). OK without: there is no node in this
 * session, and the slot has none.
 */
enum dlock_status zk_slot_ask(struct zk_attempt *attempt, struct zk_position *position,
                              bool *known);
/* Notes what zk_queue_judge found of the node of the slot. */
void zk_slot_note(struct zk_attempt *attempt, const struct zk_position *position);

/* Deletes the node of the slot. OK: it is gone; *by_us: by this call. */
enum dlock_status zk_slot_delete(struct zk_attempt *attempt, bool *by_us);

/* One of many. */
struct zk_slot_step {
    struct zk_attempt *attempt;
    enum dlock_status status;    /* out */
    bool deleted;                /* out, of a deletion */
    bool known;                  /* out, of a question */
    struct zk_position position; /* out, of a question */
    bool done;                   /* while they are made */
};

/* zk_slot_ask and zk_slot_delete for many, each with its own outcome. Nodes of one session share a
 * exchange, whose deadline is the last one of them. A node in doubt is asked for alone. */
void zk_slot_ask_all(struct zk_slot_step *steps, size_t n);
void zk_slot_delete_all(struct zk_slot_step *steps, size_t n);

/* The name of the node is known. False: it is none of ours, and too long. */
bool zk_slot_name(struct zk_slot *slot, const char *node);

/* ---- permits of a semaphore ---- */

/*
 * Reads the permits before the node of the slot, which position is of (zk_queue_judge), and takes
 * the lowest one that is free if the call claims.
 *
 * OK with *known: position.holds says whether the node has a permit, and which; if it has none,
 * position.predecessor is what to wait for, in children. OK without: the node is gone. Statuses of
 * zk_exchange_run and zk_exchange_fail.
 */
enum dlock_status zk_slot_permit_take(struct zk_attempt *attempt,
                                      const struct String_vector *children,
                                      struct zk_position *position, bool *known);

/* Does this node of the name have a permit? *has: false also if the node is gone. Statuses of
 * zk_exchange_run, for session_id, and of zk_exchange_fail. */
enum dlock_status zk_slot_permit_ask(struct zk_attempt *attempt, int64_t session_id,
                                     const char *node, bool *has);

/* The permit in a value that ZK_GET has read; -1: none. *label: where the label begins. */
int64_t zk_slot_permit_read(const struct zk_call *get, size_t *label);

/* ---- grants ---- */

/* What the servers keep of the session, from a moment on, but not more than the ttl; 0: the session
 * is over, or nothing is certain. */
int64_t zk_slot_lease_ms(const struct zk_attempt *attempt, int64_t from_ns);
/* The name belongs to the node of the slot. */
void zk_slot_grant(const struct zk_attempt *attempt, const struct zk_position *position,
                   int64_t lease_ms, struct dlock_grant *grant);
/* The name belongs to another node. Sets the number of waiters and the position in the queue. */
void zk_slot_wait(const struct zk_position *position, struct dlock_grant *grant);
/* The node is a queue entry. */
void zk_slot_queue(struct zk_attempt *attempt, int64_t lease_ms, struct dlock_grant *grant);

/* ---- ends ---- */

/* The node is gone. What is in doubt stays so. */
void zk_slot_gone(struct zk_attempt *attempt);
/* The session of the slot is over, and with it all that was in doubt. */
void zk_slot_over(struct zk_attempt *attempt);
/* The attempt is over: what may be there of it is a leftover. Harmless twice. */
void zk_slot_end(struct zk_attempt *attempt);
/* Frees memory, and forgets nothing else. */
void zk_slot_rest(struct zk_attempt *attempt);

/* A status is OK or BUSY after all. */
static inline void zk_slot_error_clear(struct dlock_error *err)
{
    err->status = DLOCK_OK;
    err->code = 0;
    err->origin[0] = '\0';
    err->message[0] = '\0';
}

#endif
