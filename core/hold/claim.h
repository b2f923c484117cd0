/* SPDX-License-Identifier: MIT */
/*
 * claim.h - one attempt as the store sees it, and the lease it yields: token, slot, session.
 *
 * A handle has one. It is a thing of its own because a hand-off passes it to another handle of the
 * client, while the plugin goes on seeing the same request at the same address.
 *
 * Whoever is in a phase of the handle (handle.h), or is the renewer renewing it, uses its claim
 * without the mutex; others have the mutex and read the token only.
 */
#ifndef DL_CLAIM_H
#define DL_CLAIM_H

#include "client/client.h"

struct dl_claim {
    struct dlock_request req;         /* slot is constant */
    struct dl_session *lease_session; /* SESSION backends, while acquiring and held */
    bool slot_used;      /* the plugin may keep something there: unlock or forget is due [FGT-1] */
    bool token_exported; /* the application has asked for its token */
    bool enqueued;       /* the store may have it in its queue: `dequeue` is the clean-up [LEA-2] */

    /* of the grant, for hand-offs */
    uint64_t fence;
    uint32_t fence_room;
    uint32_t handoffs; /* how often it was handed on */
};

/* NULL: no memory. name has to outlive it; label and bounds are its handle's to set. */
struct dl_claim *dl_claim_new(const struct dlock_client *client, const unsigned char *name,
                              uint32_t name_len);
void dl_claim_free(struct dl_claim *claim);

/* A new attempt begins with this token and an empty slot. With the mutex held. */
void dl_claim_begin_locked(struct dlock_client *client, struct dl_claim *claim,
                           const unsigned char token[DLOCK_TOKEN_SIZE]);

/* A session for an exchange: the pinned one, or one of the pool; and back. */
enum dlock_status dl_claim_session(struct dlock_client *client, struct dl_claim *claim,
                                   enum dl_use use, int64_t deadline_ns, struct dl_session **out,
                                   struct dlock_error *err);
void dl_claim_session_put(struct dlock_client *client, struct dl_claim *claim, enum dl_use use,
                          struct dl_session *session, enum dlock_status status);

/* One unlock on that session, which is put back. */
enum dlock_status dl_claim_unlock(struct dlock_client *client, struct dl_claim *claim,
                                  enum dl_use use, struct dl_session *session, int64_t deadline_ns,
                                  struct dlock_error *err);

/* The attempt is over: the plugin may clean up, unless it did so at unlock [UNL-4]. */
void dl_claim_forget(struct dlock_client *client, struct dl_claim *claim);

/* A lease or a place in the queue that is of no use to us, or may be there: one release by token,
 * answer or not; with a SESSION backend the end of the session is the release [SES-2]. The attempt
 * is over. */
void dl_claim_give_back(struct dlock_client *client, struct dl_claim *claim, enum dl_use use,
                        int64_t deadline_ns);

/* SESSION backends: gives the pinned session back after its lock ended with status. */
void dl_claim_lease_session_put(struct dlock_client *client, struct dl_claim *claim,
                                enum dlock_status status);

#endif
