/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/lease.c */
/*
 * Does each element of a batch have its own answer, and is that answer true whichever file
 * operation of its one transaction fails? (C19, BAT-1, BAT-2, BAT-4)
 */
#include "store_kit.h"
#include "vfs_kit.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

enum { MANY = 5, TTL_MS = 60000 };

static char directory[64], path[64];
static struct dlt_store s, t;
static struct dlt_request requests[MANY];
static char names[MANY][24];
static struct dlock_error errors[MANY];
static struct dlock_batch_op elements[MANY], *ops[MANY];

static void set_up(void)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    dlt_vfs_install();
    dlt_store_directory(directory, path);
    cr_assert_eq(dlock_plugin_sqlite()->init(NULL, &err), DLOCK_OK);
    cr_assert_eq(dlt_store_start(&s, path), DLOCK_OK);
    cr_assert_eq(dlt_store_start(&t, path), DLOCK_OK);
}

static void tear_down(void)
{
    dlt_store_close(&t);
    dlt_store_close(&s);
    dlt_store_remove(directory);
}

TestSuite(batch, .init = set_up, .fini = tear_down, .timeout = 120);

static void elements_reset(void)
{
    for (size_t i = 0; i < MANY; i++) {
        requests[i].req.deadline_ns = dlt_host_in(&s.host, 2000);
        errors[i] = (struct dlock_error)DLOCK_ERROR_INIT;
        elements[i] = (struct dlock_batch_op){.struct_size = sizeof elements[i],
                                              .status = DLOCK_INTERNAL,
                                              .req = &requests[i].req,
                                              .err = &errors[i]};
        elements[i].grant = (struct dlock_grant){
            .struct_size = sizeof elements[i].grant, .waiters = UINT32_MAX, .holder_ms = -1};
        ops[i] = &elements[i];
    }
}

static void batch_make(void)
{
    for (size_t i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof names[i], "n%zu", i);
        dlt_store_request(&s, &requests[i], names[i], (unsigned char)(i + 1), TTL_MS);
    }
    elements_reset();
}

static enum dlock_status call(bool unlocks)
{
    s.err = (struct dlock_error)DLOCK_ERROR_INIT;
    return (unlocks ? s.ops->unlock_batch : s.ops->trylock_batch)(s.self, ops, MANY, &s.err);
}

static void each_is(enum dlock_status status)
{
    for (size_t i = 0; i < MANY; i++)
        cr_assert_eq(elements[i].status, status, "%zu: %s: %s", i,
                     dlock_status_name((int)elements[i].status), errors[i].message);
}

static bool held(size_t i)
{
    struct dlt_holder holder = {.name = ""};
    size_t count = 1;

    cr_assert_eq(dlt_store_inspect(&t, names[i], &holder, &count), DLOCK_OK, "%s", t.err.message);
    return holder.name[0] != '\0';
}

/* As core does after such a failure [FAI-1]. */
static void session_replace(void)
{
    dlt_store_close(&s);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
}

/* What is certain is so, and what is not is settled by the same tokens. Returns the faults. */
static int call_with_fault(bool unlocks, int n, int on)
{
    enum dlock_status whole = DLOCK_INTERNAL;
    int faults = 0;

    batch_make();
    if (unlocks) {
        cr_assert_eq(call(false), DLOCK_OK);
        each_is(DLOCK_OK);
        elements_reset();
    }
    dlt_vfs_arm(n, on);
    whole = call(unlocks);
    faults = dlt_vfs_disarm();
    for (size_t i = 0; i < MANY; i++) {
        enum dlock_status status = whole == DLOCK_OK ? elements[i].status : whole;

        cr_assert(status != DLOCK_BUSY && status != DLOCK_LOST && status != DLOCK_INTERNAL,
                  "fault at %d: %s %s", n, dlock_status_name((int)status), errors[i].message);
        if (status != DLOCK_UNKNOWN)
            cr_assert_eq(held(i), (status == DLOCK_OK) != unlocks, "fault at %d: %s", n,
                         dlock_status_name((int)status));
    }
    session_replace();
    elements_reset();
    if (!unlocks) {
        cr_assert_eq(call(false), DLOCK_OK);
        each_is(DLOCK_OK);
        elements_reset();
    }
    cr_assert_eq(call(true), DLOCK_OK);
    for (size_t i = 0; i < MANY; i++)
        cr_assert(!held(i));
    return faults;
}

static void each_operation(bool unlocks)
{
    for (int on = 0; on < 2; on++)
        for (int n = 1; call_with_fault(unlocks, n, on) > 0; n++)
            continue;
}

Test(batch, BAT_2_a_fault_in_each_file_operation_of_trylock)
{
    each_operation(false);
}

Test(batch, BAT_2_a_fault_in_each_file_operation_of_unlock)
{
    each_operation(true);
}

/* ---- what is no part of the transaction ---- */

static sqlite3 *database_open(void)
{
    sqlite3 *handle = NULL;

    cr_assert_eq(sqlite3_open(path, &handle), SQLITE_OK);
    return handle;
}

static void run(sqlite3 *handle, const char *text)
{
    cr_assert_eq(sqlite3_exec(handle, text, NULL, NULL, NULL), SQLITE_OK, "%s: %s", text,
                 sqlite3_errmsg(handle));
}

/* Names that are held are polled while another process writes for as long as it likes. */
Test(batch, BAT_1_polls_need_no_write_lock)
{
    sqlite3 *writer = NULL;
    struct dlt_request others[MANY];

    batch_make();
    for (size_t i = 0; i < MANY; i++) {
        dlt_store_request(&t, &others[i], names[i], (unsigned char)('a' + i), TTL_MS);
        cr_assert_eq(dlt_store_try(&t, &others[i]), DLOCK_OK);
    }
    cr_assert_eq(call(false), DLOCK_OK); /* the first try of each writes */
    each_is(DLOCK_BUSY);
    writer = database_open();
    run(writer, "BEGIN IMMEDIATE");
    elements_reset();
    cr_assert_eq(call(false), DLOCK_OK);
    each_is(DLOCK_BUSY);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_gt(elements[i].grant.holder_ms, 0);
    run(writer, "ROLLBACK");
    cr_assert_eq(sqlite3_close(writer), SQLITE_OK);
    cr_assert_eq(dlt_store_unlock(&t, &others[2]), DLOCK_OK);
    elements_reset();
    cr_assert_eq(call(false), DLOCK_OK);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_eq(elements[i].status, i == 2 ? DLOCK_OK : DLOCK_BUSY, "%zu", i);
}

static void header_write(const char *bytes)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    cr_assert(fd >= 0 && pwrite(fd, bytes, 16, 0) == 16 && close(fd) == 0);
}

/* The transaction does not begin: nothing is known of the leases, and so they are not LOST. */
Test(batch, UNL_3_a_transaction_that_does_not_begin_loses_nothing)
{
    sqlite3 *other = NULL;

    batch_make();
    cr_assert_eq(call(false), DLOCK_OK);
    each_is(DLOCK_OK);
    other = database_open();
    run(other, "PRAGMA wal_checkpoint(TRUNCATE)"); /* all of it is in the file */
    cr_assert_eq(sqlite3_close(other), SQLITE_OK);
    header_write("no SQLite file ");
    elements_reset();
    cr_assert_eq(call(true), DLOCK_OK);
    each_is(DLOCK_CONFIG);
    header_write("SQLite format 3");
    session_replace();
    elements_reset();
    cr_assert_eq(call(true), DLOCK_OK);
    each_is(DLOCK_OK);
    for (size_t i = 0; i < MANY; i++)
        cr_assert(!held(i));
}
