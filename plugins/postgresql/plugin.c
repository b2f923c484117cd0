/* SPDX-License-Identifier: MIT */
/*
 * postgresql://user@host/database - rows or advisory locks of PostgreSQL as locks.
 *
 * README.md is for users. Two tables have the slots: of rows, and of advisory locks of a session.
 */
#include "connect.h"
#include "net/tls.h"
#include "open.h"
#include "probe.h"
#include "row.h"
#include "session_lock.h"

#include <sys/eventfd.h>
#include <unistd.h>

static const char *const schemes[] = {"postgresql", "postgres", NULL};

static const struct dlock_option_spec options[] = {
    {"strategy", "enum", "row", "row|session",
     "row: a function changes a row of a table; session: an advisory lock is the lock, and ends "
     "with the connection"},
    {"key", "text", NULL, "1..40",
     "strategy=session: advisory:NUMBER is the number of the advisory lock of the name, so that "
     "programs that use it take part; the client can lock one name only"},
    {"unix_socket", "text", NULL, "1..120",
     "absolute path of the server's socket, or of its directory, instead of a host"},
    {"schema", "text", "public", "1..63", "the schema that has the tables"},
    {"table_prefix", "text", "dlock_", "1..32",
     "what the names of the tables and functions begin with"},
    {"create", "bool", "on", NULL,
     "create the tables and functions if they are not there; off: NO_STORE, and nothing is made"},
    {"waiter_lease", "duration", "3s", "500ms..60s",
     "how long a queue entry lasts without a refresh"},
    {"session_grace", "duration", "5s", "2s..60s",
     "strategy=session: how long a claim may outlive the connection that holds it; it is checked "
     "each third of that"},
    {"tls", "bool", "off", NULL, "encrypt, and check the server's certificate; see verify"},
    TLS_OPTION_ROWS,
    {"spin", "bool", "on", NULL,
     "poll for an answer for some microseconds before sleeping, if answers come that fast"},
    {NULL, NULL, NULL, NULL, NULL},
};

static enum dlock_status plugin_init(const struct dlock_host *host, struct dlock_error *err)
{
    (void)host;
    if (!pg_shared_init() || pg_connect_init() != 0)
        return dlock_fail(err, PG_ORIGIN, DLOCK_NOMEM, 0, "no memory to start libpq");
    return DLOCK_OK;
}

static enum dlock_status session_equip(struct pg_session *session, const struct dlock_host *host,
                                       struct dlock_error *err)
{
    session->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) + 1;
    session->shared = pg_shared_find(&session->config, host);
    if (session->wake_fd == 0 || session->shared == NULL)
        return dlock_fail(err, PG_ORIGIN, DLOCK_NOMEM, 0, "no memory or descriptor for a session");
    session->conn.host = host;
    session->conn.config = &session->config;
    session->conn.shared = session->shared;
    session->conn.wake_fd = session->wake_fd - 1;
    return DLOCK_OK;
}

static enum dlock_status session_open(void *self, const struct dlock_host *host,
                                      const struct dlock_target *target, int64_t deadline_ns,
                                      struct dlock_session_info *info, struct dlock_error *err)
{
    struct pg_session *session = self;
    enum dlock_status status = DLOCK_OK;

    if (session->shared == NULL) { /* else an open goes on */
        status = pg_config_init(&session->config, target, err);
        if (status == DLOCK_OK)
            status = session_equip(session, host, err);
    }
    if (status == DLOCK_OK)
        status = pg_open(&session->conn, deadline_ns, err);
    if (status == DLOCK_OK)
        pg_probe_info(&session->conn, info);
    else
        info->can_resume = session->conn.login_ns != 0;
    return status;
}

static void session_close(void *self, bool forked)
{
    struct pg_session *session = self;

    if (session->wake_fd > 0)
        (void)close(session->wake_fd - 1);
    if (forked)
        pg_connect_after_fork(&session->conn);
    else
        pg_connect_close(&session->conn);
    if (session->shared != NULL && !forked)
        pg_shared_unref(session->shared);
}

static enum dlock_status session_probe(void *self, int64_t deadline_ns,
                                       struct dlock_session_info *info, dlock_check_fn *fn,
                                       void *arg, struct dlock_error *err)
{
    struct pg_session *session = self;
    enum dlock_status status = pg_connection_enter(&session->conn, deadline_ns, err);

    if (status == DLOCK_OK)
        status = pg_probe(&session->conn, fn, arg, err);
    if (status == DLOCK_OK)
        pg_probe_info(&session->conn, info);
    return status;
}

static const struct dlock_backend_ops row_ops = {
    .struct_size = sizeof row_ops,
    .session_size = sizeof(struct pg_session),
    .attempt_size = sizeof(struct pg_slot),
    .open = session_open,
    .close = session_close,
    .trylock = pg_row_trylock,
    .renew = pg_row_renew,
    .unlock = pg_row_unlock,
    .forget = pg_row_forget,
    .watch = pg_row_watch,
    .dequeue = pg_row_dequeue,
    .interrupt = pg_row_interrupt,
    .wait_any = pg_row_wait_any,
    .trylock_batch = pg_row_trylock_batch,
    .unlock_batch = pg_row_unlock_batch,
    .inspect = pg_row_inspect,
    .list = pg_row_list,
    .list_waiters = pg_row_list_waiters,
    .break_lock = pg_row_break,
    .probe = session_probe,
};

static const struct dlock_backend_ops session_ops = {
    .struct_size = sizeof session_ops,
    .session_size = sizeof(struct pg_session),
    .attempt_size = sizeof(struct pg_slot),
    .open = session_open,
    .close = session_close,
    .trylock = pg_session_trylock,
    .renew = pg_session_renew,
    .unlock = pg_session_unlock,
    .lock = pg_session_lock,
    .interrupt = pg_row_interrupt,
    .inspect = pg_session_inspect,
    .list = pg_session_list,
    .break_lock = pg_session_break,
    .probe = session_probe,
};

static const struct dlock_strategy strategies[] = {
    {"row", PG_ROW_CAPS, &row_ops},
    {"session", PG_SESSION_CAPS, &session_ops},
    {NULL, 0, NULL},
};

static const struct dlock_plugin plugin = {
    .magic = DLOCK_PLUGIN_MAGIC,
    .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
    .abi_minor = DLOCK_PLUGIN_ABI_MINOR,
    .struct_size = sizeof plugin,
    .name = "postgresql",
    .version = "1",
    .schemes = schemes,
    .options = options,
    .init = plugin_init,
    .strategies = strategies,
};

DLOCK_PLUGIN_ENTRY(postgresql, &plugin)
