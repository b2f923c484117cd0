/* SPDX-License-Identifier: MIT */
/*
 * zk://host[:port][,host...][/path], zookeeper: the same - an ensemble of ZooKeeper, which keeps a
 * node for each holder and each waiter of a name.
 *
 * README.md is for users. The slots are here, in the order of plugin.h.
 */
#include "admin.h"
#include "flight.h"
#include "probe.h"
#include "renew.h"
#include "take.h"
#include "unlock.h"
#include "watch.h"

#include "net/cloexec.h"

static const char *const schemes[] = {"zk", "zookeeper", NULL};

static const struct dlock_option_spec options[] = {
    {"recipe", "enum", "curator-rw", "curator-rw|curator|kazoo",
     "what the nodes are called: as those of Curator's read-write lock, of Curator's mutex (no "
     "shared mode) or of kazoo's locks, so that these programs wait for dlock"},
    {"key", "enum", "name", "name|raw",
     "raw: a slash in a name stays one in the path of the node, as other programs have it"},
    {"tick", "duration", NULL, "10ms..60s",
     "tickTime of the servers; unset: half of the shortest session that they give"},
    {"acl", "enum", NULL, "open|creator",
     "who may do what with the nodes that dlock makes; creator: the user of the URI alone; open: "
     "everybody; unset: creator with a user, open without"},
    {NULL, NULL, NULL, NULL, NULL},
};

static int64_t tick_of(const struct zk_session *session)
{
    const int64_t half_ms = session->servers.least_ms / 2;

    if (session->config.tick_ms > 0)
        return session->config.tick_ms;
    return half_ms > 0 ? half_ms : 1;
}

/* Servers that want a login close the session at the first request. */
static enum dlock_status login_check(struct zk_session *session, int64_t deadline_ns,
                                     struct dlock_error *err)
{
    struct zk_flight *flight = zk_flight_new(session->link, 1);
    int64_t session_id = 0;
    enum dlock_status status = DLOCK_NOMEM;

    if (flight == NULL || zk_flight_add(flight, ZK_SYNC, "/") == NULL)
        (void)dlock_fail(err, ZK_ORIGIN, status, 0, "no memory for a request");
    else
        status = zk_flight_run(flight, &session_id, deadline_ns, err);
    if (status == DLOCK_OK && zk_flight_call(flight, 0)->rc != ZOK)
        status = zk_flight_fail(err, zk_flight_call(flight, 0)->rc, "sync", "/");
    zk_flight_free(flight);
    return status;
}

static enum dlock_status session_open(void *self, const struct dlock_host *host,
                                      const struct dlock_target *target, int64_t deadline_ns,
                                      struct dlock_session_info *info, struct dlock_error *err)
{
    struct zk_session *session = self;
    enum dlock_status status = zk_config_init(&session->config, target, err);

    session->host = host;
    if (status == DLOCK_OK)
        status = zk_servers_ask(&session->servers, &session->config, host, deadline_ns, err);
    if (status != DLOCK_OK)
        return status;
    session->tick_ms = tick_of(session);
    status = zk_link_open(&session->link, &session->config, &session->servers, session->tick_ms,
                          host, deadline_ns, err);
    if (status == DLOCK_OK)
        status = login_check(session, deadline_ns, err);
    if (status != DLOCK_OK)
        return status;
    zk_leftover_init(&session->leftovers, session->link);
    zk_probe_info(session, info);
    return DLOCK_OK;
}

static void session_close(void *self, bool forked)
{
    struct zk_session *session = self;

    if (session->link == NULL)
        return;
    if (forked) {
        zk_link_after_fork(session->link);
        return;
    }
    zk_link_close(session->link);
    if (session->leftovers.link != NULL)
        zk_leftover_fini(&session->leftovers);
}

static enum dlock_status session_trylock(void *self, const struct dlock_request *req,
                                         struct dlock_grant *grant, struct dlock_error *err)
{
    return zk_take(self, req, grant, err);
}

static enum dlock_status session_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                       int64_t deadline_ns, struct dlock_error *err)
{
    return zk_renew(self, ops, n, deadline_ns, err);
}

static enum dlock_status session_unlock(void *self, const struct dlock_request *req,
                                        struct dlock_error *err)
{
    return zk_unlock(self, req, err);
}

static void session_forget(void *self, const struct dlock_request *req)
{
    zk_unlock_forget(self, req);
}

static enum dlock_status session_watch(void *self, const struct dlock_request *req,
                                       struct dlock_grant *grant, struct dlock_error *err)
{
    return zk_watch(self, req, grant, err);
}

static enum dlock_status session_dequeue(void *self, const struct dlock_request *req,
                                         struct dlock_error *err)
{
    return zk_unlock_dequeue(self, req, err);
}

static void session_interrupt(void *self, const struct dlock_request *req)
{
    zk_watch_interrupt(self, req);
}

static enum dlock_status session_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                         int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                         struct dlock_error *err)
{
    return zk_admin_inspect(self, name, name_len, deadline_ns, fn, arg, err);
}

static enum dlock_status session_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                                      int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                      struct dlock_error *err)
{
    return zk_admin_list(self, prefix, prefix_len, deadline_ns, fn, arg, err);
}

static enum dlock_status session_break(void *self, const unsigned char *name, uint32_t name_len,
                                       const char *owner, int64_t deadline_ns,
                                       struct dlock_error *err)
{
    return zk_admin_break(self, name, name_len, owner, deadline_ns, err);
}

static enum dlock_status session_probe(void *self, int64_t deadline_ns,
                                       struct dlock_session_info *info, dlock_check_fn *fn,
                                       void *arg, struct dlock_error *err)
{
    return zk_probe(self, deadline_ns, info, fn, arg, err);
}

static enum dlock_status session_list_waiters(void *self, const unsigned char *name,
                                              uint32_t name_len, int64_t deadline_ns,
                                              dlock_waiter_fn *fn, void *arg,
                                              struct dlock_error *err)
{
    return zk_admin_list_waiters(self, name, name_len, deadline_ns, fn, arg, err);
}

static enum dlock_status session_trylock_batch(void *self, struct dlock_batch_op *const *ops,
                                               size_t n, struct dlock_error *err)
{
    (void)err;
    zk_take_batch(self, ops, n);
    return DLOCK_OK;
}

static enum dlock_status session_unlock_batch(void *self, struct dlock_batch_op *const *ops,
                                              size_t n, struct dlock_error *err)
{
    (void)err;
    zk_unlock_batch(self, ops, n);
    return DLOCK_OK;
}

static const struct dlock_backend_ops ops = {
    .struct_size = sizeof ops,
    .session_size = sizeof(struct zk_session),
    .attempt_size = sizeof(struct zk_slot),
    .open = session_open,
    .close = session_close,
    .trylock = session_trylock,
    .renew = session_renew,
    .unlock = session_unlock,
    .forget = session_forget,
    .inspect = session_inspect,
    .list = session_list,
    .break_lock = session_break,
    .watch = session_watch,
    .dequeue = session_dequeue,
    .interrupt = session_interrupt,
    .probe = session_probe,
    .list_waiters = session_list_waiters,
    .trylock_batch = session_trylock_batch,
    .unlock_batch = session_unlock_batch,
};

static enum dlock_status plugin_init(const struct dlock_host *host, struct dlock_error *err)
{
    (void)host;
    return cloexec_init() == 0
               ? DLOCK_OK
               : dlock_fail(err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for the handlers of fork");
}

static const struct dlock_plugin plugin = {
    .magic = DLOCK_PLUGIN_MAGIC,
    .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
    .abi_minor = DLOCK_PLUGIN_ABI_MINOR,
    .struct_size = sizeof plugin,
    .caps = ZK_CAPS,
    .name = "zookeeper",
    .version = "1",
    .schemes = schemes,
    .options = options,
    .init = plugin_init,
    .ops = &ops,
};

DLOCK_PLUGIN_ENTRY(zookeeper, &plugin)
