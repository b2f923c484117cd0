/* SPDX-License-Identifier: MIT */
/*
 * memory://name - a store inside this process, and the template for new plugins: it does what
 * plugin.h asks of a plugin in the plainest way. Copy it, and begin with session.h, which has the
 * map.
 *
 * Threads of the process that open the same name share the store. A lease lasts for its ttl even
 * after every session is closed, and fences rise while the process lives. Other processes, forked
 * children included, see nothing of it.
 */
#include "lib/time.h"
#include "queue.h"
#include "session.h"
#include "store.h"

#include <unistd.h>

#define MEMORY_CAPS                                                                 \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_WATCH |   \
     DLOCK_CAP_QUEUE | DLOCK_CAP_CONCURRENT | DLOCK_CAP_PRIVATE | DLOCK_CAP_LIMIT | \
     DLOCK_CAP_KEEP | DLOCK_CAP_DATA)

/* INVALID. */
static enum dlock_status config_read(struct memory_config *config,
                                     const struct dlock_target *target, struct dlock_error *err)
{
    config->id = target->hosts[0];
    if (config->id == NULL || target->hosts[1] != NULL)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_INVALID, 0,
                          "want one store name, as in memory://x");
    if (target->path[0] != '\0' || target->user != NULL || target->password != NULL)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_INVALID, 0,
                          "memory://%s takes no user, password or path", config->id);
    config->waiter_ttl_ms = target->number(target, "waiter_lease");
    return DLOCK_OK;
}

#define NOT_HELD "the name is not held by this token"

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
    enum dlock_status status = config_read(&session->config, target, err);

    (void)deadline_ns; /* nothing here waits for long */
    if (status != DLOCK_OK)
        return status;
    if (memory_store_is_child())
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_FORKED, 0,
                          "memory://%s cannot be opened in a forked child of a process that "
                          "used the memory plugin; open it after exec",
                          session->config.id);
    session->host = host;
    if (dl_deadline_cond_init(&session->pending.wake) != 0)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_NOMEM, 0, "no condition variable");
    session->store = memory_store_ref(session->config.id, host);
    if (session->store == NULL) {
        (void)pthread_cond_destroy(&session->pending.wake);
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_NOMEM, 0, "no memory for store %s",
                          session->config.id);
    }
    info_fill(info, session);
    return DLOCK_OK;
}

static void memory_close(void *self, bool forked)
{
    struct memory_session *session = self;

    if (forked || session->store == NULL)
        return;
    memory_store_unref(session->store, session->host);
    (void)pthread_cond_destroy(&session->pending.wake);
    session->store = NULL;
}

static enum dlock_status memory_trylock(void *self, const struct dlock_request *req,
                                        struct dlock_grant *grant, struct dlock_error *err)
{
    struct memory_session *session = self;
    enum dlock_status status = DLOCK_INTERNAL;

    (void)pthread_mutex_lock(&session->store->mutex);
    status = memory_lease_try(session, req, grant, err);
    (void)pthread_mutex_unlock(&session->store->mutex);
    return status;
}

static enum dlock_status memory_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                      int64_t deadline_ns, struct dlock_error *err)
{
    struct memory_session *session = self;

    (void)deadline_ns;
    (void)err;
    (void)pthread_mutex_lock(&session->store->mutex);
    for (size_t i = 0; i < n; i++)
        ops[i]->status = memory_lease_renew(session, ops[i]);
    (void)pthread_mutex_unlock(&session->store->mutex);
    return DLOCK_OK;
}

static enum dlock_status memory_unlock(void *self, const struct dlock_request *req,
                                       struct dlock_error *err)
{
    struct memory_session *session = self;
    bool mine = false;

    (void)pthread_mutex_lock(&session->store->mutex);
    mine = memory_lease_end(session, req, false);
    memory_watch_end(session, req);
    (void)pthread_mutex_unlock(&session->store->mutex);
    memory_waiter_fini(req->attempt);
    if (!mine)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_LOST, 0, NOT_HELD);
    return DLOCK_OK;
}

/* Each element as if it came alone; one mutex, and so one exchange, for all. */
static enum dlock_status memory_trylock_batch(void *self, struct dlock_batch_op *const *ops,
                                              size_t n, struct dlock_error *err)
{
    struct memory_session *session = self;

    (void)err;
    (void)pthread_mutex_lock(&session->store->mutex);
    for (size_t i = 0; i < n; i++)
        ops[i]->status = memory_lease_try(session, ops[i]->req, &ops[i]->grant, ops[i]->err);
    (void)pthread_mutex_unlock(&session->store->mutex);
    return DLOCK_OK;
}

static enum dlock_status memory_unlock_batch(void *self, struct dlock_batch_op *const *ops,
                                             size_t n, struct dlock_error *err)
{
    struct memory_session *session = self;

    (void)err;
    (void)pthread_mutex_lock(&session->store->mutex);
    for (size_t i = 0; i < n; i++) {
        ops[i]->status = memory_lease_end(session, ops[i]->req, false)
                             ? DLOCK_OK
                             : dlock_fail(ops[i]->err, MEMORY_ORIGIN, DLOCK_LOST, 0, NOT_HELD);
        memory_watch_end(session, ops[i]->req);
    }
    (void)pthread_mutex_unlock(&session->store->mutex);
    for (size_t i = 0; i < n; i++)
        memory_waiter_fini(ops[i]->req->attempt);
    return DLOCK_OK;
}

static void memory_forget(void *self, const struct dlock_request *req)
{
    struct memory_session *session = self;

    if (session != NULL) { /* without a session [FGT-2] nothing waits in wait_any */
        (void)pthread_mutex_lock(&session->store->mutex);
        memory_watch_end(session, req);
        (void)pthread_mutex_unlock(&session->store->mutex);
    }
    memory_waiter_fini(req->attempt);
}

static enum dlock_status memory_watch(void *self, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    struct memory_session *session = self;
    enum dlock_status status = DLOCK_INTERNAL;

    (void)pthread_mutex_lock(&session->store->mutex);
    status = memory_watch_name(session, req, grant);
    (void)pthread_mutex_unlock(&session->store->mutex);
    if (status == DLOCK_OK || status == DLOCK_BUSY)
        return status;
    return dlock_fail(err, MEMORY_ORIGIN, status, 0, "the watch ended before the name was free");
}

static enum dlock_status memory_dequeue(void *self, const struct dlock_request *req,
                                        struct dlock_error *err)
{
    struct memory_session *session = self;

    (void)err;
    (void)pthread_mutex_lock(&session->store->mutex);
    (void)memory_lease_end(session, req, true); /* OK for an unknown token, too [DEQ-2] */
    (void)pthread_mutex_unlock(&session->store->mutex);
    return DLOCK_OK;
}

static void memory_interrupt(void *self, const struct dlock_request *req)
{
    struct memory_session *session = self;

    (void)pthread_mutex_lock(&session->store->mutex);
    if (req != NULL) {
        memory_waiter_interrupt(req->attempt, memory_queue_last_fence());
    } else { /* [INT-4] */
        session->pending.interrupted = true;
        (void)pthread_cond_signal(&session->pending.wake);
    }
    (void)pthread_mutex_unlock(&session->store->mutex);
}

static enum dlock_status memory_break(void *self, const unsigned char *bytes, uint32_t len,
                                      const char *owner, int64_t deadline_ns,
                                      struct dlock_error *err)
{
    struct memory_session *session = self;
    const char *refusal = NULL;

    (void)deadline_ns;
    (void)pthread_mutex_lock(&session->store->mutex);
    refusal = memory_lease_break(session, bytes, len, owner);
    (void)pthread_mutex_unlock(&session->store->mutex);
    if (refusal != NULL)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_NOT_HELD, 0, "%s", refusal);
    return DLOCK_OK;
}

static enum dlock_status memory_probe(void *self, int64_t deadline_ns,
                                      struct dlock_session_info *info, dlock_check_fn *fn,
                                      void *arg, struct dlock_error *err)
{
    static const struct dlock_check reach = {
        .struct_size = sizeof reach,
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
    .attempt_size = sizeof(struct memory_waiter),
    .open = memory_open,
    .close = memory_close,
    .trylock = memory_trylock,
    .renew = memory_renew,
    .unlock = memory_unlock,
    .forget = memory_forget,
    .watch = memory_watch,
    .dequeue = memory_dequeue,
    .interrupt = memory_interrupt,
    .inspect = memory_inspect_name,
    .list = memory_inspect_prefix,
    .break_lock = memory_break,
    .probe = memory_probe,
    .list_waiters = memory_inspect_waiters,
    .wait_any = memory_watch_any,
    .trylock_batch = memory_trylock_batch,
    .unlock_batch = memory_unlock_batch,
};

static const char *const memory_schemes[] = {"memory", NULL};
static const struct dlock_option_spec memory_options[] = {
    {"waiter_lease", "duration", "3s", "500ms..60s",
     "how long a queue entry lasts if its waiter does not refresh it, and a grant to a waiter "
     "until "
     "the waiter renews it (not longer than the ttl)"},
    {.name = NULL},
};

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
