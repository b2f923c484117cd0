/* SPDX-License-Identifier: MIT */
#include "hold/handle.h"
#include "hold/lease.h"
#include "hold/operation.h"
#include "sys/error.h"

#include <stdlib.h>

/* A queue grants leases of its waiter_lease, which may be below a tenth of the ttl. */
#define SHORT_LEAST_NS DL_NS_PER_S

void dl_handle_link_locked(struct dlock_handle *lock)
{
    struct dlock_client *client = lock->client;

    lock->prev = client->locks_last;
    lock->next = NULL;
    if (lock->prev != NULL)
        lock->prev->next = lock;
    else
        client->locks = lock;
    client->locks_last = lock;
}

void dl_handle_unlink_locked(struct dlock_handle *lock)
{
    struct dlock_client *client = lock->client;

    if (lock->prev != NULL)
        lock->prev->next = lock->next;
    else
        client->locks = lock->next;
    if (lock->next != NULL)
        lock->next->prev = lock->prev;
    else
        client->locks_last = lock->prev;
}

void dl_handle_move_to_tail_locked(struct dlock_handle *lock)
{
    dl_handle_unlink_locked(lock);
    dl_handle_link_locked(lock);
}

int64_t dl_handle_ttl_ms(const struct dlock_handle *lock)
{
    return dl_client_ttl_ms(lock->client, lock->options->ttl_ms);
}

int64_t dl_handle_op_timeout_ms(const struct dlock_handle *lock)
{
    return dl_settings_op_timeout_ms(lock->options->op_timeout_ms, dl_handle_ttl_ms(lock));
}

int64_t dl_handle_least_ns(const struct dlock_handle *lock, int64_t lease_ms)
{
    int64_t lease_ns = dl_lease_least_ns(lease_ms);
    int64_t ttl_ns = dl_lease_least_ns(lock->claim->req.ttl_ms);

    if (dl_client_has(lock->client, DLOCK_CAP_SESSION))
        return lease_ns;
    if (!dl_client_has(lock->client, DLOCK_CAP_TETHERED))
        ttl_ns = dl_earlier(ttl_ns, SHORT_LEAST_NS);
    return dl_later(lease_ns, ttl_ns);
}

void dl_handle_mark_claim(struct dlock_handle *lock)
{
    lock->claim->req.label = lock->options->label;
    lock->claim->req.end = lock->options->end;
    lock->claim->req.op_timeout_ms = dl_handle_op_timeout_ms(lock);
    lock->claim->req.limit = lock->options->limit;
    lock->claim->req.data = lock->options->data;
    lock->claim->req.data_len = lock->options->data_len;
}

void dl_handle_begin_claim_locked(struct dlock_handle *lock,
                                  const unsigned char token[DLOCK_TOKEN_SIZE])
{
    dl_handle_mark_claim(lock);
    lock->claim->req.ttl_ms = dl_handle_ttl_ms(lock);
    dl_claim_begin_locked(lock->client, lock->claim, token);
}

enum dlock_status dl_handle_supported(const struct dlock_handle *lock, enum dlock_mode mode,
                                      struct dlock_error *err)
{
    uint64_t caps = dl_session_pool_caps(&lock->client->pool);

    if (lock->options->must_fence && (caps & DLOCK_CAP_FENCE) == 0)
        return dl_error(err, DLOCK_UNSUPPORTED, "fence=on: this store gives no fencing tokens");
    if (lock->options->limit > 1 && (caps & DLOCK_CAP_LIMIT) == 0)
        return dl_error(err, DLOCK_UNSUPPORTED, "this store has no semaphores (limit %u)",
                        lock->options->limit);
    if (lock->options->keep_ms > 0 && (caps & DLOCK_CAP_KEEP) == 0)
        return dl_error(err, DLOCK_UNSUPPORTED, "this store cannot keep a name after its release");
    if (lock->options->ttl_ms == DLOCK_TTL_NONE && (caps & DLOCK_CAP_NO_TTL) == 0)
        return dl_error(err, DLOCK_CONFIG,
                        "ttl=none: the leases of this store end by time; only a store that sees "
                        "its processes (sqlite) can do without");
    if (lock->options->ttl_ms == DLOCK_TTL_NONE && lock->options->end == DLOCK_END_TTL)
        return dl_error(err, DLOCK_CONFIG,
                        "ttl=none: a lease that outlives its process needs a ttl");
    if (lock->options->data_len > 0 && (caps & DLOCK_CAP_DATA) == 0)
        return dl_error(err, DLOCK_UNSUPPORTED, "this store cannot publish data of a holder");
    /* Before the first session these are of the plugin, one of whose strategies has them. */
    if (lock->options->kill && dl_session_pool_first(&lock->client->pool) != NULL &&
        (caps & (DLOCK_CAP_SESSION | DLOCK_CAP_TETHERED)) != 0)
        return dl_error(err, DLOCK_UNSUPPORTED,
                        "on_expiry: leases of this store live in a session; take a strategy or a "
                        "store whose leases end with a ttl, or DLOCK_EXPIRE_REPORT");
    if (mode == DLOCK_SHARED && (lock->options->limit > 1 || lock->options->keep_ms > 0))
        return dl_error(err, DLOCK_INVALID, "limit and keep_ms are for the exclusive mode");
    if (mode == DLOCK_SHARED && (caps & DLOCK_CAP_RWLOCK) == 0)
        return dl_error(err, DLOCK_UNSUPPORTED, "this store has no shared mode");
    return dl_ttl_grid_judge(&lock->client->pool.ttls, lock->options->ttl_ms, err);
}

void dl_handle_changed_locked(struct dlock_handle *lock)
{
    dl_wait_list_wake_locked(&lock->changed);
    if (dl_operation_in_progress(lock->operation))
        dl_run_queue_wake_locked(lock->client->run_queue, &lock->operation->run,
                                 dl_client_now(lock->client));
}

void dl_handle_sleep_locked(struct dlock_handle *lock, int64_t until_ns)
{
    dl_wait_list_sleep_locked(&lock->changed, &lock->client->mutex, &lock->client->host.clock,
                              until_ns);
}

void dl_handle_await_change_locked(struct dlock_handle *lock)
{
    lock->queued++;
    dl_handle_sleep_locked(lock, DL_NEVER);
    if (--lock->queued == 0)
        dl_handle_changed_locked(lock);
}

void dl_handle_wait_for_renewal_locked(struct dlock_handle *lock)
{
    while (lock->phase != DL_PHASE_ACQUIRING &&
           (lock->phase != DL_PHASE_IDLE || lock->renewer_busy))
        dl_handle_await_change_locked(lock);
}

void dl_handle_discard(struct dlock_handle *lock)
{
    struct dlock_client *client = lock->client;

    (void)pthread_mutex_lock(&client->mutex);
    if (lock->name != NULL)
        dl_name_state_unref(&client->names, lock->name);
    dl_lock_options_unref(lock->options);
    (void)pthread_mutex_unlock(&client->mutex);
    dl_claim_free(lock->claim);
    free(lock);
}
