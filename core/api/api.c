/* SPDX-License-Identifier: MIT */
/* api.c - the functions of dlock.h: each checks its arguments and the process, calls the function
 * that does the work, and exports the error. */
#include "acquire/acquire.h"
#include "acquire/cancel.h"
#include "api/adopt.h"
#include "api/client_close.h"
#include "api/client_open.h"
#include "api/handle_free.h"
#include "api/handle_new.h"
#include "api/query.h"
#include "hold/held.h"
#include "hold/renew.h"
#include "hold/unlock.h"
#include "lib/hex.h"
#include "load/registry.h"
#include "sys/error.h"
#include "sys/random.h"
#include "sys/struct_size.h"

#include <string.h>

static bool client_usable(const struct dlock_client *client)
{
    return client != NULL && !dl_client_forked(client);
}

static bool lock_usable(const struct dlock *lock)
{
    return lock != NULL && client_usable(lock->client);
}

static enum dlock_status client_check(const struct dlock_client *client, struct dlock_error *err)
{
    dl_error_begin(err);
    if (client == NULL)
        return dl_error(err, DLOCK_INVALID, "client is NULL");
    if (dl_client_forked(client))
        return dl_error(err, DLOCK_FORKED, "the client was opened before fork");
    return DLOCK_OK;
}

static enum dlock_status lock_check(const struct dlock *lock, struct dlock_error *err)
{
    dl_error_begin(err);
    if (lock == NULL)
        return dl_error(err, DLOCK_INVALID, "lock is NULL");
    if (dl_client_forked(lock->client))
        return dl_error(err, DLOCK_FORKED, "the handle was made before fork");
    return DLOCK_OK;
}

static enum dlock_status name_check(const void *name, size_t len, struct dlock_error *err)
{
    if (name == NULL)
        return dl_error(err, DLOCK_INVALID, "name is NULL");
    if (len < 1 || len > DLOCK_NAME_MAX)
        return dl_error(err, DLOCK_INVALID, "a name has 1 to %d bytes, not %zu", DLOCK_NAME_MAX,
                        len);
    return DLOCK_OK;
}

enum dlock_status dlock_client_open(const char *uri, const struct dlock_client_options *options,
                                    struct dlock_client **out, struct dlock_error *err)
{
    struct dlock_client_options known;
    struct dlock_error e;
    enum dlock_status status;

    dl_error_begin(&e);
    status = dl_struct_import(&known, sizeof known, options,
                              DL_SIZE_TO(struct dlock_client_options, create),
                              "dlock_client_options", &e);
    if (status == DLOCK_OK && out == NULL)
        status = dl_error(&e, DLOCK_INVALID, "out is NULL");
    if (status == DLOCK_OK)
        status = dl_client_open(uri, &known, out, &e);
    return dl_error_export(err, &e, status);
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

uint32_t dlock_client_caps(struct dlock_client *client)
{
    return client_usable(client) ? dl_session_pool_caps(&client->pool) : 0;
}

int64_t dlock_client_ttl_ms(const struct dlock_client *client, int64_t ttl_ms)
{
    if (!client_usable(client))
        return 0;
    if (ttl_ms == 0)
        ttl_ms = client->store->settings.ttl_ms;
    if (ttl_ms < DL_TTL_MIN_MS || ttl_ms > DL_TTL_MAX_MS)
        return 0;
    return dl_ttl_grid_round(&client->pool.ttls, ttl_ms);
}

const char *dlock_client_uri(struct dlock_client *client)
{
    return client == NULL ? "" : client->store->uri;
}

const char *dlock_client_server(struct dlock_client *client)
{
    const struct dlock_session_info *first =
        client == NULL ? NULL : dl_session_pool_first(&client->pool);

    return first == NULL ? "" : first->server;
}

int dlock_client_fd(struct dlock_client *client)
{
    return client_usable(client) ? client->events.fd : -1;
}

int dlock_client_next(struct dlock_client *client, struct dlock_notice *notice,
                      struct dlock_error *err)
{
    struct dl_event_node *node = NULL;
    struct dlock_notice loss;
    struct dlock_error e;
    enum dlock_status status = client_check(client, &e);

    if (status == DLOCK_OK && notice == NULL)
        status = dl_error(&e, DLOCK_INVALID, "notice is NULL");
    if (status == DLOCK_OK && client->on_lost == NULL) {
        (void)pthread_mutex_lock(&client->mutex);
        node = dl_events_pop(&client->events);
        if (node != NULL)
            loss = dl_held_event_locked(node);
        (void)pthread_mutex_unlock(&client->mutex);
    }
    if (node != NULL)
        dl_events_export(notice, &loss);
    (void)dl_error_export(err, &e, status);
    return status != DLOCK_OK ? -1 : node != NULL;
}

enum dlock_status dlock_new(struct dlock_client *client, const void *name, size_t name_len,
                            const struct dlock_options *options, struct dlock **out,
                            struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = client_check(client, &e);

    if (status == DLOCK_OK)
        status = name_check(name, name_len, &e);
    if (status == DLOCK_OK && out == NULL)
        status = dl_error(&e, DLOCK_INVALID, "out is NULL");
    if (status == DLOCK_OK)
        status = dl_handle_new(client, name, name_len, options, out, &e);
    return dl_error_export(err, &e, status);
}

void dlock_free(struct dlock *lock)
{
    if (lock == NULL)
        return;
    if (dl_client_forked(lock->client))
        dl_handle_free_after_fork(lock);
    else
        dl_handle_free(lock);
}

enum dlock_status dlock_acquire(struct dlock *lock, enum dlock_mode mode, int64_t timeout_ms,
                                struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = lock_check(lock, &e);

    if (status == DLOCK_OK && mode != DLOCK_EXCLUSIVE && mode != DLOCK_SHARED)
        status = dl_error(&e, DLOCK_INVALID, "a mode of %d", (int)mode);
    if (status == DLOCK_OK && timeout_ms < DLOCK_WAIT)
        status = dl_error(&e, DLOCK_INVALID, "a timeout of %lld ms", (long long)timeout_ms);
    if (status == DLOCK_OK && atomic_load(&lock->client->unfit))
        status = dl_error(
            &e, DLOCK_CONFIG,
            "dlock_client_probe found that the store cannot keep a lock safely; a probe that "
            "finds it mended ends this");
    if (status == DLOCK_OK)
        status = dl_acquire(lock, mode,
                            timeout_ms == DLOCK_WAIT ? lock->options->wait_ms : timeout_ms, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_unlock(struct dlock *lock, struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = lock_check(lock, &e);

    if (status == DLOCK_OK)
        status = dl_unlock(lock, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_renew(struct dlock *lock, int64_t ttl_ms, struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = lock_check(lock, &e);

    if (status == DLOCK_OK && ttl_ms != 0 && (ttl_ms < DL_TTL_MIN_MS || ttl_ms > DL_TTL_MAX_MS))
        status = dl_error(&e, DLOCK_INVALID, "a ttl of %lld ms: want 50 ms to 7 days",
                          (long long)ttl_ms);
    if (status == DLOCK_OK)
        status = dl_renew(lock, ttl_ms, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_downgrade(struct dlock *lock, struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = lock_check(lock, &e);

    if (status == DLOCK_OK)
        status = dl_renew_downgrade(lock, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_adopt(struct dlock *lock, const char *token, struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = lock_check(lock, &e);

    if (status == DLOCK_OK && token == NULL)
        status = dl_error(&e, DLOCK_INVALID, "token is NULL");
    if (status == DLOCK_OK)
        status = dl_adopt(lock, token, &e);
    return dl_error_export(err, &e, status);
}

void dlock_cancel(struct dlock *lock)
{
    if (lock_usable(lock))
        dl_cancel(lock);
}

void dlock_cancel_reset(struct dlock *lock)
{
    if (lock_usable(lock))
        dl_cancel_reset(lock);
}

/* The lease of a handle changes when its end is found, which no caller can see. */
static struct dl_lease *lease_of(const struct dlock *lock)
{
    return &((struct dlock *)(uintptr_t)lock)->lease;
}

enum dlock_state dlock_state(const struct dlock *lock)
{
    if (!lock_usable(lock))
        return DLOCK_STATE_FREE;
    return dl_lease_state(lease_of(lock), dl_client_now(lock->client));
}

int64_t dlock_remaining_ms(const struct dlock *lock)
{
    if (!lock_usable(lock))
        return 0;
    return dl_lease_left_ns(lease_of(lock), dl_client_now(lock->client)) / DL_NS_PER_MS;
}

uint64_t dlock_fence(const struct dlock *lock)
{
    if (!lock_usable(lock))
        return 0;
    return atomic_load(&lock->fence);
}

size_t dlock_token(const struct dlock *lock, char *hex, size_t size)
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
    enum dlock_status status = client_check(client, &e);

    if (status == DLOCK_OK)
        status = name_check(name, name_len, &e);
    if (status == DLOCK_OK && fn == NULL)
        status = dl_error(&e, DLOCK_INVALID, "the callback is NULL");
    if (status == DLOCK_OK)
        status = dl_query_inspect(client, name, name_len, fn, arg, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_client_list(struct dlock_client *client, const void *prefix,
                                    size_t prefix_len, dlock_holder_fn *fn, void *arg,
                                    struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = client_check(client, &e);

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
    enum dlock_status status = client_check(client, &e);

    if (status == DLOCK_OK)
        status = name_check(name, name_len, &e);
    if (status == DLOCK_OK)
        status = dl_query_break(client, name, name_len, owner, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_client_probe(struct dlock_client *client, dlock_check_fn *fn, void *arg,
                                     struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status = client_check(client, &e);

    if (status == DLOCK_OK)
        status = dl_query_probe(client, fn, arg, &e);
    return dl_error_export(err, &e, status);
}

enum dlock_status dlock_plugins(const char *plugin_dirs, dlock_plugin_fn *fn, void *arg,
                                struct dlock_error *err)
{
    struct dlock_error e;
    enum dlock_status status;

    dl_error_begin(&e);
    if (fn == NULL)
        status = dl_error(&e, DLOCK_INVALID, "the callback is NULL");
    else
        status = dl_registry_each(plugin_dirs, fn, arg, &e);
    return dl_error_export(err, &e, status);
}
