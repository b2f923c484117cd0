/* SPDX-License-Identifier: MIT */
/*
 * zk://host[:port][,host...][/path], zookeeper: the same - an ensemble of ZooKeeper, which keeps a
 * node for each holder and each waiter of a name.
 *
 * README.md is for users. The table at the end says where each slot is.
 */
#include "admin.h"
#include "exchange.h"
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
    struct zk_exchange *exchange = zk_exchange_new(session->link, 1);
    int64_t session_id = 0;
    enum dlock_status status = DLOCK_NOMEM;

    if (exchange == NULL || zk_exchange_add(exchange, ZK_SYNC, "/") == NULL)
        (void)dlock_fail(err, ZK_ORIGIN, status, 0, "no memory for a request");
    else
        status = zk_exchange_run(exchange, &session_id, deadline_ns, err);
    if (status == DLOCK_OK && zk_exchange_call(exchange, 0)->rc != ZOK)
        status = zk_exchange_fail(err, zk_exchange_call(exchange, 0)->rc, "sync", "/");
    zk_exchange_free(exchange);
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

static const struct dlock_backend_ops ops = {
    .struct_size = sizeof ops,
    .session_size = sizeof(struct zk_session),
    .attempt_size = sizeof(struct zk_slot),
    .open = session_open,
    .close = session_close,
    .trylock = zk_take,
    .renew = zk_renew,
    .unlock = zk_unlock,
    .forget = zk_unlock_forget,
    .inspect = zk_admin_inspect,
    .list = zk_admin_list,
    .break_lock = zk_admin_break,
    .watch = zk_watch,
    .dequeue = zk_unlock_dequeue,
    .interrupt = zk_watch_interrupt,
    .probe = zk_probe,
    .list_waiters = zk_admin_list_waiters,
    .trylock_batch = zk_take_batch,
    .unlock_batch = zk_unlock_batch,
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
