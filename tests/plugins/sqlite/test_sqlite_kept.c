/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/unlock.c core/api/handle.c core/api/client.c plugins/sqlite/lease.c
 */
/*
 * A release that should have kept the name failed, because another program sits in a transaction.
 * Who has the name until the release is repeated (C22, C23), and when it never is? By the functions
 * of applications, on a file.
 */
#include "notices.h"
#include "store_kit.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <poll.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#define KEEP_MS   600000
#define WAIT_MS   60000
#define RECHECKS  25 /* of the first waiter, every 20 ms (C23) */
#define NAME      "job"
#define NAME_SIZE (sizeof NAME - 1)

static char directory[64], path[64];
static struct dlock_client *one, *other;
static struct dlock_handle *keeper, *waiter;
static struct dlock_error err = DLOCK_ERROR_INIT;

static void bail_out(const char *what, const char *why)
{
    printf("Bail out! %s: %s\n", what, why);
    exit(1);
}

static struct dlock_client *client_open(const char *query)
{
    struct dlock_client *client = NULL;
    char uri[128];

    (void)snprintf(uri, sizeof uri, "sqlite://%s?%s", path, query);
    if (dlock_client_open(uri, NULL, &client, &err) != DLOCK_OK)
        bail_out("open", err.message);
    return client;
}

static struct dlock_handle *lock_new(struct dlock_client *client, int64_t keep_ms)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .keep_ms = keep_ms,
                                    .ttl_ms = KEEP_MS};
    struct dlock_handle *lock = NULL;

    if (dlock_new(client, NAME, NAME_SIZE, &options, &lock, &err) != DLOCK_OK)
        bail_out("new", err.message);
    return lock;
}

/* ---- the waiter ---- */

struct wait {
    pthread_t thread;
    enum dlock_status status;
    _Atomic bool done;
};

static void *wait_main(void *arg)
{
    struct wait *wait = arg;

    wait->status = dlock_timedlock(waiter, WAIT_MS, NULL);
    atomic_store(&wait->done, true);
    return NULL;
}

/* What inspect shows of the name. */
struct seen {
    bool kept;
    uint32_t waiters;
};

static bool holder_note(void *arg, const struct dlock_holder *holder)
{
    struct seen *seen = arg;

    seen->kept = holder->kept;
    seen->waiters = holder->waiters;
    return true;
}

static struct seen name_inspect(void)
{
    struct seen seen = {false, 0};

    if (dlock_client_inspect(other, NAME, NAME_SIZE, holder_note, &seen, &err) != DLOCK_OK)
        bail_out("inspect", err.message);
    return seen;
}

static void wait_start(struct wait *wait)
{
    *wait = (struct wait){.status = DLOCK_INTERNAL};
    if (pthread_create(&wait->thread, NULL, wait_main, wait) != 0)
        bail_out("thread", "no memory");
    while (name_inspect().waiters != 1)
        (void)poll(NULL, 0, 10);
}

static enum dlock_status wait_join(struct wait *wait)
{
    (void)pthread_join(wait->thread, NULL);
    return wait->status;
}

/* ---- the other program ---- */

static void statement_run(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        bail_out(sql, sqlite3_errmsg(db));
}

static enum dlock_status operation_run(struct dlock_handle *lock, enum dlock_op op)
{
    struct dlock_notice notice = {.struct_size = sizeof notice};
    struct pollfd fd = {.fd = dlock_client_fd(one), .events = POLLIN};

    if (dlock_op_start(lock, op, 0, &err) != DLOCK_OK)
        bail_out("start", err.message);
    while (dlt_notice_take(one, &notice, &err) == 0)
        (void)poll(&fd, 1, -1);
    return notice.status;
}

static enum dlock_status unlock(bool starts)
{
    return starts ? operation_run(keeper, DLOCK_OP_UNLOCK) : dlock_unlock(keeper, &err);
}

/* The name is held, another client waits for it, and its release has failed. */
static void release_fail(struct wait *wait, bool starts)
{
    sqlite3 *db = NULL;
    enum dlock_status status;

    one = client_open("op_timeout=300ms");
    other = client_open("op_timeout=2s");
    keeper = lock_new(one, KEEP_MS);
    waiter = lock_new(other, 0);
    if (dlock_lock(keeper, &err) != DLOCK_OK)
        bail_out("lock", err.message);
    wait_start(wait);
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(db, WAIT_MS) != SQLITE_OK)
        bail_out("the other program", sqlite3_errmsg(db));
    statement_run(db, "BEGIN IMMEDIATE");
    status = unlock(starts);
    statement_run(db, "ROLLBACK");
    (void)sqlite3_close(db);
    (void)dlt_ok(status == DLOCK_UNAVAILABLE, "the release fails: %s",
                 dlock_status_name((int)status));
}

static void end(void)
{
    dlock_free(keeper);
    dlock_free(waiter);
    dlock_client_close(one);
    dlock_client_close(other);
    dlt_store_remove(directory);
}

static void a_release_that_failed_is_repeated(bool starts)
{
    struct wait wait;
    enum dlock_status status;

    dlt_store_directory(directory, path);
    release_fail(&wait, starts);
    for (int i = 0; i < RECHECKS && !atomic_load(&wait.done); i++)
        (void)poll(NULL, 0, 20);
    (void)dlt_ok(!atomic_load(&wait.done), "C23: the waiter does not take it for a dead holder's");
    status = unlock(starts);
    (void)dlt_ok(status == DLOCK_OK, "C22: the repeated release is executed: %s",
                 dlock_status_name((int)status));
    (void)dlt_ok(name_inspect().kept, "C22: the name is kept");
    dlock_cancel(waiter);
    status = wait_join(&wait);
    (void)dlt_ok(status == DLOCK_CANCELED, "C22: the waiter never had it: %s",
                 dlock_status_name((int)status));
    end();
}

static void release_again_by_acquiring(void)
{
    enum dlock_status status = dlock_trylock(keeper, &err);

    if (status == DLOCK_OK && dlock_keep_name(keeper, 0, &err) == DLOCK_OK)
        status = dlock_unlock(keeper, &err);
    if (status != DLOCK_BUSY && status != DLOCK_OK)
        bail_out("trylock", err.message);
}

static void handle_free(void)
{
    dlock_free(keeper);
    keeper = NULL;
}

static void client_close(void)
{
    dlock_client_close(one);
    dlock_free(keeper);
    keeper = NULL;
    one = NULL;
}

/* The ttl is longer than the wait: the waiter gets the name by the rule of C23 alone. */
static void a_release_that_nobody_repeats(const char *what, void (*give_up)(void))
{
    struct wait wait;
    enum dlock_status status;

    dlt_store_directory(directory, path);
    release_fail(&wait, false);
    give_up();
    status = wait_join(&wait);
    (void)dlt_ok(status == DLOCK_OK, "C23: %s, and the waiter gets the name: %s", what,
                 dlock_status_name((int)status));
    end();
}

int main(void)
{
    a_release_that_failed_is_repeated(false);
    a_release_that_failed_is_repeated(true);
    a_release_that_nobody_repeats("the handle is freed", handle_free);
    a_release_that_nobody_repeats("the client is closed", client_close);
    a_release_that_nobody_repeats("the handle acquires again", release_again_by_acquiring);
    return dlt_done();
}
