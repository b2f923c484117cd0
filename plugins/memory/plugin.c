/* SPDX-License-Identifier: MIT */
/*
 * memory://name - a store inside this process. The reference backend: it does what plugin.h asks
 * of a plugin in the plainest way, and is the template for new ones.
 *
 * Threads of the process that open the same name share the store. A lease stays for its time even
 * when every session is closed; the fence rises for as long as the process lives. Nothing of it
 * reaches another process, a forked child included.
 */
#include "memory.h"

#include <string.h>
#include <unistd.h>

#define MEMORY_CAPS (DLOCK_CAP_FENCE | DLOCK_CAP_WATCH | DLOCK_CAP_CONCURRENT | DLOCK_CAP_PRIVATE)

/* Never shortens what was promised [TRY-5] [REN-3]. */
static void lease_extend(struct memory_name *name, int64_t ttl_ms, int64_t now_ns)
{
    int64_t expires_ns = now_ns + ttl_ms * MEMORY_NS_PER_MS;

    if (expires_ns > name->expires_ns)
        name->expires_ns = expires_ns;
}

/* Rounded down: the store keeps the lease for at least what it says. */
static void grant_fill(struct dlock_grant *grant, const struct memory_name *name, int64_t now_ns)
{
    grant->fence = name->fence;
    grant->fence_room = MEMORY_FENCE_ROOM;
    grant->lease_ms = (name->expires_ns - now_ns) / MEMORY_NS_PER_MS;
    grant->waiters = memory_name_waiters(name);
}

static void info_fill(struct dlock_session_info *info, const struct memory_session *session)
{
    info->caps = MEMORY_CAPS;
    (void)snprintf(info->server, sizeof info->server, "memory of process %ld", (long)getpid());
    (void)snprintf(info->endpoint, sizeof info->endpoint, "%s", session->store->id);
}

static enum dlock_status memory_init(const struct dlock_host *host, struct dlock_error *err)
{
    (void)host;
    (void)err;
    memory_store_init();
    return DLOCK_OK;
}

static enum dlock_status memory_open(void *self, const struct dlock_host *host,
                                     const struct dlock_target *target, int64_t deadline_ns,
                                     struct dlock_session_info *info, struct dlock_error *err)
{
    struct memory_session *session = self;
    const char *id = target->hosts[0];

    (void)deadline_ns; /* nothing here waits for long */
    if (id == NULL || target->hosts[1] != NULL)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_INVALID, 0,
                          "want one store name, as in memory://x");
    if (target->path[0] != '\0' || target->user != NULL || target->password != NULL)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_INVALID, 0,
                          "memory://%s takes no user, password or path", id);
    if (memory_store_forked())
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_FORKED, 0,
                          "memory://%s stays in the process that used it first", id);
    session->host = host;
    session->store = memory_store_hold(id, host);
    if (session->store == NULL)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_NOMEM, 0, "no memory for store %s", id);
    info_fill(info, session);
    return DLOCK_OK;
}

static void memory_close(void *self, int forked)
{
    struct memory_session *session = self;

    if (forked || session->store == NULL)
        return;
    memory_store_rele(session->store, session->host);
    session->store = NULL;
}

static enum dlock_status try_locked(const struct memory_session *session,
                                    const struct dlock_request *req, struct dlock_grant *grant)
{
    struct memory_store *store = session->store;
    struct memory_name *name = memory_name_get(store, req->name, req->name_len);
    int64_t now_ns = memory_store_now(store, session->host);

    if (name == NULL)
        return DLOCK_NOMEM;
    if (memory_name_held_by(name, req->token, now_ns)) {
        lease_extend(name, req->ttl_ms, now_ns);
    } else if (memory_name_held(name, now_ns)) {
        grant->holder_ms = memory_name_left_ms(name, now_ns);
        grant->waiters = memory_name_waiters(name);
        return DLOCK_BUSY;
    } else {
        memcpy(name->token, req->token, sizeof name->token);
        (void)snprintf(name->label, sizeof name->label, "%s", req->label != NULL ? req->label : "");
        name->fence = memory_fence_next();
        name->since_ns = now_ns;
        name->expires_ns = now_ns + req->ttl_ms * MEMORY_NS_PER_MS;
    }
    grant_fill(grant, name, now_ns);
    return DLOCK_OK;
}

static enum dlock_status memory_trylock(void *self, const struct dlock_request *req,
                                        struct dlock_grant *grant, struct dlock_error *err)
{
    struct memory_session *session = self;
    enum dlock_status status = DLOCK_INTERNAL;

    if (req->mode != DLOCK_EXCLUSIVE)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_UNSUPPORTED, 0, "exclusive mode only");
    (void)pthread_mutex_lock(&session->store->mutex);
    status = try_locked(session, req, grant);
    (void)pthread_mutex_unlock(&session->store->mutex);
    if (status == DLOCK_NOMEM)
        return dlock_fail(err, MEMORY_ORIGIN, status, 0, "no memory for one more name");
    return status;
}

static enum dlock_status memory_renew(void *self, struct dlock_lease_op *ops, size_t n,
                                      int64_t deadline_ns, struct dlock_error *err)
{
    struct memory_session *session = self;
    struct memory_store *store = session->store;

    (void)deadline_ns;
    (void)err;
    (void)pthread_mutex_lock(&store->mutex);
    for (size_t i = 0; i < n; i++) {
        const struct dlock_request *req = ops[i].req;
        struct memory_name *name = memory_name_find(store, req->name, req->name_len);
        int64_t now_ns = memory_store_now(store, session->host);

        ops[i].status = DLOCK_LOST;
        if (name != NULL && memory_name_held_by(name, req->token, now_ns)) {
            lease_extend(name, req->ttl_ms, now_ns);
            grant_fill(&ops[i].grant, name, now_ns);
            ops[i].status = DLOCK_OK;
        }
    }
    (void)pthread_mutex_unlock(&store->mutex);
    return DLOCK_OK;
}

static enum dlock_status memory_unlock(void *self, const struct dlock_request *req,
                                       struct dlock_error *err)
{
    struct memory_session *session = self;
    struct memory_store *store = session->store;
    struct memory_name *name = NULL;
    int mine = 0;

    (void)pthread_mutex_lock(&store->mutex);
    name = memory_name_find(store, req->name, req->name_len);
    mine = name != NULL &&
           memory_name_held_by(name, req->token, memory_store_now(store, session->host));
    if (mine)
        memory_name_free(store, name);
    (void)pthread_mutex_unlock(&store->mutex);
    memory_waiter_fini(req->slot);
    if (!mine)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_LOST, 0, "the name is not held by this token");
    return DLOCK_OK;
}

static void memory_forget(void *self, const struct dlock_request *req)
{
    (void)self;
    memory_waiter_fini(req->slot);
}

static enum dlock_status memory_watch(void *self, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    struct memory_session *session = self;
    enum dlock_status status = DLOCK_INTERNAL;

    (void)grant; /* of a queue only */
    (void)pthread_mutex_lock(&session->store->mutex);
    status = memory_waiter_sleep(req->slot, session, req);
    (void)pthread_mutex_unlock(&session->store->mutex);
    if (status == DLOCK_BUSY)
        return status;
    return dlock_fail(err, MEMORY_ORIGIN, status, 0, "the watch ended before the name was free");
}

static void memory_interrupt(void *self, const struct dlock_request *req)
{
    struct memory_session *session = self;

    (void)pthread_mutex_lock(&session->store->mutex);
    memory_waiter_interrupt(req->slot);
    (void)pthread_mutex_unlock(&session->store->mutex);
}

static enum dlock_status memory_break(void *self, const unsigned char *bytes, uint32_t len,
                                      const char *owner, int64_t deadline_ns,
                                      struct dlock_error *err)
{
    struct memory_session *session = self;
    struct memory_store *store = session->store;
    struct memory_name *name = NULL;
    char holder[MEMORY_HEX_SIZE] = "";
    int found = 0;

    (void)deadline_ns;
    (void)pthread_mutex_lock(&store->mutex);
    name = memory_name_find(store, bytes, len);
    if (name != NULL && memory_name_held(name, memory_store_now(store, session->host))) {
        memory_hex(holder, name->token);
        found = owner == NULL || strcmp(owner, holder) == 0;
    }
    if (found)
        memory_name_free(store, name);
    (void)pthread_mutex_unlock(&store->mutex);
    if (!found)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_NOT_HELD, 0,
                          holder[0] == '\0' ? "the name is free" : "held by another owner");
    return DLOCK_OK;
}

static enum dlock_status memory_probe(void *self, int64_t deadline_ns,
                                      struct dlock_session_info *info, dlock_check_fn *fn,
                                      void *arg, struct dlock_error *err)
{
    static const struct dlock_check reach = {
        .name = "reach",
        .found = "this process only",
        .advice = "locks among processes need another store, such as sqlite:",
    };

    (void)deadline_ns;
    (void)err;
    info_fill(info, self);
    if (fn != NULL)
        fn(arg, &reach);
    return DLOCK_OK;
}

static const struct dlock_backend_ops memory_ops = {
    .struct_size = sizeof memory_ops,
    .session_size = sizeof(struct memory_session),
    .slot_size = sizeof(struct memory_waiter),
    .open = memory_open,
    .close = memory_close,
    .trylock = memory_trylock,
    .renew = memory_renew,
    .unlock = memory_unlock,
    .forget = memory_forget,
    .watch = memory_watch,
    .interrupt = memory_interrupt,
    .inspect = memory_inspect,
    .list = memory_list,
    .break_lock = memory_break,
    .probe = memory_probe,
};

static const char *const memory_schemes[] = {"memory", NULL};
static const struct dlock_option_spec memory_options[] = {{.name = NULL}};

static const struct dlock_plugin memory_plugin = {
    .magic = DLOCK_PLUGIN_MAGIC,
    .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
    .abi_minor = DLOCK_PLUGIN_ABI_MINOR,
    .struct_size = sizeof memory_plugin,
    .caps = MEMORY_CAPS,
    .name = "memory",
    .version = "1",
    .schemes = memory_schemes,
    .options = memory_options,
    .init = memory_init,
    .ops = &memory_ops,
};

DLOCK_PLUGIN_ENTRY(memory, &memory_plugin)
