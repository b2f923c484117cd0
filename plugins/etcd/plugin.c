/* SPDX-License-Identifier: MIT */
/*
 * etcd://host[:port][,host...][/prefix], etcds: with TLS - a cluster of etcd, which keeps a key for
 * each holder and each waiter of a name.
 *
 * README.md is for users. The table at the end says where each slot is.
 */
#include "admin.h"
#include "net/tls.h"
#include "probe.h"
#include "renew.h"
#include "rpc.h"
#include "take.h"
#include "unlock.h"
#include "watch.h"

#define ASSUMED_LEAST_MS 2000 /* of a cluster that grants no lease now: its default */

static const char *const schemes[] = {"etcd", "etcds", NULL};

static const struct dlock_option_spec options[] = {
    {"key", "enum", "name", "name|raw",
     "raw: a slash in a name stays one in the keys, as other programs have it"},
    {"waiter_lease", "duration", "3s", "500ms..60s",
     "how long a queue entry lasts without a refresh, in whole seconds"},
    {"fence_scale", "enum", "32", "32|1",
     "fencing tokens are create_revision times this; 1: the revision itself, as etcdctl has it"},
    TLS_OPTION_ROWS,
    {"sni", "text", NULL, "1..253",
     "name to ask the server for and to find in its certificate; unset: the host"},
    {NULL, NULL, NULL, NULL, NULL},
};

static enum dlock_status tls_make(struct etcd_session *session, struct dlock_error *err)
{
    char why[TLS_WHY_SIZE];
    enum dlock_status status = DLOCK_OK;

    if (!session->config.secure)
        return DLOCK_OK;
    session->tls = tls_new(&session->config.tls, &status, why, sizeof why);
    return session->tls != NULL ? DLOCK_OK : dlock_fail(err, ETCD_ORIGIN, status, 0, "%s", why);
}

static enum dlock_status equip(struct etcd_session *session, const struct dlock_host *host,
                               struct dlock_error *err)
{
    session->host = host;
    session->has_mutex = pthread_mutex_init(&session->mutex, NULL) == 0;
    session->has_endpoints =
        session->has_mutex &&
        etcd_endpoints_init(&session->endpoints, &session->config, host, session->tls);
    session->has_pool =
        session->has_endpoints && etcd_lease_pool_init(&session->pool, &session->endpoints);
    return session->has_pool
               ? DLOCK_OK
               : dlock_fail(err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a session");
}

/* Connects. The cluster says by a lease what it grants at least. */
static enum dlock_status least_find(struct etcd_session *session, int64_t deadline_ns,
                                    struct dlock_error *err)
{
    struct etcd_lease *lease = NULL;
    enum dlock_status status = etcd_lease_pool_grant(&session->pool, 1, deadline_ns, &lease, err);

    if (status == DLOCK_OK) {
        etcd_lease_pool_set_least(&session->pool, lease->ttl_ms);
        etcd_lease_pool_put(&session->pool, lease);
    } else if (status == DLOCK_UNAVAILABLE && etcd_rpc_no_space(err)) {
        etcd_lease_pool_set_least(&session->pool, ASSUMED_LEAST_MS);
        err->code = 0;
        err->message[0] = '\0';
        status = DLOCK_OK;
    }
    return status;
}

static enum dlock_status session_open(void *self, const struct dlock_host *host,
                                      const struct dlock_target *target, int64_t deadline_ns,
                                      struct dlock_session_info *info, struct dlock_error *err)
{
    struct etcd_session *session = self;
    struct etcd_member member;
    enum dlock_status status = etcd_config_init(&session->config, target, err);

    if (status == DLOCK_OK)
        status = tls_make(session, err);
    if (status == DLOCK_OK)
        status = equip(session, host, err);
    if (status == DLOCK_OK)
        status = least_find(session, deadline_ns, err);
    if (status != DLOCK_OK)
        return status;
    etcd_endpoints_opened(&session->endpoints, &member);
    etcd_probe_info(session, &member, info);
    return DLOCK_OK;
}

static void session_close(void *self, bool forked)
{
    struct etcd_session *session = self;

    if (forked) {
        if (session->has_endpoints)
            etcd_endpoints_after_fork(&session->endpoints);
        return;
    }
    if (session->has_pool)
        etcd_lease_pool_fini(&session->pool);
    if (session->has_endpoints)
        etcd_endpoints_fini(&session->endpoints);
    if (session->has_mutex)
        (void)pthread_mutex_destroy(&session->mutex);
    tls_free(session->tls);
}

static void session_forget(void *self, const struct dlock_request *req)
{
    (void)self;
    etcd_queue_drop(req->attempt);
}

static const struct dlock_backend_ops ops = {
    .struct_size = sizeof ops,
    .session_size = sizeof(struct etcd_session),
    .attempt_size = sizeof(struct etcd_slot),
    .open = session_open,
    .close = session_close,
    .trylock = etcd_take,
    .renew = etcd_renew,
    .unlock = etcd_unlock,
    .forget = session_forget,
    .inspect = etcd_admin_inspect,
    .list = etcd_admin_list,
    .break_lock = etcd_admin_break,
    .watch = etcd_watch,
    .dequeue = etcd_unlock_dequeue,
    .interrupt = etcd_watch_interrupt,
    .probe = etcd_probe,
    .list_waiters = etcd_admin_list_waiters,
};

static const struct dlock_plugin plugin = {
    .magic = DLOCK_PLUGIN_MAGIC,
    .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
    .abi_minor = DLOCK_PLUGIN_ABI_MINOR,
    .struct_size = sizeof plugin,
    .caps = ETCD_CAPS,
    .name = "etcd",
    .version = "1",
    .schemes = schemes,
    .options = options,
    .ops = &ops,
};

DLOCK_PLUGIN_ENTRY(etcd, &plugin)
