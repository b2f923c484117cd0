/* SPDX-License-Identifier: MIT */
/*
 * claim.h - one attempt as the store sees it, and the lease that it brings: token, memory of the
 * plugin, session.
 *
 * A handle has one claim. The claim is a structure of its own because a hand-off passes it to
 * another handle of the client, while the plugin goes on seeing the same request at the same
 * address. A program may have many: small members stand together.
 *
 * The thread that is in a phase of the handle (handle.h), or the renewer while it renews the lease,
 * uses the claim without the mutex. Other threads hold the mutex and read only the token.
 */
#ifndef DL_CLAIM_H
#define DL_CLAIM_H

#include "client/client.h"

struct dl_claim {
    struct dlock_request req; /* its member `attempt` is constant */
    struct dl_session
        *lease_session;    /* if leases live in sessions: the session, while acquiring and held */
    int64_t keep_until_ns; /* its unlock keeps the name until then; 0: it does not */

    /* of the grant, for hand-offs */
    uint64_t fence;
    uint32_t fence_room;
    uint8_t handoffs; /* how often it was handed on, or DL_CLAIM_STAYS */

    bool slot_used;      /* the plugin may keep something there: unlock or forget is due [FGT-1] */
    bool token_exported; /* the application has asked for its token */
    bool enqueued;       /* the store may have it in its queue: `dequeue` is the clean-up [DEQ-2] */
};

#define DL_CLAIM_STAYS UINT8_MAX /* never handed on; more than the option `handoff` can be */

/* NULL: no memory. name has to outlive the claim; the handle sets label and timeouts. */
struct dl_claim *dl_claim_new(const struct dlock_client *client, const unsigned char *name,
                              uint32_t name_len);
void dl_claim_free(struct dl_claim *claim);

/* Begins a new attempt with this token and with empty memory of the plugin. */
void dl_claim_begin_locked(struct dlock_client *client, struct dl_claim *claim,
                           const unsigned char token[DLOCK_TOKEN_SIZE]);

/* Takes a session for an exchange: the claim's own if leases live in sessions, else one of the
 * pool. And gives it back. */
enum dlock_status dl_claim_session(struct dlock_client *client, struct dl_claim *claim,
                                   enum dl_use use, int64_t deadline_ns, struct dl_session **out,
                                   struct dlock_error *err);
void dl_claim_session_put(struct dlock_client *client, struct dl_claim *claim, enum dl_use use,
                          struct dl_session *session, enum dlock_status status);

/* Sends one unlock on that session, and gives the session back. */
enum dlock_status dl_claim_unlock(struct dlock_client *client, struct dl_claim *claim,
                                  enum dl_use use, struct dl_session *session, int64_t deadline_ns,
                                  struct dlock_error *err);

/* The same in parts, for an exchange that many claims share: sets the request, and takes the
 * answer. */
void dl_claim_unlock_request(struct dlock_client *client, struct dl_claim *claim,
                             int64_t deadline_ns);
void dl_claim_unlocked(struct dl_claim *claim, enum dlock_status status);

/* The status with which a session is given back after a batch: one bad answer is enough to close
 * it, and UNAVAILABLE closes idle ones, too. CONFIG is about the one element if others were served:
 * another limit of its name [LIM-1]. */
enum dlock_status dl_claim_batch_worst(struct dlock_batch_op *const *ops, size_t n);

/* Ends the attempt: the plugin may clean up, unless it did so at unlock [UNL-4]. */
void dl_claim_forget(struct dlock_client *client, struct dl_claim *claim);

/* Gives back a lease or a queue entry that is of no use, or that may be there: one release by
 * token, with or without an answer. If leases live in sessions, the end of the session is the
 * release [SES-2]. Ends the attempt. */
void dl_claim_give_back(struct dlock_client *client, struct dl_claim *claim, enum dl_use use,
                        int64_t deadline_ns);

/* Gives the claim's own session back to the pool after its lock ended with status. Does nothing if
 * it has none. */
void dl_claim_lease_session_put(struct dlock_client *client, struct dl_claim *claim,
                                enum dlock_status status);

#endif
