/* SPDX-License-Identifier: MIT */
/* api.c - the functions of dlock.h: each checks its arguments and the process, calls the function
 * that does the work, and exports the error. */
#include "acquire/acquire.h"
#include "api/adopt.h"
#include "api/check.h"
#include "api/client.h"
#include "api/handle.h"
#include "api/query.h"
#include "async/driver.h"
#include "hold/held.h"
#include "hold/operation.h"
#include "hold/renewer.h"
#include "hold/unlock.h"
#include "lib/text.h"
#include "load/registry.h"
#include "sys/error.h"
#include "sys/random.h"
#include "sys/struct_size.h"

#include <string.h>

static bool client_usable(const struct dlock_client *client)
{
    return client != NULL && !dl_client_forked(client);
}

static bool lock_usable(const struct dlock_handle *lock)
{
    return lock != NULL && client_usable(lock->client);
}

/* Begins *err. caller: the error of the call. */
static enum dlock_status lock_check(const struct dlock_handle *lock,
                                    const struct dlock_error *caller, struct dlock_error *err)
{
    dl_error_begin(err, caller);
    if (lock == NULL)
        return dl_error(err, DLOCK_INVALID, "lock is NULL");
    if (dl_client_forked(lock->client))
        return dl_error(err, DLOCK_FORKED, "the handle was made before fork");
    return DLOCK_OK;
}

typedef enum dlock_status open_fn(const char *uri, const struct dlock_client_options *options,
                                  struct dlock_client **out, struct dlock_error *err);

static enum dlock_status client_open(open_fn *open, const char *uri,
                                     const struct dlock_client_options *options,
                                     struct dlock_client **out, struct dlock_error *err)
{
    struct dlock_client_options known;
    struct dlock_error e;
    enum dlock_status status;

    dl_error_begin(&e, err);
    status = dl_struct_import(&known, sizeof known, options, "dlock_client_options", &e);
    if (status == DLOCK_OK && out == NULL)
        status = dl_error(&e, DLOCK_INVALID, "out is NULL");
    if (status == DLOCK_OK)
        status = open(uri, &known, out, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_client_open(const char *uri, const struct dlock_client_options *options,
                                    struct dlock_client **out, struct dlock_error *err)
{
    return client_open(dl_client_open, uri, options, out, err);
}

enum dlock_status dlock_client_open_start(const char *uri,
                                          const struct dlock_client_options *options,
                                          struct dlock_client **out, struct dlock_error *err)
{
    return client_open(dl_client_open_start, uri, options, out, err);
}

void dlock_client_shutdown(struct dlock_client *client)
{
    if (client_usable(client))
        dl_client_shutdown(client);
}

void dlock_client_close(struct dlock_client *client)
{
    if (client != NULL)
        dl_client_close(client);
}

uint64_t dlock_client_caps(const struct dlock_client *client)
{
    /* A look takes the mutex of the pool, which no caller can see. */
    struct dlock_client *looked_at = (struct dlock_client *)(uintptr_t)client;

    return client_usable(client) ? dl_session_pool_caps(&looked_at->pool) : 0;
}

int64_t dlock_client_ttl_ms(const struct dlock_client *client, int64_t ttl_ms)
{
    if (!client_usable(client))
        return 0;
    if (ttl_ms == 0)
        ttl_ms = client->store->settings.ttl_ms;
    if (ttl_ms == DLOCK_TTL_NONE)
        return (dlock_client_caps(client) & DLOCK_CAP_NO_TTL) != 0 ? ttl_ms : 0;
    if (ttl_ms < DL_TTL_MIN_MS || ttl_ms > DL_TTL_MAX_MS)
        return 0;
    return dl_ttl_grid_round(&client->pool.ttls, ttl_ms);
}

const char *dlock_client_uri(const struct dlock_client *client)
{
    return client == NULL ? "" : client->store->uri;
}

const char *dlock_client_server(const struct dlock_client *client)
{
    const struct dlock_session_info *first =
        client == NULL ? NULL : dl_session_pool_first(&client->pool);

    return first == NULL ? "" : first->server;
}

int dlock_client_fd(const struct dlock_client *client)
{
    return client_usable(client) ? client->events.fd : -1;
}

/* Of a node that was taken out of the queue. */
static void notice_locked(const struct dlock_client *client, struct dl_event_node *node,
                          struct dlock_notice *notice)
{
    if (node->kind == DLOCK_NOTICE_LOST)
        dl_held_event_locked(node, notice);
    else if (node->kind == DLOCK_NOTICE_OPENED)
        dl_driver_opened_locked(client, notice);
    else
        dl_operation_notice_locked(node, notice);
}

enum dlock_status dlock_client_next(struct dlock_client *client, struct dlock_notice *notice,
                                    struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = dl_check_client(client, err, &e);

    if (status == DLOCK_OK && notice == NULL)
        status = dl_error(&e, DLOCK_INVALID, "notice is NULL");
    if (status == DLOCK_OK)
        status = dl_struct_size_check(notice->struct_size, sizeof *notice, "dlock_notice", &e);
    if (status == DLOCK_OK)
        *notice = (struct dlock_notice)DLOCK_NOTICE_INIT;
    if (status == DLOCK_OK && client->on_lost == NULL) {
        struct dl_event_node *node;

        (void)pthread_mutex_lock(&client->mutex);
        node = dl_events_pop(&client->events);
        if (node != NULL)
            notice_locked(client, node, notice);
        (void)pthread_mutex_unlock(&client->mutex);
    }
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_new(struct dlock_client *client, const void *name, size_t name_len,
                            const struct dlock_options *options, struct dlock_handle **out,
                            struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = dl_check_client(client, err, &e);

    if (status == DLOCK_OK)
        status = dl_check_name(name, &name_len, &e);
    if (status == DLOCK_OK && out == NULL)
        status = dl_error(&e, DLOCK_INVALID, "out is NULL");
    if (status == DLOCK_OK)
        status = dl_handle_new(client, name, name_len, options, out, &e);
    return dl_error_export(err, &e, status);
}

void dlock_free(struct dlock_handle *lock)
{
    if (lock == NULL)
        return;
    if (dl_client_forked(lock->client))
        dl_handle_free_after_fork(lock);
    else
        dl_handle_free(lock);
}

/* *timeout_ms: resolved. */
static enum dlock_status acquire_check(const struct dlock_handle *lock, enum dlock_mode mode,
                                       int64_t *timeout_ms, struct dlock_error *err)
{
    enum dlock_status status = dl_check_acquire(lock->client, mode, *timeout_ms, err);

    if (*timeout_ms == DLOCK_AS_OPTIONS)
        *timeout_ms = lock->options->wait_ms;
    return status;
}

enum dlock_status dlock_acquire(struct dlock_handle *lock, enum dlock_mode mode, int64_t timeout_ms,
                                struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = lock_check(lock, err, &e);

    if (status == DLOCK_OK)
        status = acquire_check(lock, mode, &timeout_ms, &e);
    if (status == DLOCK_OK)
        status = dl_acquire(lock, mode, timeout_ms, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_lock(struct dlock_handle *lock, struct dlock_error *err)
{
    return dlock_acquire(lock, DLOCK_EXCLUSIVE, DLOCK_AS_OPTIONS, err);
}

enum dlock_status dlock_trylock(struct dlock_handle *lock, struct dlock_error *err)
{
    return dlock_acquire(lock, DLOCK_EXCLUSIVE, 0, err);
}

enum dlock_status dlock_timedlock(struct dlock_handle *lock, int64_t timeout_ms,
                                  struct dlock_error *err)
{
    return dlock_acquire(lock, DLOCK_EXCLUSIVE, timeout_ms, err);
}

enum dlock_status dlock_rdlock(struct dlock_handle *lock, struct dlock_error *err)
{
    return dlock_acquire(lock, DLOCK_SHARED, DLOCK_AS_OPTIONS, err);
}

enum dlock_status dlock_tryrdlock(struct dlock_handle *lock, struct dlock_error *err)
{
    return dlock_acquire(lock, DLOCK_SHARED, 0, err);
}

enum dlock_status dlock_timedrdlock(struct dlock_handle *lock, int64_t timeout_ms,
                                    struct dlock_error *err)
{
    return dlock_acquire(lock, DLOCK_SHARED, timeout_ms, err);
}

enum dlock_status dlock_op_start(struct dlock_handle *lock, enum dlock_op op, int64_t timeout_ms,
                                 struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = lock_check(lock, err, &e);

    if (status == DLOCK_OK && (op < DLOCK_OP_LOCK || op > DLOCK_OP_DOWNGRADE))
        status = dl_error(&e, DLOCK_INVALID, "an operation of %d", (int)op);
    if (status == DLOCK_OK && (op == DLOCK_OP_LOCK || op == DLOCK_OP_RDLOCK))
        status = acquire_check(lock, DLOCK_EXCLUSIVE, &timeout_ms, &e);
    if (status == DLOCK_OK)
        status = dl_driver_start(lock, op, timeout_ms, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_unlock(struct dlock_handle *lock, struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = lock_check(lock, err, &e);

    if (status == DLOCK_OK)
        status = dl_unlock(lock, DL_NEVER, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_keep_name(struct dlock_handle *lock, int64_t keep_ms,
                                  struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = lock_check(lock, err, &e);

    if (status == DLOCK_OK && (keep_ms < 0 || keep_ms > DL_KEEP_MAX_MS))
        status =
            dl_error(&e, DLOCK_INVALID, "a keep_ms of %lld: want 0 to 7 days", (long long)keep_ms);
    if (status == DLOCK_OK)
        status = dl_held_keep(lock, keep_ms, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_renew(struct dlock_handle *lock, int64_t ttl_ms, struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = lock_check(lock, err, &e);

    if (status == DLOCK_OK)
        status = dl_check_ttl(ttl_ms, &e);
    if (status == DLOCK_OK)
        status = dl_renew(lock, ttl_ms, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_downgrade(struct dlock_handle *lock, struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = lock_check(lock, err, &e);

    if (status == DLOCK_OK)
        status = dl_renew_downgrade(lock, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_adopt(struct dlock_handle *lock, const char *token, struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = lock_check(lock, err, &e);

    if (status == DLOCK_OK && token == NULL)
        status = dl_error(&e, DLOCK_INVALID, "token is NULL");
    if (status == DLOCK_OK)
        status = dl_adopt(lock, token, &e);
    return dl_error_export(err, &e, status);
}

void dlock_cancel(struct dlock_handle *lock)
{
    if (lock_usable(lock))
        dl_acquire_cancel(lock);
}

void dlock_cancel_reset(struct dlock_handle *lock)
{
    if (lock_usable(lock))
        dl_acquire_cancel_reset(lock);
}

/* The lease of a handle changes when its end is found, which no caller can see. */
static struct dl_lease *lease_of(const struct dlock_handle *lock)
{
    return &((struct dlock_handle *)(uintptr_t)lock)->lease;
}

enum dlock_state dlock_state(const struct dlock_handle *lock)
{
    if (!lock_usable(lock))
        return DLOCK_STATE_FREE;
    return dl_lease_state(lease_of(lock), dl_client_now(lock->client));
}

int64_t dlock_remaining_ms(const struct dlock_handle *lock)
{
    int64_t left_ms;

    if (!lock_usable(lock))
        return 0;
    left_ms = dl_lease_left_ns(lease_of(lock), dl_client_now(lock->client)) / DL_NS_PER_MS;
    return dl_lease_is_endless(left_ms) ? DLOCK_TTL_NONE : left_ms;
}

uint64_t dlock_fence(const struct dlock_handle *lock)
{
    if (!lock_usable(lock))
        return 0;
    return atomic_load(&lock->fence);
}

uint32_t dlock_permit(const struct dlock_handle *lock)
{
    if (!lock_usable(lock))
        return 0;
    return atomic_load(&lock->permit);
}

int64_t dlock_since_ms(const struct dlock_handle *lock)
{
    int64_t since_ns = 0;

    if (!lock_usable(lock))
        return 0;
    (void)pthread_mutex_lock(&lock->client->mutex);
    if (dlock_remaining_ms(lock) > 0)
        since_ns = lock->since_ns;
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return since_ns / DL_NS_PER_MS;
}

size_t dlock_token(const struct dlock_handle *lock, char *hex, size_t size)
{
    unsigned char token[DLOCK_TOKEN_SIZE];
    bool held;

    if (hex == NULL || size < DLOCK_TOKEN_CHARS || !lock_usable(lock))
        return 0;
    (void)pthread_mutex_lock(&lock->client->mutex);
    held = dlock_state(lock) != DLOCK_STATE_FREE;
    memcpy(token, lock->claim->req.token, sizeof token);
    lock->claim->token_exported |= held;
    (void)pthread_mutex_unlock(&lock->client->mutex);
    if (!held)
        return 0;
    dl_hex_encode(hex, token, sizeof token);
    return DLOCK_TOKEN_CHARS - 1;
}

enum dlock_status dlock_client_inspect(struct dlock_client *client, const void *name,
                                       size_t name_len, dlock_holder_fn *fn, void *arg,
                                       struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = dl_check_client(client, err, &e);

    if (status == DLOCK_OK)
        status = dl_check_name(name, &name_len, &e);
    if (status == DLOCK_OK && fn == NULL)
        status = dl_error(&e, DLOCK_INVALID, "the callback is NULL");
    if (status == DLOCK_OK)
        status = dl_query_inspect(client, name, name_len, fn, arg, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_client_list_waiters(struct dlock_client *client, const void *name,
                                            size_t name_len, dlock_waiter_fn *fn, void *arg,
                                            struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = dl_check_client(client, err, &e);

    if (status == DLOCK_OK)
        status = dl_check_name(name, &name_len, &e);
    if (status == DLOCK_OK && fn == NULL)
        status = dl_error(&e, DLOCK_INVALID, "the callback is NULL");
    if (status == DLOCK_OK)
        status = dl_query_waiters(client, name, name_len, fn, arg, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_client_list(struct dlock_client *client, const void *prefix,
                                    size_t prefix_len, dlock_holder_fn *fn, void *arg,
                                    struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = dl_check_client(client, err, &e);

    if (prefix_len == DLOCK_NUL)
        prefix_len = prefix == NULL ? 0 : strnlen(prefix, DLOCK_NAME_MAX + 1);
    if (status == DLOCK_OK && prefix_len > DLOCK_NAME_MAX)
        status = dl_error(&e, DLOCK_INVALID, "a prefix has at most %d bytes", DLOCK_NAME_MAX);
    if (status == DLOCK_OK && (fn == NULL || (prefix == NULL && prefix_len > 0)))
        status = dl_error(&e, DLOCK_INVALID, "the callback or the prefix is NULL");
    if (status == DLOCK_OK)
        status = dl_query_list(client, prefix_len == 0 ? "" : prefix, prefix_len, fn, arg, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_client_break(struct dlock_client *client, const void *name, size_t name_len,
                                     const char *owner, struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = dl_check_client(client, err, &e);

    if (status == DLOCK_OK)
        status = dl_check_name(name, &name_len, &e);
    if (status == DLOCK_OK)
        status = dl_query_break(client, name, name_len, owner, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_client_probe(struct dlock_client *client, dlock_check_fn *fn, void *arg,
                                     struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = dl_check_client(client, err, &e);

    if (status == DLOCK_OK)
        status = dl_query_probe(client, fn, arg, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_plugin_list(const char *plugin_dirs, dlock_plugin_fn *fn, void *arg,
                                    struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status;

    dl_error_begin(&e, err);
    if (fn == NULL)
        status = dl_error(&e, DLOCK_INVALID, "the callback is NULL");
    else
        status = dl_registry_each(plugin_dirs, fn, arg, &e);
    return dl_error_export(err, &e, status);
}
