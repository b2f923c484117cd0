/* SPDX-License-Identifier: MIT */
#include "api/adopt.h"
#include "api/query.h"
#include "hold/held.h"
#include "hold/lease.h"
#include "hold/operation.h"
#include "hold/renewer.h"
#include "lib/text.h"
#include "sys/error.h"
#include "sys/random.h"

#include <string.h>
#include <strings.h>

/* What inspect reports of the holder with the token. */
struct found {
    const char *token;
    bool there, endless;
    enum dlock_mode mode;
    uint32_t limit, permit; /* limit 0: a lock */
    uint64_t fence;         /* above the fence of every hand-off it may have had */
};

static bool find_owner(void *arg, const struct dlock_holder *info)
{
    struct found *found = arg;

    if (info->kept || strcasecmp(info->owner, found->token) != 0)
        return 0;
    found->there = true;
    found->endless = info->remaining_ms < 0;
    found->mode = info->mode;
    found->limit = info->limit;
    found->permit = info->permit;
    found->fence = info->fence;
    if (info->mode == DLOCK_EXCLUSIVE) /* readers have no numbers of their own and no hand-offs */
        found->fence = info->fence_last;
    return 1;
}

/* OK: the handle is in the phase ACQUIRING. */
static enum dlock_status adopt_begin(struct dlock_handle *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_state state;
    enum dlock_status status = DLOCK_OK;

    (void)pthread_mutex_lock(&client->mutex);
    state = dl_lease_state(&lock->lease, dl_client_now(client));
    if (client->shutdown)
        status = dl_error(err, DLOCK_CLOSED, "the client is shut down");
    else if (dl_operation_bars_locked(lock->operation, err) != DLOCK_OK)
        status = DLOCK_ALREADY;
    else if (lock->phase == DL_PHASE_IDLE && state == DLOCK_STATE_LOST)
        status = dl_error(err, DLOCK_LOST, "the lock was lost; acknowledge it by dlock_unlock");
    else if (lock->phase != DL_PHASE_IDLE || state != DLOCK_STATE_FREE)
        status = dl_error(err, DLOCK_ALREADY, "this handle holds a lock or is in use");
    else
        status = dl_renewer_start_locked(client, err);
    if (status == DLOCK_OK) {
        lock->phase = DL_PHASE_ACQUIRING;
        client->acquiring++;
    }
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}

static enum dlock_status adopt_supported(const struct dlock_handle *lock, struct dlock_error *err)
{
    if (dl_client_has(lock->client, DLOCK_CAP_SESSION))
        return dl_error(err, DLOCK_UNSUPPORTED,
                        "the leases of this store live in the session that took them");
    if (dl_client_has(lock->client, DLOCK_CAP_TETHERED)) /* [TET-4] */
        return dl_error(err, DLOCK_UNSUPPORTED,
                        "the leases of this store live in the session of the client that took "
                        "them, and end with it");
    if (lock->options->ttl_ms == DLOCK_TTL_NONE)
        return dl_error(err, DLOCK_CONFIG, "ttl=none: an adopted lease ends by time");
    return DLOCK_OK;
}

static enum dlock_status adopt_find(struct dlock_handle *lock, struct found *found,
                                    struct dlock_error *err)
{
    enum dlock_status status =
        dl_query_inspect(lock->client, lock->name->bytes, lock->name->len, find_owner, found, err);

    if (status == DLOCK_OK) /* a lazy client knows its store only now */
        status = adopt_supported(lock, err);
    if (status == DLOCK_OK)
        status = dl_ttl_grid_judge(&lock->client->pool.ttls, lock->options->ttl_ms, err);
    if (status == DLOCK_OK && !found->there)
        return dl_error(err, DLOCK_NOT_HELD, "that token does not hold this name");
    if (status == DLOCK_OK && found->endless && dl_client_has(lock->client, DLOCK_CAP_NO_TTL))
        return dl_error(err, DLOCK_CONFIG,
                        "that lease has no ttl, and ends with the process that took it");
    if (status == DLOCK_OK && lock->options->must_fence && found->fence == 0 &&
        found->mode == DLOCK_EXCLUSIVE)
        return dl_error(err, DLOCK_UNSUPPORTED, "fence=on: the store shows no token");
    return status;
}

/* The lease gives the mode and the limit, and keeps its data. The options of the handle have no
 * effect on them. */
static void adopt_take(struct dlock_handle *lock, const unsigned char *token,
                       const struct found *found)
{
    struct dlock_client *client = lock->client;

    dl_claim_forget(client, lock->claim); /* of an unlock that was not repeated (C22) */
    (void)pthread_mutex_lock(&client->mutex);
    lock->repeatable = false;
    lock->claim->req.mode = found->mode;
    dl_handle_begin_claim_locked(lock, token);
    lock->claim->req.limit = found->limit > 1 ? found->limit : 1;
    lock->claim->req.flags = DLOCK_REQ_ADOPT;
    lock->claim->req.data = NULL;
    lock->claim->req.data_len = 0;
    (void)pthread_mutex_unlock(&client->mutex);
}

/* OK: renewed, and valid until *until_ns. */
static enum dlock_status adopt_renew(struct dlock_handle *lock, int64_t *lease_ms,
                                     int64_t *until_ns, struct dlock_error *err)
{
    int64_t now_ns = dl_client_now(lock->client);
    enum dlock_status status;

    *until_ns = now_ns;
    status = dl_renew_first(lock, dl_clock_after_ms(now_ns, dl_handle_op_timeout_ms(lock)),
                            lease_ms, until_ns, err);
    if (status == DLOCK_LOST)
        return dl_error(err, DLOCK_NOT_HELD, "that token does not hold this name any more");
    if (status == DLOCK_OK &&
        *until_ns - dl_client_now(lock->client) <= dl_handle_least_ns(lock, *lease_ms))
        return dl_error(err, DLOCK_UNKNOWN, "the answer came too late to be of use");
    return status;
}

/* The store has confirmed the lease: the handle holds it. */
static void adopted_locked(struct dlock_handle *lock, const struct dlock_grant *grant,
                           int64_t until_ns)
{
    struct dl_claim *claim = lock->claim;

    claim->fence = grant->fence;
    claim->fence_room = 0;
    claim->handoffs = DL_CLAIM_STAYS; /* it is not known which fences belong to it */
    dl_held_count_locked(lock);
    dl_held_granted_locked(lock, dl_client_now(lock->client), until_ns, grant);
}

enum dlock_status dl_adopt(struct dlock_handle *lock, const char *token, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    struct found found = {.token = token};
    struct dlock_grant grant = {0};
    int64_t until_ns = 0;
    unsigned char bytes[DLOCK_TOKEN_SIZE];
    enum dlock_status status;

    if (!dl_hex_decode(bytes, DLOCK_TOKEN_SIZE, token))
        return dl_error(err, DLOCK_INVALID, "a token has %d hexadecimal digits in lower case",
                        DLOCK_TOKEN_CHARS - 1);
    status = adopt_supported(lock, err);
    if (status == DLOCK_OK)
        status = adopt_begin(lock, err);
    if (status != DLOCK_OK)
        return status;
    status = adopt_find(lock, &found, err);
    if (status == DLOCK_OK) {
        adopt_take(lock, bytes, &found);
        grant.fence = found.fence;
        grant.permit = found.permit;
        status = adopt_renew(lock, &grant.lease_ms, &until_ns, err);
        if (status != DLOCK_OK) /* without a renewal that confirms it, the lease is left as it is */
            dl_claim_forget(client, lock->claim);
    }
    (void)pthread_mutex_lock(&client->mutex);
    if (status == DLOCK_OK)
        adopted_locked(lock, &grant, until_ns);
    dl_held_idle_locked(lock);
    (void)pthread_mutex_unlock(&client->mutex);
    return status;
}
