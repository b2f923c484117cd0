/* SPDX-License-Identifier: MIT */
/*
 * redis://host[:port][/db], rediss: with TLS, redis+unix:///path - one Redis or Valkey server,
 * which keeps a lease for each name and ends it by its own clock; redis+sentinel://hosts/service -
 * the master that sentinels name; redis+cluster://hosts - a cluster, where the master of a name's
 * slot has its lock. README.md says how the server has to be set up, and what an application can
 * rely on.
 */
#include "inspect.h"
#include "lease.h"
#include "lease_batch.h"
#include "lib/text.h"
#include "lib/text_file.h"
#include "net/tls.h"
#include "redis/call/route.h"
#include "redis/guard/view.h"
#include "redis/link/config.h"
#include "redis/servers/cluster.h"
#include "redis/servers/sentinels.h"
#include "redis/servers/session.h"
#include "renew.h"
#include "resp/error.h"
#include "resp/guard.h"
#include "waiter.h"

#define REDIS_CAPS                                                                        \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_FENCE_DURABLE | \
     DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE | DLOCK_CAP_CONCURRENT |    \
     DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP | DLOCK_CAP_FAILOVER_SAFE | DLOCK_CAP_DATA)

#define LOG_INFO 2 /* DLOCK_LOG_INFO of dlock.h */

static void info_fill(struct dlock_session_info *info, const struct redis_session *session,
                      const struct resp_info *server_info, uint64_t caps)
{
    struct address master;

    info->caps = caps | DLOCK_CAP_CONCURRENT | DLOCK_CAP_DATA;
    if (!session->config.raw) /* other programs would see no permits */
        info->caps |= DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP;
    (void)snprintf(info->server, sizeof info->server, "%s", server_info->server);
    (void)snprintf(info->endpoint, sizeof info->endpoint, "%s", session->config.endpoint);
    if (session->sentinels != NULL &&
        redis_sentinels_moved(session->sentinels, &(uint64_t){0}, &master))
        address_format(&master, info->endpoint, sizeof info->endpoint);
}

static enum dlock_status tls_make(struct redis_session *session, struct dlock_error *err)
{
    char why[TLS_WHY_SIZE];
    enum dlock_status status = DLOCK_OK;

    if (!session->config.secure && !session->service.sentinel.secure)
        return DLOCK_OK;
    session->tls = tls_new(&session->config.tls, &status, why, sizeof why);
    return session->tls != NULL ? DLOCK_OK
                                : resp_error_fail(&session->config, err, status, "%s", why);
}

static void unguarded_tell(const struct redis_session *session, uint64_t caps)
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
    session->subscriber.owner = session;
    session->subscriber_config = session->config;
    return resp_subscriber_init(&session->subscriber, &session->subscriber_config, 1, session->tls,
                                session->host, err);
}

/* As core does with pass_file=, when the client is opened. */
static enum dlock_status pass_file_check(const struct redis_session *session,
                                         struct dlock_error *err)
{
    const char *path = session->service.pass_file;
    enum dl_exposure exposure = DL_EXPOSED_TO_NOBODY;
    enum dlock_status status = DLOCK_OK;
    char *secret = NULL;

    if (path != NULL)
        status = dl_text_file_read(path, REDIS_SENTINEL_PASS_FILE, &secret, &exposure, err);
    dl_secret_free(secret);
    if (exposure == DL_EXPOSED_TO_ALL)
        dl_text_file_warn(session->host, REDIS_SENTINEL_PASS_FILE, path);
    return status;
}

static enum dlock_status sentinels_make(struct redis_session *session, struct dlock_error *err)
{
    enum dlock_status status = pass_file_check(session, err);

    if (status != DLOCK_OK || session->service.name == NULL)
        return status;
    session->sentinels =
        redis_sentinels_new(&session->service, &session->config, session->tls, session->host);
    return session->sentinels != NULL
               ? DLOCK_OK
               : resp_error_fail(&session->config, err, DLOCK_NOMEM, "no memory for sentinels");
}

static enum dlock_status cluster_make(struct redis_session *session,
                                      const struct dlock_target *target, struct dlock_error *err)
{
    if (session->nodes.count == 0)
        return DLOCK_OK;
    session->cluster = redis_cluster_new(session, session->host, &session->config, session->tls,
                                         session->nodes.addresses, session->nodes.count,
                                         target->number(target, "sockets"));
    return session->cluster != NULL
               ? DLOCK_OK
               : resp_error_fail(&session->config, err, DLOCK_NOMEM, "no memory for a cluster");
}

/* To one master, which stands for all: the others may be down. Each has its share of the time. */
static enum dlock_status cluster_connect(struct redis_session *session, bool keep,
                                         int64_t deadline_ns, struct resp_info *server_info,
                                         uint64_t *caps, struct dlock_error *err)
{
    enum dlock_status status = redis_cluster_read(session->cluster, deadline_ns, err);
    struct redis_shard *shard = NULL;
    int64_t now_ns = session->host->now_ns(session->host->ctx);

    for (unsigned i = 0; status == DLOCK_OK || status == DLOCK_UNAVAILABLE; i++) {
        shard = redis_cluster_master(session->cluster, i);
        if (shard == NULL)
            break;
        status = redis_pool_connect(&shard->pool, keep, now_ns + (deadline_ns - now_ns) / 2,
                                    server_info, caps, err);
        redis_cluster_put(session->cluster, shard);
        now_ns = session->host->now_ns(session->host->ctx);
        if (status == DLOCK_OK)
            break;
    }
    if (status == DLOCK_OK && keep)
        redis_cluster_announce(session->cluster, *caps);
    return status;
}

static enum dlock_status server_connect(struct redis_session *session, bool keep,
                                        int64_t deadline_ns, struct resp_info *server_info,
                                        uint64_t *caps, struct dlock_error *err)
{
    if (session->cluster != NULL)
        return cluster_connect(session, keep, deadline_ns, server_info, caps, err);
    return redis_pool_connect(&session->pool, keep, deadline_ns, server_info, caps, err);
}

static enum dlock_status redis_open(void *self, const struct dlock_host *host,
                                    const struct dlock_target *target, int64_t deadline_ns,
                                    struct dlock_session_info *info, struct dlock_error *err)
{
    struct redis_session *session = self;
    struct resp_info server_info;
    uint64_t caps = 0;
    enum dlock_status status =
        redis_config_init(&session->config, &session->service, &session->nodes, target, err);

    session->host = host;
    session->waiter_lease_ms = target->number(target, "waiter_lease");
    if (status == DLOCK_OK)
        status = tls_make(session, err);
    if (status == DLOCK_OK)
        status = sentinels_make(session, err);
    if (status == DLOCK_OK)
        status = cluster_make(session, target, err);
    if (status == DLOCK_OK)
        status = subscriber_init(session, err);
    if (status != DLOCK_OK)
        return status;
    redis_pool_init(&session->pool, session, host, &session->config, session->tls,
                    target->number(target, "sockets"));
    session->pool.sentinels = session->sentinels;
    status = server_connect(session, true, deadline_ns, &server_info, &caps, err);
    if (status == DLOCK_OK)
        status = resp_guard_judge_ttl(REDIS_ORIGIN, session->config.restart_guard_ms,
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
        redis_cluster_after_fork(session->cluster);
        resp_subscriber_after_fork(&session->subscriber);
        return;
    }
    redis_pool_fini(&session->pool);
    resp_subscriber_fini(&session->subscriber);
    redis_sentinels_free(session->sentinels);
    redis_cluster_free(session->cluster);
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

    if (req == NULL) /* [INT-4] */
        waiters_interrupt_any(&session->subscriber.waiters);
    else
        redis_waiter_interrupt(&session->subscriber, req->attempt);
}

static enum dlock_status redis_wait_any(void *self, uint32_t *waiters, size_t *count,
                                        int64_t deadline_ns, struct dlock_error *err)
{
    struct redis_session *session = self;

    return redis_waiter_any(&session->subscriber, waiters, count, deadline_ns, err);
}

/* Where the master is, and how many sentinels say so. */
static enum dlock_status sentinels_report(struct redis_session *session, int64_t deadline_ns,
                                          dlock_check_fn *fn, void *arg, struct dlock_error *err)
{
    struct redis_sentinels_round round;
    struct address master;
    char found[160], endpoint[64];
    enum dlock_status status =
        redis_sentinels_ask(session->sentinels, deadline_ns, &master, &round, err);

    if (status != DLOCK_OK)
        return status;
    address_format(&master, endpoint, sizeof endpoint);
    (void)snprintf(found, sizeof found, "%s, named by %u of %u sentinels, epoch %lld", endpoint,
                   round.agreed, round.asked, (long long)round.epoch);
    const struct dlock_check check = {
        .struct_size = sizeof check,
        .name = "master",
        .found = found,
        .advice = round.answered < round.asked ? "a sentinel does not answer" : NULL,
    };
    fn(arg, &check);
    return DLOCK_OK;
}

static void cluster_report(struct redis_session *session, dlock_check_fn *fn, void *arg)
{
    unsigned masters = 0, covered = redis_cluster_covered(session->cluster);
    struct redis_shard *shard = NULL;
    char found[96];

    while ((shard = redis_cluster_master(session->cluster, masters)) != NULL) {
        redis_cluster_put(session->cluster, shard);
        masters++;
    }
    (void)snprintf(found, sizeof found, "%u masters have %u of %u slots", masters, covered,
                   REDIS_SLOTS);
    const struct dlock_check check = {
        .struct_size = sizeof check,
        .name = "cluster",
        .found = found,
        .advice = covered < REDIS_SLOTS ? "names of the other slots cannot be locked" : NULL,
    };
    fn(arg, &check);
}

/* Makes a connection of its own, so that it finds what the next connection would find. */
static enum dlock_status redis_probe(void *self, int64_t deadline_ns,
                                     struct dlock_session_info *info, dlock_check_fn *fn, void *arg,
                                     struct dlock_error *err)
{
    struct redis_session *session = self;
    struct resp_info server_info;
    uint64_t caps = 0;
    enum dlock_status status =
        server_connect(session, false, deadline_ns, &server_info, &caps, err);

    if (status == DLOCK_OK && session->sentinels != NULL && fn != NULL)
        status = sentinels_report(session, deadline_ns, fn, arg, err);
    if (status != DLOCK_OK)
        return status;
    if (session->cluster != NULL && fn != NULL)
        cluster_report(session, fn, arg);
    resp_info_report(&server_info, &session->config, fn, arg);
    if (fn != NULL)
        redis_view_report(&session->config, &server_info, fn, arg);
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
    .list = redis_inspect_list,
    .break_lock = redis_lease_break,
    .probe = redis_probe,
    .list_waiters = redis_inspect_waiters,
    .server_of = redis_route_server_of,
    .wait_any = redis_wait_any,
    .trylock_batch = redis_lease_batch_trylock,
    .unlock_batch = redis_lease_batch_unlock,
};

static const char *const redis_schemes[] = {
    "redis",           "rediss",           "redis+unix",     "redis+sentinel",  "rediss+sentinel",
    "redis+cluster",   "rediss+cluster",   "valkey",         "valkeys",         "valkey+unix",
    "valkey+sentinel", "valkeys+sentinel", "valkey+cluster", "valkeys+cluster", NULL,
};

static const struct dlock_option_spec redis_options[] = {
    {"db", "int", NULL, "0..9999999",
     "number of the database; the path of a URI with a host says it, too"},
    {"prefix", "text", "dl:", "0..64", "what all keys begin with; no braces"},
    {"key", "enum", "name", "name|raw",
     "raw: the name as it stands is a key of the lock, too, as other programs have it; no shared "
     "mode"},
    {"restart_guard", "duration", "30s", "0..7d",
     "no new lock in a server that is up for less: at least the longest ttl of any client, and "
     "waiter_lease. 0: off, a restart may make two holders"},
    {"failover", "enum", "auto", "auto|guard|unsafe",
     "guard: a replica may become the master, and a failover makes no second holder; auto: where "
     "replicas are seen, unless restart_guard=0. unsafe: no guard, a failover may make two "
     "holders"},
    {"failover_guard", "duration", "0", "0..7d",
     "no new lock for this time after a failover: restart_guard, and how long an old master may go "
     "on. 0: the server's settings say that"},
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
    {"sentinel_user", "text", NULL, "1..253",
     "redis+sentinel: the user for the sentinels; the user and the password before the hosts are "
     "those of the servers with the locks"},
    {REDIS_SENTINEL_PASS_FILE, "text", NULL, "1..4096",
     "redis+sentinel: absolute path of a file with the password for the sentinels as its only "
     "line, "
     "read for each new connection"},
    {"sentinel_tls", "enum", NULL, "same|on|off",
     "redis+sentinel: TLS to the sentinels; unset: as to the servers with the locks"},
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
