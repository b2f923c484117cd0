/* SPDX-License-Identifier: MIT */
/* sqlite:///path - the embedded store: all processes of this host that open the same file. The
 * slots are here, in the order of plugin.h; session.h has the map, README.md is for users. */
#include "errmap.h"
#include "lib/request.h"
#include "lock_file.h"
#include "os_error.h"
#include "session.h"
#include "trust.h"
#include "wake_file.h"
#include "watch.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

struct origin {
    bool emptied; /* in a child, by the kernel, which needs no pid */
    pid_t pid;
};

static _Atomic(struct origin *) origin; /* a page of its own */

/* No mutex: a child might inherit it locked. */
static enum dlock_status fork_guard_init(struct dlock_error *err)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    struct origin *page = atomic_load(&origin);
    struct origin *none = NULL;

    if (page != NULL)
        return DLOCK_OK;
    page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return dlock_fail(err, SQ_ORIGIN, DLOCK_NOMEM, ENOMEM, "no memory for a page");
    /* Without this only the pid tells, and a new pid namespace may repeat a pid. */
    page->emptied = madvise(page, size, MADV_WIPEONFORK) == 0;
    page->pid = getpid();
    if (!atomic_compare_exchange_strong(&origin, &none, page))
        (void)munmap(page, size);
    return DLOCK_OK;
}

static bool is_forked_child(void)
{
    const struct origin *page = atomic_load(&origin);

    return page != NULL && !page->emptied && page->pid != getpid();
}

/* Around everything that may write to files, in one thread. */
static void sigxfsz_block(struct sqlite_sigxfsz *sigxfsz)
{
    struct rlimit limit;

    sigxfsz->limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    if (sigxfsz->limited)
        dl_signal_guard_begin(&sigxfsz->guard, SIGXFSZ);
}

static void sigxfsz_restore(struct sqlite_sigxfsz *sigxfsz)
{
    if (sigxfsz->limited)
        dl_signal_guard_end(&sigxfsz->guard);
    sigxfsz->limited = false;
}

#define SQ_CAPS_ALWAYS                                                                       \
    (DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_CRASH_SAFE |       \
     DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE | DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP | DLOCK_CAP_DATA | \
     DLOCK_CAP_NO_TTL)

/* The beginning of every slot that touches the file; slot_end is its end, also after a failure
 * here. */
static enum dlock_status slot_begin(struct sqlite_session *session, int64_t deadline_ns,
                                    struct dlock_error *err)
{
    if (is_forked_child())
        return dlock_fail(err, SQ_ORIGIN, DLOCK_FORKED, 0,
                          "SQLite was used before this process was forked; open the store after "
                          "exec");
    session->db.until_ns =
        sqlite_clock_until(deadline_ns - session->host->now_ns(session->host->ctx));
    sigxfsz_block(&session->sigxfsz);
    return DLOCK_OK;
}

static enum dlock_status slot_end(struct sqlite_session *session, enum dlock_status status)
{
    sigxfsz_restore(&session->sigxfsz);
    return status;
}

/* The same for slots that write. */
static enum dlock_status slot_begin_write(struct sqlite_session *session, int64_t deadline_ns,
                                          struct dlock_error *err)
{
    if (session->config.access == SQ_ACCESS_WRITE)
        return slot_begin(session, deadline_ns, err);
    return dlock_fail(err, SQ_ORIGIN, DLOCK_AUTH, 0, "this user may only read %.200s",
                      session->config.path);
}

static void info_fill(struct dlock_session_info *info, const struct sqlite_session *session)
{
    info->caps = SQ_CAPS_ALWAYS | (session->config.full ? DLOCK_CAP_FENCE_DURABLE : 0);
    info->parallelism = 1;
    (void)snprintf(info->server, sizeof info->server, "SQLite %s", sqlite3_libversion());
    (void)snprintf(info->endpoint, sizeof info->endpoint, "%s", session->config.path);
}

/* The last user may close the store just before it is opened, and removes -wal and -shm: this user
 * cannot make them again, and reads the file alone. */
static enum dlock_status store_open_to_read(struct sqlite_session *session, struct dlock_error *err)
{
    struct sqlite_config *config = &session->config;
    enum dlock_status status = sqlite_db_open(&session->db, config, err);

    if (status == DLOCK_OK || config->access == SQ_ACCESS_SNAPSHOT ||
        sqlite_config_has_sibling(config, "-wal") || sqlite_config_has_sibling(config, "-shm"))
        return status;
    sqlite_db_close(&session->db);
    config->access = SQ_ACCESS_SNAPSHOT;
    return sqlite_db_open(&session->db, config, err);
}

static enum dlock_status store_open(struct sqlite_session *session, struct dlock_error *err)
{
    struct sqlite_db *db = &session->db;
    enum dlock_status status = DLOCK_INTERNAL;
    int lock_fd = -1;
    bool dropped = false;
    gid_t group = 0;

    if (session->config.access != SQ_ACCESS_WRITE)
        return store_open_to_read(session, err);
    dropped = sqlite_trust_chown_drop(&session->config, &group);
    status = sqlite_setup_file(&session->config, &session->clock, db->until_ns, &lock_fd, err);
    if (status == DLOCK_OK)
        status = sqlite_db_open(db, &session->config, err);
    if (lock_fd >= 0)
        sqlite_lock_file_give(&session->config, lock_fd);
    if (dropped)
        sqlite_trust_chown_restore(group);
    if (status == DLOCK_OK)
        sqlite_wake_map_open(&db->wake_file, &session->config, &session->clock, db->until_ns);
    return status;
}

static enum dlock_status sqlite_init(const struct dlock_host *host, struct dlock_error *err)
{
    (void)host;
    if (sqlite_wait_list_init())
        return DLOCK_OK;
    return dlock_fail(err, SQ_ORIGIN, DLOCK_NOMEM, 0, "no memory for a plugin");
}

static enum dlock_status wait_list_find(struct sqlite_session *session, struct dlock_error *err)
{
    session->wait_list = sqlite_wait_list_find(session->host);
    if (session->wait_list != NULL)
        return DLOCK_OK;
    return dlock_fail(err, SQ_ORIGIN, DLOCK_NOMEM, 0, "no memory for a session");
}

static enum dlock_status sqlite_open(void *self, const struct dlock_host *host,
                                     const struct dlock_target *target, int64_t deadline_ns,
                                     struct dlock_session_info *info, struct dlock_error *err)
{
    struct sqlite_session *session = self;
    enum dlock_status status = fork_guard_init(err);

    session->host = host;
    if (status == DLOCK_OK)
        status = slot_begin(session, deadline_ns, err);
    /* Not in a forked child, which may have inherited SQLite's mutexes locked. */
    if (status == DLOCK_OK && !sqlite_db_is_threadsafe())
        status = dlock_fail(err, SQ_ORIGIN, DLOCK_CONFIG, 0,
                            "this SQLite was built or configured (SQLITE_CONFIG_SINGLETHREAD) for "
                            "a single thread");
    if (status == DLOCK_OK)
        status = sqlite_config_init(&session->config, target, err);
    if (status == DLOCK_OK)
        status = sqlite_clock_init(&session->clock, err);
    if (status == DLOCK_OK)
        status = wait_list_find(session, err);
    if (status == DLOCK_OK)
        status = store_open(session, err);
    if (status == DLOCK_OK)
        info_fill(info, session);
    return slot_end(session, sqlite_errmap_limit(session->db.handle, status, err));
}

static void sqlite_close(void *self, bool is_forked)
{
    struct sqlite_session *session = self;

    if (is_forked || is_forked_child())
        return;
    sigxfsz_block(&session->sigxfsz);
    sqlite_db_close(&session->db);
    sigxfsz_restore(&session->sigxfsz);
    sqlite_wake_map_close(&session->db.wake_file);
    sqlite_life_keep_no_longer(session->life);
    sqlite_wait_list_unref(session->wait_list);
    sqlite_config_fini(&session->config);
}

static enum dlock_status sqlite_trylock(void *self, const struct dlock_request *req,
                                        struct dlock_grant *grant, struct dlock_error *err)
{
    struct sqlite_session *session = self;
    enum dlock_status status = slot_begin_write(session, req->deadline_ns, err);

    if (status != DLOCK_OK)
        return status;
    sqlite_wake_file_reopen(&session->db.wake_file, &session->config, &session->clock,
                            session->db.until_ns);
    status = sqlite_lease_try(session, req, grant, err);
    return slot_end(session, sqlite_errmap_limit(session->db.handle, status, err));
}

static enum dlock_status sqlite_trylock_batch(void *self, struct dlock_batch_op *const *ops,
                                              size_t n, struct dlock_error *err)
{
    struct sqlite_session *session = self;
    enum dlock_status status = slot_begin_write(session, dl_batch_deadline_last(ops, n), err);

    if (status != DLOCK_OK)
        return status;
    sqlite_wake_file_reopen(&session->db.wake_file, &session->config, &session->clock,
                            session->db.until_ns);
    return slot_end(session, sqlite_lease_batch_try(session, ops, n, err));
}

static enum dlock_status sqlite_unlock_batch(void *self, struct dlock_batch_op *const *ops,
                                             size_t n, struct dlock_error *err)
{
    enum dlock_status status = slot_begin_write(self, dl_batch_deadline_last(ops, n), err);

    if (status == DLOCK_OK)
        status = sqlite_lease_batch_unlock(self, ops, n, err);
    return slot_end(self, status);
}

static enum dlock_status sqlite_renew(void *self, struct dlock_lease_op *const *ops, size_t n,
                                      int64_t deadline_ns, struct dlock_error *err)
{
    enum dlock_status status = slot_begin_write(self, deadline_ns, err);

    if (status == DLOCK_OK)
        status = sqlite_lease_renew(self, ops, n, err);
    return slot_end(self, status);
}

static enum dlock_status sqlite_unlock(void *self, const struct dlock_request *req,
                                       struct dlock_error *err)
{
    enum dlock_status status = slot_begin_write(self, req->deadline_ns, err);

    if (status == DLOCK_OK)
        status = sqlite_lease_unlock(self, req, err);
    return slot_end(self, status);
}

static void sqlite_forget(void *self, const struct dlock_request *req)
{
    (void)self;
    if (!is_forked_child())
        sqlite_lease_forget(req);
}

static enum dlock_status sqlite_dequeue(void *self, const struct dlock_request *req,
                                        struct dlock_error *err)
{
    enum dlock_status status = slot_begin_write(self, req->deadline_ns, err);

    if (status == DLOCK_OK)
        status = sqlite_lease_dequeue(self, req, err);
    return slot_end(self, status);
}

static enum dlock_status sqlite_watch(void *self, const struct dlock_request *req,
                                      struct dlock_grant *grant, struct dlock_error *err)
{
    struct sqlite_session *session = self;
    int64_t exchange_ns =
        session->host->now_ns(session->host->ctx) + req->op_timeout_ms * DL_NS_PER_MS;
    enum dlock_status status =
        slot_begin(self, exchange_ns < req->deadline_ns ? exchange_ns : req->deadline_ns, err);

    if (status == DLOCK_OK)
        status = sqlite_watch_name(self, req, grant, err);
    return slot_end(self, status);
}

/* Not slot_begin: it makes no exchange. */
static enum dlock_status sqlite_wait_any(void *self, uint32_t *waiters, size_t *count,
                                         int64_t deadline_ns, struct dlock_error *err)
{
    if (is_forked_child())
        return dlock_fail(err, SQ_ORIGIN, DLOCK_FORKED, 0,
                          "SQLite was used before this process "
                          "was forked");
    return sqlite_watch_any(self, waiters, count, deadline_ns, err);
}

static void sqlite_interrupt(void *self, const struct dlock_request *req)
{
    const struct sqlite_session *session = self;
    struct sqlite_attempt *attempt = req != NULL ? req->attempt : NULL;

    if (is_forked_child())
        return;
    if (attempt == NULL)
        sqlite_wait_list_interrupt(session->wait_list);
    else
        sqlite_wake_file_interrupt(&session->db.wake_file, &attempt->waiter);
}

static enum dlock_status sqlite_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                        int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                        struct dlock_error *err)
{
    enum dlock_status status = slot_begin(self, deadline_ns, err);

    if (status == DLOCK_OK)
        status = sqlite_inspect_name(self, name, name_len, fn, arg, err);
    return slot_end(self, status);
}

static enum dlock_status sqlite_list_waiters(void *self, const unsigned char *name,
                                             uint32_t name_len, int64_t deadline_ns,
                                             dlock_waiter_fn *fn, void *arg,
                                             struct dlock_error *err)
{
    enum dlock_status status = slot_begin(self, deadline_ns, err);

    if (status == DLOCK_OK)
        status = sqlite_inspect_waiters(self, name, name_len, fn, arg, err);
    return slot_end(self, status);
}

static enum dlock_status sqlite_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                                     int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                     struct dlock_error *err)
{
    enum dlock_status status = slot_begin(self, deadline_ns, err);

    if (status == DLOCK_OK)
        status = sqlite_inspect_prefix(self, prefix, prefix_len, fn, arg, err);
    return slot_end(self, status);
}

static enum dlock_status sqlite_break(void *self, const unsigned char *name, uint32_t name_len,
                                      const char *owner, int64_t deadline_ns,
                                      struct dlock_error *err)
{
    enum dlock_status status = slot_begin_write(self, deadline_ns, err);

    if (status == DLOCK_OK)
        status = sqlite_lease_break(self, name, name_len, owner, err);
    return slot_end(self, status);
}

static enum dlock_status sqlite_probe(void *self, int64_t deadline_ns,
                                      struct dlock_session_info *info, dlock_check_fn *fn,
                                      void *arg, struct dlock_error *err)
{
    enum dlock_status status = slot_begin(self, deadline_ns, err);

    if (status == DLOCK_OK)
        status = sqlite_inspect_report(self, fn, arg, err);
    if (status == DLOCK_OK)
        info_fill(info, self);
    return slot_end(self, status);
}

static const struct dlock_backend_ops sqlite_ops = {
    .struct_size = sizeof sqlite_ops,
    .session_size = sizeof(struct sqlite_session),
    .attempt_size = sizeof(struct sqlite_attempt),
    .open = sqlite_open,
    .close = sqlite_close,
    .trylock = sqlite_trylock,
    .renew = sqlite_renew,
    .unlock = sqlite_unlock,
    .forget = sqlite_forget,
    .watch = sqlite_watch,
    .dequeue = sqlite_dequeue,
    .interrupt = sqlite_interrupt,
    .inspect = sqlite_inspect,
    .list = sqlite_list,
    .break_lock = sqlite_break,
    .probe = sqlite_probe,
    .list_waiters = sqlite_list_waiters,
    .wait_any = sqlite_wait_any,
    .trylock_batch = sqlite_trylock_batch,
    .unlock_batch = sqlite_unlock_batch,
};

static const char *const sqlite_schemes[] = {"sqlite", NULL};

static const struct dlock_option_spec sqlite_options[] = {
    {"sync", "enum", "normal", "normal|full",
     "full: every change reaches the disk before the call returns, so that fences rise across a "
     "power failure, whatever the clock does; all users of the file must ask for it"},
    {"waiter_lease", "duration", "3s", "500ms..60s",
     "how long a queue entry lasts if its waiter does not refresh it, and a grant to a waiter "
     "until "
     "the waiter renews it (not longer than the ttl): a dead waiter delays the others by this "
     "time"},
    {"create", "bool", "on", NULL,
     "make the file if it is missing, and upgrade an old one; off: NO_STORE, and nothing is "
     "changed"},
    {"unsafe_network_fs", "bool", "off", NULL,
     "accept a network file system, on which two hosts may hold the same lock"},
    {NULL, NULL, NULL, NULL, NULL},
};

static const struct dlock_plugin sqlite_plugin = {
    .magic = DLOCK_PLUGIN_MAGIC,
    .abi_major = DLOCK_PLUGIN_ABI_MAJOR,
    .abi_minor = DLOCK_PLUGIN_ABI_MINOR,
    .struct_size = sizeof sqlite_plugin,
    .caps = SQ_CAPS_ALWAYS | DLOCK_CAP_FENCE_DURABLE,
    .name = "sqlite",
    .version = "1",
    .schemes = sqlite_schemes,
    .options = sqlite_options,
    .init = sqlite_init,
    .ops = &sqlite_ops,
};

DLOCK_PLUGIN_ENTRY(sqlite, &sqlite_plugin)
