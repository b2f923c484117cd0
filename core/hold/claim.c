/* SPDX-License-Identifier: MIT */
#include "hold/claim.h"
#include "hold/release_fsm.h"
#include "session/dispatch.h"
#include "sys/error.h"

#include <stdlib.h>
#include <string.h>

static size_t round_up(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

/* The claim and the plugin's slot are one block of memory. */
struct dl_claim *dl_claim_new(const struct dlock_client *client, const unsigned char *name,
                              uint32_t name_len)
{
    size_t slot_at = round_up(sizeof(struct dl_claim));
    char *block = calloc(1, slot_at + client->plugin->ops.attempt_size); /* 16-byte aligned */
    struct dl_claim *claim = (struct dl_claim *)(void *)block;

    if (block == NULL)
        return NULL;
    claim->req = (struct dlock_request){
        .struct_size = sizeof claim->req,
        .name = name,
        .name_len = name_len,
        .attempt = client->plugin->ops.attempt_size > 0 ? block + slot_at : NULL,
        .limit = 1,
    };
    return claim;
}

void dl_claim_free(struct dl_claim *claim)
{
    if (claim == NULL)
        return;
    explicit_bzero(claim->req.token, sizeof claim->req.token);
    free(claim);
}

void dl_claim_begin_locked(struct dlock_client *client, struct dl_claim *claim,
                           const unsigned char token[DLOCK_TOKEN_SIZE])
{
    memcpy(claim->req.token, token, sizeof claim->req.token);
    if (claim->req.attempt != NULL)
        memset(claim->req.attempt, 0, client->plugin->ops.attempt_size);
    claim->slot_used = true;
    claim->token_exported = false;
    claim->enqueued = false;
    claim->keep_until_ns = claim->req.keep_ms = 0;
}

enum dlock_status dl_claim_session(struct dlock_client *client, struct dl_claim *claim,
                                   enum dl_use use, int64_t deadline_ns, struct dl_session **out,
                                   struct dlock_error *err)
{
    enum dlock_status status;

    if (!dl_client_has(client, DLOCK_CAP_SESSION))
        return dl_session_pool_take(&client->pool, use, deadline_ns, out, err);
    if (claim->lease_session == NULL) {
        if (use != DL_USE_ACQUIRE)
            return dl_error(err, DLOCK_LOST, "the session that held the lock is gone");
        status = dl_session_pool_take(&client->pool, DL_USE_LEASE, deadline_ns,
                                      &claim->lease_session, err);
        if (status != DLOCK_OK)
            return status;
    }
    *out = claim->lease_session;
    return DLOCK_OK;
}

void dl_claim_session_put(struct dlock_client *client, struct dl_claim *claim, enum dl_use use,
                          struct dl_session *session, enum dlock_status status)
{
    if (session != claim->lease_session)
        dl_session_pool_put(&client->pool, use, session, status);
}

void dl_claim_lease_session_put(struct dlock_client *client, struct dl_claim *claim,
                                enum dlock_status status)
{
    struct dl_session *session = claim->lease_session;

    if (session == NULL)
        return;
    claim->lease_session = NULL;
    /* [SES-1]: a session whose lock did not end cleanly is not used again. */
    dl_session_pool_put(&client->pool, DL_USE_LEASE, session,
                        status == DLOCK_OK || status == DLOCK_BUSY ? DLOCK_OK : DLOCK_UNKNOWN);
}

void dl_claim_forget(struct dlock_client *client, struct dl_claim *claim)
{
    struct dl_session *session;

    if (!claim->slot_used)
        return;
    claim->slot_used = false;
    if (client->plugin->ops.forget == NULL)
        return;
    session = claim->lease_session != NULL
                  ? claim->lease_session
                  : dl_session_pool_take_idle(&client->pool, DL_USE_HOLDER);
    dl_dispatch_forget(client->plugin, session == NULL ? NULL : session->self, &claim->req);
    if (session != NULL)
        dl_claim_session_put(client, claim, DL_USE_HOLDER, session, DLOCK_OK);
    if (claim->req.attempt != NULL) /* a repeated unlock finds it empty */
        memset(claim->req.attempt, 0, client->plugin->ops.attempt_size);
}

/* Rounds up: the name is never free before keep_until_ns. */
static void keep_set(struct dl_claim *claim, int64_t now_ns)
{
    int64_t left_ns = claim->keep_until_ns - now_ns;

    claim->req.flags = 0;
    claim->req.keep_ms = left_ns > 0 ? (left_ns + DL_NS_PER_MS - 1) / DL_NS_PER_MS : 0;
}

void dl_claim_unlock_request(struct dlock_client *client, struct dl_claim *claim,
                             int64_t deadline_ns)
{
    keep_set(claim, dl_client_now(client));
    claim->req.deadline_ns = deadline_ns;
}

void dl_claim_unlocked(struct dl_claim *claim, enum dlock_status status)
{
    claim->slot_used =
        claim->req.keep_ms > 0 && status != DLOCK_OK && status != DLOCK_LOST; /* [UNL-4] */
}

enum dlock_status dl_claim_batch_worst(struct dlock_batch_op *const *ops, size_t n)
{
    enum dlock_status worst = DLOCK_OK;
    bool served = false;

    for (size_t i = 0; i < n && worst != DLOCK_UNAVAILABLE; i++) {
        const enum dlock_status status = ops[i]->status;

        served |= status == DLOCK_OK || status == DLOCK_BUSY || status == DLOCK_LOST;
        if (dl_session_pool_breaks(status) && (status != DLOCK_CONFIG || worst == DLOCK_OK))
            worst = status;
    }
    return worst == DLOCK_CONFIG && served ? DLOCK_OK : worst;
}

enum dlock_status dl_claim_unlock(struct dlock_client *client, struct dl_claim *claim,
                                  enum dl_use use, struct dl_session *session, int64_t deadline_ns,
                                  struct dlock_error *err)
{
    enum dlock_status status;

    dl_claim_unlock_request(client, claim, deadline_ns);
    status = dl_dispatch_unlock(client->plugin, session->self, &claim->req, err);
    dl_claim_unlocked(claim, status);
    dl_claim_session_put(client, claim, use, session, status);
    return status;
}

static void dequeue_send(struct dlock_client *client, struct dl_claim *claim, enum dl_use use,
                         struct dl_release_fsm *release, struct dlock_error *err)
{
    struct dl_session *session;
    enum dlock_status status =
        dl_claim_session(client, claim, use, release->deadline_ns, &session, err);

    if (status != DLOCK_OK) {
        dl_release_fsm_no_session(release, status);
        return;
    }
    claim->req.flags = 0;
    claim->req.deadline_ns = release->deadline_ns;
    status = dl_dispatch_dequeue(client->plugin, session->self, &claim->req, err);
    dl_claim_session_put(client, claim, use, session, status);
    dl_release_fsm_answered(release, dl_client_now(client), status);
}

/* Repeats the request until it is answered: a queue entry that is left behind may be granted, and
 * would then keep others out. */
static void claim_dequeue(struct dlock_client *client, struct dl_claim *claim, enum dl_use use,
                          int64_t deadline_ns, struct dlock_error *err)
{
    struct dl_release_fsm release;

    dl_release_fsm_start(&release, deadline_ns, false, true);
    while (release.step != DL_RELEASE_DONE) {
        if (release.step == DL_RELEASE_SEND) {
            dequeue_send(client, claim, use, &release, err);
        } else {
            dl_clock_pause(DL_RELEASE_PAUSE_NS);
            dl_release_fsm_paused(&release, dl_client_now(client));
        }
    }
}

void dl_claim_give_back(struct dlock_client *client, struct dl_claim *claim, enum dl_use use,
                        int64_t deadline_ns)
{
    struct dl_session *session;
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    if (claim->enqueued)
        claim_dequeue(client, claim, use, deadline_ns, &ignored);
    else if (!dl_client_has(client, DLOCK_CAP_SESSION) &&
             dl_claim_session(client, claim, use, deadline_ns, &session, &ignored) == DLOCK_OK)
        (void)dl_claim_unlock(client, claim, use, session, deadline_ns, &ignored);
    claim->enqueued = false;
    dl_claim_forget(client, claim);
    dl_claim_lease_session_put(client, claim, DLOCK_UNKNOWN);
}
