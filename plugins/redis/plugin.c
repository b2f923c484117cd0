/* SPDX-License-Identifier: MIT */
/*
 * redis://host[:port][/db], rediss: with TLS, redis+unix:///path - one Redis or Valkey server,
 * which keeps a lease for each name and ends it by its own clock. README.md says how the server has
 * to be set up, and what an application can rely on.
 */
#include "config.h"
#include "inspect.h"
#include "lease.h"
#include "list.h"
#include "net/tls.h"
#include "renew.h"
#include "resp/error.h"
#include "resp/guard.h"
#include "session.h"

#define REDIS_CAPS                                                                        \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE | \
     DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE | DLOCK_CAP_CONCURRENT)

#define LOG_INFO 2 /* DLOCK_LOG_INFO of dlock.h */

static void info_fill(struct dlock_session_info *info, const struct redis_session *session,
                      const struct resp_info *server_info, uint32_t caps)
{
    info->caps = caps | DLOCK_CAP_CONCURRENT;
    (void)snprintf(info->server, sizeof info->server, "%s", server_info->server);
    (void)snprintf(info->endpoint, sizeof info->endpoint, "%s", session->config.endpoint);
}

static enum dlock_status tls_make(struct redis_session *session, struct dlock_error *err)
{
    char why[TLS_WHY_SIZE];
    enum dlock_status status = DLOCK_OK;

    if (!session->config.secure)
        return DLOCK_OK;
    session->tls = tls_new(&session->config.tls, &status, why, sizeof why);
    return session->tls != NULL ? DLOCK_OK
                                : resp_error_fail(&session->config, err, status, "%s", why);
}

static void unguarded_tell(const struct redis_session *session, uint32_t caps)
{
    char line[300];

    if (session->config.restart_guard_ms > 0 || (caps & DLOCK_CAP_CRASH_SAFE) != 0)
        return;
    (void)snprintf(line, sizeof line, "%s: restart_guard is off: %s", session->config.endpoint,
                   RESP_UNGUARDED);
    session->host->log(session->host->ctx, LOG_INFO, line);
}

static enum dlock_status subscriber_init(struct redis_session *session, struct dlock_error *err)
{
    session->subscriber.user = &redis_waiter_user;
    session->subscriber.owner = &session->config;
    return resp_subscriber_init(&session->subscriber, &session->config, 1, session->tls,
                                session->host, err);
}

static enum dlock_status redis_open(void *self, const struct dlock_host *host,
                                    const struct dlock_target *target, int64_t deadline_ns,
                                    struct dlock_session_info *info, struct dlock_error *err)
{
    struct redis_session *session = self;
    struct resp_info server_info;
    uint32_t caps = 0;
    enum dlock_status status = redis_config_init(&session->config, target, err);

    session->host = host;
    session->waiter_lease_ms = target->number(target, "waiter_lease");
    if (status == DLOCK_OK)
        status = tls_make(session, err);
    if (status == DLOCK_OK)
        status = subscriber_init(session, err);
    if (status != DLOCK_OK)
        return status;
    redis_pool_init(&session->pool, session, host, &session->config, session->tls,
                    target->number(target, "sockets"));
    status = redis_pool_connect(&session->pool, true, deadline_ns, &server_info, &caps, err);
    if (status == DLOCK_OK)
        status = resp_guard_judge_ttl(REDIS_ORIGIN, redis_pool_guard_ms(&session->pool),
                                      target->number(target, "ttl"), err);
    if (status != DLOCK_OK)
        return status;
    info_fill(info, session, &server_info, caps);
    unguarded_tell(session, caps);
    return DLOCK_OK;
}

static void redis_close(void *self, bool forked)
{
    struct redis_session *session = self;

    if (forked) {
        redis_pool_after_fork(&session->pool);
        resp_subscriber_after_fork(&session->subscriber);
        return;
    }
    redis_pool_fini(&session->pool);
    resp_subscriber_fini(&session->subscriber);
    tls_free(session->tls);
}

static void redis_forget(void *self, const struct dlock_request *req)
{
    (void)self;
    redis_waiter_free(req->attempt);
}

static enum dlock_status redis_watch(void *self, const struct dlock_request *req,
                                     struct dlock_grant *grant, struct dlock_error *err)
{
    struct redis_session *session = self;

    return redis_waiter_watch(&session->subscriber, req, grant, err);
}

static void redis_interrupt(void *self, const struct dlock_request *req)
{
    struct redis_session *session = self;

    redis_waiter_interrupt(&session->subscriber, req->attempt);
}

/* Makes a connection of its own, so that it finds what the next connection would find. */
static enum dlock_status redis_probe(void *self, int64_t deadline_ns,
                                     struct dlock_session_info *info, dlock_check_fn *fn, void *arg,
                                     struct dlock_error *err)
{
    struct redis_session *session = self;
    struct resp_info server_info;
    uint32_t caps = 0;
    enum dlock_status status =
        redis_pool_connect(&session->pool, false, deadline_ns, &server_info, &caps, err);

    if (status != DLOCK_OK)
        return status;
    resp_info_report(&server_info, &session->config, fn, arg);
    info_fill(info, session, &server_info, caps);
    return DLOCK_OK;
}

static const struct dlock_backend_ops redis_ops = {
    .struct_size = sizeof redis_ops,
    .session_size = sizeof(struct redis_session),
    .attempt_size = sizeof(struct redis_slot),
    .open = redis_open,
    .close = redis_close,
    .trylock = redis_lease_trylock,
    .renew = redis_renew,
    .unlock = redis_lease_unlock,
    .forget = redis_forget,
    .watch = redis_watch,
    .dequeue = redis_lease_dequeue,
    .interrupt = redis_interrupt,
    .inspect = redis_inspect,
    .list = redis_list,
    .break_lock = redis_lease_break,
    .probe = redis_probe,
};

static const char *const redis_schemes[] = {
    "redis", "rediss", "redis+unix", "valkey", "valkeys", "valkey+unix", NULL,
};

static const struct dlock_option_spec redis_options[] = {
    {"db", "int", NULL, "0..9999999",
     "number of the database; the path of a URI with a host says it, too"},
    {"prefix", "text", "dl:", "0..64", "what all keys begin with; no braces"},
    {"key", "enum", "name", "name|raw",
     "raw: the name as it stands is a key of the lock, too, as other programs have it; no shared "
     "mode"},
    {"restart_guard", "duration", "30s", "0..7d",
     "no new lock in a server that is up for less, unless the server is durable: at least the "
     "longest ttl of any client. 0: off, a restart may make two holders"},
    {"spin", "bool", "on", NULL,
     "look for an answer for some microseconds before sleeping for it, where answers come that "
     "fast"},
    {"sockets", "int", "2", "1..64",
     "connections for requests, at most; threads beyond that share them, and waiting takes one "
     "more"},
    {"waiter_lease", "duration", "3s", "500ms..60s",
     "how long a queue entry lasts when it is not refreshed, and a lock that is granted to "
     "it"},
    TLS_OPTION_ROWS,
    {"sni", "text", NULL, "1..253",
     "name to ask the server for and to find in its certificate; unset: the host"},
    {"unsafe_eviction", "bool", "off", NULL,
     "accept a server that throws keys away when its memory is full"},
    {NULL, NULL, NULL, NULL, NULL},
};

static const struct dlock_plugin redis_plugin = {
    .magic = DLOCK_PLUGIN_MAGIC,
    .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
    .abi_minor = DLOCK_PLUGIN_ABI_MINOR,
    .struct_size = sizeof redis_plugin,
    .caps = REDIS_CAPS,
    .name = "redis",
    .version = "1",
    .schemes = redis_schemes,
    .options = redis_options,
    .ops = &redis_ops,
};

DLOCK_PLUGIN_ENTRY(redis, &redis_plugin)
