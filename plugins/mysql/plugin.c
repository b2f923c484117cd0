/* SPDX-License-Identifier: MIT */
/*
 * mysql://host/database - rows of MariaDB or MySQL as locks.
 *
 * README.md is for users. Two tables have the slots: of rows, and of row locks of a session.
 */
#include "connect.h"
#include "inspect.h"
#include "net/tls.h"
#include "open.h"
#include "probe.h"
#include "row.h"
#include "session_lock.h"

#include <sys/eventfd.h>
#include <unistd.h>

static const char *const schemes[] = {"mysql", "mariadb", NULL};

static const struct dlock_option_spec options[] = {
    {"strategy", "enum", "row", "row|insert|session",
     "row: a conditional UPDATE takes; insert: an INSERT takes; session: a row lock is the lock, "
     "and ends with the connection"},
    {"unix_socket", "text", NULL, "1..100",
     "absolute path of the server's socket, instead of a host"},
    {"table_prefix", "text", "dlock_", "1..32",
     "what the names of the tables begin with; one prefix serves one strategy"},
    {"create", "bool", "on", NULL,
     "create the tables if they are not there; off: NO_STORE, and nothing is made"},
    {"session_grace", "duration", "5s", "2s..60s",
     "strategy=session: how long a claim may outlive the connection that holds it; it is checked "
     "each third of that"},
    {"tls", "bool", "off", NULL, "encrypt, and check the server's certificate; see verify"},
    TLS_OPTION_ROWS,
    {"spin", "bool", "on", NULL,
     "poll for an answer for some microseconds before sleeping, if answers come that fast"},
    {"unsafe_galera", "bool", "off", NULL,
     "accept a Galera node; locks are safe only if all clients use this one node"},
    {NULL, NULL, NULL, NULL, NULL},
};

static enum dlock_status plugin_init(const struct dlock_host *host, struct dlock_error *err)
{
    (void)host;
    if (!my_shared_init())
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for fork handlers");
    return my_connect_init(err);
}

static enum dlock_status session_equip(struct my_session *session, const struct dlock_host *host,
                                       struct dlock_error *err)
{
    session->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) + 1;
    session->shared = my_shared_find(&session->config, host);
    if (session->wake_fd == 0 || session->shared == NULL)
        return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory or descriptor for a session");
    session->conn.host = host;
    session->conn.config = &session->config;
    session->conn.tables = &session->shared->tables;
    session->conn.wake_fd = session->wake_fd - 1;
    session->conn.for_row_lock = session->config.strategy == MY_SESSION;
    return DLOCK_OK;
}

static enum dlock_status session_open(void *self, const struct dlock_host *host,
                                      const struct dlock_target *target, int64_t deadline_ns,
                                      struct dlock_session_info *info, struct dlock_error *err)
{
    struct my_session *session = self;
    enum dlock_status status = my_config_init(&session->config, target, err);

    if (status == DLOCK_OK)
        status = session_equip(session, host, err);
    if (status == DLOCK_OK)
        status = my_open(&session->conn, deadline_ns, err);
    if (status == DLOCK_OK)
        my_probe_info(&session->conn, info);
    return status;
}

static void session_close(void *self, bool forked)
{
    struct my_session *session = self;

    if (session->wake_fd > 0)
        (void)close(session->wake_fd - 1);
    if (forked)
        my_connect_after_fork(&session->conn);
    else
        my_connect_close(&session->conn);
    if (session->shared != NULL && !forked)
        my_shared_unref(session->shared);
}

static void session_interrupt(void *self, const struct dlock_request *req)
{
    const struct my_session *session = self;
    struct my_slot *slot = req->attempt;
    const uint64_t one = 1;
    ssize_t put = -1;

    atomic_store(&slot->stop, 1);
    put = write(session->wake_fd - 1, &one, sizeof one);
    (void)put;
}

static enum dlock_status session_probe(void *self, int64_t deadline_ns,
                                       struct dlock_session_info *info, dlock_check_fn *fn,
                                       void *arg, struct dlock_error *err)
{
    struct my_session *session = self;
    enum dlock_status status = my_connection_enter(&session->conn, deadline_ns, err);

    if (status == DLOCK_OK)
        status = my_probe(&session->conn, fn, arg, err);
    if (status == DLOCK_OK)
        my_probe_info(&session->conn, info);
    return status;
}

static const struct dlock_backend_ops row_ops = {
    .struct_size = sizeof row_ops,
    .session_size = sizeof(struct my_session),
    .attempt_size = sizeof(struct my_slot),
    .open = session_open,
    .close = session_close,
    .trylock = my_row_trylock,
    .renew = my_row_renew,
    .unlock = my_row_unlock,
    .forget = my_row_forget,
    .watch = my_row_watch,
    .interrupt = session_interrupt,
    .trylock_batch = my_row_trylock_batch,
    .unlock_batch = my_row_unlock_batch,
    .inspect = my_inspect_name,
    .list = my_inspect_list,
    .break_lock = my_row_break,
    .probe = session_probe,
};

static const struct dlock_backend_ops session_ops = {
    .struct_size = sizeof session_ops,
    .session_size = sizeof(struct my_session),
    .attempt_size = sizeof(struct my_slot),
    .open = session_open,
    .close = session_close,
    .trylock = my_session_trylock,
    .renew = my_session_renew,
    .unlock = my_session_unlock,
    .lock = my_session_lock,
    .interrupt = session_interrupt,
    .inspect = my_inspect_name,
    .list = my_inspect_list,
    .break_lock = my_session_break,
    .probe = session_probe,
};

static const struct dlock_strategy strategies[] = {
    {"row", MY_ROW_CAPS, &row_ops},
    {"insert", MY_ROW_CAPS, &row_ops},
    {"session", MY_SESSION_CAPS, &session_ops},
    {NULL, 0, NULL},
};

static const struct dlock_plugin plugin = {
    .magic = DLOCK_PLUGIN_MAGIC,
    .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
    .abi_minor = DLOCK_PLUGIN_ABI_MINOR,
    .struct_size = sizeof plugin,
    .name = "mysql",
    .version = "1",
    .schemes = schemes,
    .options = options,
    .init = plugin_init,
    .strategies = strategies,
};

DLOCK_PLUGIN_ENTRY(mysql, &plugin)
