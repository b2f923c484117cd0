/* SPDX-License-Identifier: MIT */
/* What happens to a store on bad days: no room, damaged, written by others, from another boot. No
 * fault may end in a wrong OK, and no fence may go back. */
#include "peer_kit.h"
#include "store_kit.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

static char directory[64], path[64];
static struct dlt_store s, t;
static struct dlt_request a, b;

static void set_up(void)
{
    dlt_store_directory(directory, path);
    cr_assert_eq(dlt_store_start(&s, path), DLOCK_OK);
    dlt_store_request(&s, &a, "job", 'a', 60000);
    dlt_store_request(&s, &b, "job", 'b', 60000);
}

static void tear_down(void)
{
    dlt_store_close(&t);
    dlt_store_close(&s);
    (void)umount2(directory, MNT_DETACH); /* some tests mount it: the one below is left */
    dlt_store_remove(directory);
}

TestSuite(faults, .init = set_up, .fini = tear_down, .timeout = 60);

static void sql(const char *text)
{
    sqlite3 *db = NULL;
    char *why = NULL;

    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, text, NULL, NULL, &why), SQLITE_OK, "%s", why);
    (void)sqlite3_close(db);
}

static uint64_t taken_and_released(void)
{
    uint64_t fence = 0;

    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    fence = s.grant.fence;
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK);
    return fence;
}

static void message_names_the_file(void)
{
    cr_assert_not_null(strstr(s.err.message, path), "%s", s.err.message);
}

/* ---- rows that another version or program wrote ---- */

Test(faults, a_lease_of_another_boot_is_dead_and_its_fence_counts)
{
    uint64_t fence = 0;

    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    fence = s.grant.fence;
    sql("UPDATE locks SET boot = zeroblob(16), until_ns = 9223372036854775807");
    cr_assert_eq(dlt_store_renew(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    cr_assert_gt(s.grant.fence, fence);
}

Test(faults, TRY_6_the_fence_rises_though_the_wall_clock_is_behind_it)
{
    (void)taken_and_released();
    sql("UPDATE locks SET fence = 4000000000000000000");
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    cr_assert_eq(s.grant.fence, 4000000000000000032u);
}

Test(faults, TRY_6_the_fence_rises_though_the_file_went_back_in_time)
{
    uint64_t fence = taken_and_released();

    sql("UPDATE locks SET fence = 1");
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    cr_assert_gt(s.grant.fence, fence);
}

Test(faults, CONFIG_the_last_fence_is_not_followed_by_a_smaller_one)
{
    (void)taken_and_released();
    sql("UPDATE locks SET fence = 9223372036854775807");
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_CONFIG);
    message_names_the_file();
}

Test(faults, foreign_values_are_CONFIG_to_acquire_and_LOST_to_renew)
{
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    sql("UPDATE locks SET token = x'0102'");
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_CONFIG);
    message_names_the_file();
    cr_assert_eq(dlt_store_renew(&s, &a), DLOCK_LOST);
    sql("UPDATE locks SET token = NULL, fence = -1");
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_CONFIG);
    cr_assert_eq(dlt_store_break(&s, "job", NULL), DLOCK_CONFIG);
}

Test(faults, UNL_1_foreign_values_are_LOST_to_unlock)
{
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    sql("UPDATE locks SET token = x'0102'");
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
    sql("UPDATE locks SET token = NULL, fence = -1");
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_LOST, "%s", s.err.message);
}

Test(faults, REN_1_a_foreign_row_costs_no_other_renewal)
{
    struct dlt_request c;
    struct dlock_lease_op ops[2] = {{.req = &a.req}, {.req = &c.req}};

    dlt_store_request(&s, &c, "other", 'c', 60000);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &c), DLOCK_OK);
    sql("UPDATE locks SET fence = -1 WHERE name = x'6a6f62'");
    cr_assert_eq(dlt_renew_many(s.ops, s.self, ops, 2, dlt_host_in(&s.host, 1000), &s.err),
                 DLOCK_OK);
    cr_assert_eq(ops[0].status, DLOCK_LOST);
    cr_assert_eq(ops[1].status, DLOCK_OK);
}

/* The reader that waits cannot be granted the name for want of a number. */
Test(faults, REN_1_a_downgrade_that_cannot_be_finished_is_not_begun)
{
    struct dlt_request r, c;
    struct dlt_holder holders[2];
    struct dlock_lease_op ops[2] = {{.req = &c.req}, {.req = &a.req}};
    size_t count = 2;

    dlt_store_request(&s, &r, "job", 'r', 60000);
    dlt_store_request(&s, &c, "other", 'c', 60000);
    r.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &c), DLOCK_OK);
    cr_assert_eq(dlt_store_enqueue(&s, &r), DLOCK_BUSY);
    sql("UPDATE locks SET fence = 9223372036854775800 WHERE name = x'6a6f62'");
    a.req.flags = DLOCK_REQ_DOWNGRADE;
    cr_assert_eq(dlt_renew_many(s.ops, s.self, ops, 2, dlt_host_in(&s.host, 1000), &s.err),
                 DLOCK_CONFIG);
    cr_assert_eq(ops[0].status, DLOCK_CONFIG, "it was undone, too");
    cr_assert_eq(dlt_store_inspect(&s, "job", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    cr_assert_eq(holders[0].mode, DLOCK_EXCLUSIVE);
    cr_assert_eq(holders[0].waiters, 1);
}

Test(faults, foreign_rows_of_readers_and_waiters_stop_nobody)
{
    struct dlt_holder holders[2];
    size_t count = 2;

    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_enqueue(&s, &b), DLOCK_BUSY);
    sql("UPDATE waiters SET token = x'01'");
    sql("INSERT INTO readers (name, token, boot, since_ns, until_ns, fence, label)"
        " SELECT name, x'02', boot, since_ns, until_ns, fence, label FROM locks;"
        "UPDATE locks SET crowd = 3");
    cr_assert_eq(dlt_store_inspect(&s, "job", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    cr_assert_eq(holders[0].waiters, 0);
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK, "%s", s.err.message);
}

Test(faults, CONFIG_the_table_is_dropped_under_a_session)
{
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    sql("DROP TABLE locks");
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_CONFIG);
    message_names_the_file();
    cr_assert_neq(dlt_store_renew(&s, &a), DLOCK_OK);
    cr_assert_neq(dlt_store_unlock(&s, &a), DLOCK_OK);
}

Test(faults, DEQ_3_a_leave_that_fails_says_why)
{
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_enqueue(&s, &b), DLOCK_BUSY);
    sql("DROP TABLE waiters");
    cr_assert_eq(dlt_store_leave(&s, &b), DLOCK_CONFIG);
    cr_assert_not_null(strstr(s.err.message, "no such table"), "%s", s.err.message);
}

/* ---- damage ---- */

static int64_t number(const char *text)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *row = NULL;
    int64_t value = 0;

    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_prepare_v2(db, text, -1, &row, NULL), SQLITE_OK);
    cr_assert_eq(sqlite3_step(row), SQLITE_ROW);
    value = sqlite3_column_int64(row, 0);
    (void)sqlite3_finalize(row);
    (void)sqlite3_close(db);
    return value;
}

/* Where the page of the rows begins; *size: of a page. */
static off_t page_of_rows(size_t *size)
{
    *size = (size_t)number("PRAGMA page_size");
    return (number("SELECT rootpage FROM sqlite_schema WHERE name = 'locks'") - 1) * (off_t)*size;
}

static void overwrite(off_t from, size_t size)
{
    static unsigned char garbage[65536];
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    memset(garbage, 0xa5, sizeof garbage);
    cr_assert_eq(pwrite(fd, garbage, size, from), (ssize_t)size);
    (void)close(fd);
}

/* A file that was damaged while nobody used it. */
static void damaged(off_t from, size_t size)
{
    enum dlock_status status = DLOCK_INTERNAL;

    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    dlt_store_close(&s);
    overwrite(from, size);
    status = dlt_store_open(&s);
    if (status == DLOCK_OK)
        status = dlt_store_try(&s, &b);
    cr_assert_eq(status, DLOCK_CONFIG, "%s: %s", dlock_status_name((int)status), s.err.message);
    message_names_the_file();
}

Test(faults, CONFIG_the_head_is_damaged)
{
    damaged(0, 100);
}

Test(faults, CONFIG_the_first_page_is_damaged)
{
    damaged(100, (size_t)number("PRAGMA page_size") - 100);
}

Test(faults, CONFIG_the_page_of_the_rows_is_damaged)
{
    size_t size = 0;
    off_t page = page_of_rows(&size);

    damaged(page, size);
}

Test(faults, damage_is_found_by_a_session_that_was_open_before)
{
    struct dlt_peer peer;
    size_t size = 0;
    off_t page = page_of_rows(&size);

    dlt_peer_start(&peer, NULL);
    cr_assert_eq(dlt_peer_ask(&peer, "open %s normal", path).status, DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    sql("PRAGMA wal_checkpoint(TRUNCATE)");
    overwrite(page, size);
    cr_assert_eq(dlt_peer_ask(&peer, "try job b 60000 1000").status, DLOCK_CONFIG);
    cr_assert_eq(dlt_peer_ask(&peer, "renew b").status, DLOCK_CONFIG);
    dlt_peer_kill(&peer);
}

Test(faults, cut_to_nothing_under_its_users_is_no_OK_to_anybody_new)
{
    struct dlt_peer peer;
    struct dlt_answer answer;
    uint64_t fence = 0;

    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    fence = s.grant.fence;
    cr_assert_eq(truncate(path, 0), 0);
    dlt_peer_start(&peer, NULL);
    answer = dlt_peer_ask(&peer, "open %s normal", path);
    cr_assert_eq(answer.status, DLOCK_CONFIG, "%s", answer.message);
    dlt_store_close(&s);
    answer = dlt_peer_ask(&peer, "open %s normal", path);
    if (answer.status == DLOCK_OK)
        answer = dlt_peer_ask(&peer, "try job b 60000 1000");
    cr_assert(answer.status != DLOCK_OK || answer.fence > fence);
    dlt_peer_kill(&peer);
}

/* ---- no room ---- */

static void mount_small(const char *size)
{
    cr_assert_eq(unshare(CLONE_NEWNS), 0);
    cr_assert_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    cr_assert_eq(mount("none", directory, "tmpfs", 0, size), 0);
}

/* Uses all the room there is in the directory. */
static void fill(const char *file)
{
    static const char page[4096];
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    while (write(fd, page, sizeof page) > 0)
        continue;
    (void)close(fd);
}

Test(faults, UNAVAILABLE_the_disk_is_full_and_nothing_is_lost)
{
    char filler[128], name[32];
    uint64_t fence = 0;
    enum dlock_status status = DLOCK_OK;
    struct dlt_request r;

    if (geteuid() != 0)
        cr_skip("mounting takes root");
    dlt_store_close(&s);
    mount_small("size=512k");
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    fence = s.grant.fence;
    (void)snprintf(filler, sizeof filler, "%s/filler", directory);
    fill(filler);
    for (int i = 0; status == DLOCK_OK && i < 10000; i++) {
        (void)snprintf(name, sizeof name, "name %d", i);
        dlt_store_request(&s, &r, name, 'n', 60000);
        status = dlt_store_try(&s, &r);
    }
    cr_assert_eq(status, DLOCK_UNAVAILABLE, "%s: %s", dlock_status_name((int)status),
                 s.err.message);
    message_names_the_file();
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY, "who looks needs no room");
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_UNAVAILABLE);
    cr_assert_eq(dlt_store_renew(&s, &a), DLOCK_UNAVAILABLE);
    cr_assert_eq(unlink(filler), 0);
    cr_assert_eq(dlt_store_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_store_try(&s, &r), DLOCK_OK, "it was definitely not taken");
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    cr_assert_gt(s.grant.fence, fence);
}

Test(faults, UNAVAILABLE_the_first_open_on_a_full_disk)
{
    char filler[128];

    if (geteuid() != 0)
        cr_skip("mounting takes root");
    dlt_store_close(&s);
    mount_small("size=128k");
    (void)snprintf(filler, sizeof filler, "%s/filler", directory);
    fill(filler);
    cr_assert_eq(dlt_store_open(&s), DLOCK_UNAVAILABLE, "%s", s.err.message);
    message_names_the_file();
    cr_assert_eq(unlink(filler), 0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
}

/* A write that fails in another way than for lack of room, at any of the bytes of a commit. */
Test(faults, TRY_4_a_commit_that_fails_is_UNKNOWN_and_the_same_token_settles_it)
{
    struct rlimit limit = {0, RLIM_INFINITY};
    int unknown = 0;

    cr_assert_eq(dlt_store_start(&t, path), DLOCK_OK);
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)taken_and_released();
    for (rlim_t size = 4096; size < 40000; size += 1300) {
        enum dlock_status status = DLOCK_INTERNAL;
        uint64_t fence = taken_and_released();

        limit.rlim_cur = size;
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        status = dlt_store_try(&s, &a);
        limit.rlim_cur = RLIM_INFINITY;
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        cr_assert(status == DLOCK_OK || status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE,
                  "%s", dlock_status_name((int)status));
        unknown += status == DLOCK_UNKNOWN;
        cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        cr_assert_gt(s.grant.fence, fence);
        cr_assert_eq(dlt_store_try(&t, &b), DLOCK_BUSY);
        cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK);
    }
    cr_assert_gt(unknown, 0);
}

/* ---- time ---- */

Test(faults, a_deadline_in_the_past_still_makes_one_attempt)
{
    a.req.deadline_ns = dlt_host_now(&s.host) - 1;
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    b.req.deadline_ns = 0;
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
}

/* Non-zero: SQLite rolled back by itself in the nth renewal from now on. */
static int rolled_back_at;

int __real_sqlite3_get_autocommit(sqlite3 *db);
int __wrap_sqlite3_get_autocommit(sqlite3 *db);
int __wrap_sqlite3_get_autocommit(sqlite3 *db)
{
    if (rolled_back_at > 0 && --rolled_back_at == 0)
        return 1;
    return __real_sqlite3_get_autocommit(db);
}

/* [REN-4] An OK would be of a renewal that is gone, a LOST of a lease that may be there. */
static void renewals_torn(enum dlock_status second)
{
    struct dlock_lease_op ops[3] = {{.req = &a.req, .status = DLOCK_INTERNAL},
                                    {.req = &b.req, .status = DLOCK_INTERNAL},
                                    {.req = &a.req, .status = DLOCK_INTERNAL}};
    enum dlock_status status = DLOCK_INTERNAL;

    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    b.req.name = (const unsigned char *)"other";
    b.req.name_len = 5;
    if (second == DLOCK_OK)
        cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    rolled_back_at = 2;
    status = dlt_renew_many(s.ops, s.self, ops, 3, dlt_host_in(&s.host, 2000), &s.err);
    cr_assert_eq(status, DLOCK_INTERNAL, "%s", dlock_status_name((int)status));
    cr_assert_eq(ops[0].status, DLOCK_INTERNAL);
    cr_assert_eq(ops[1].status, DLOCK_INTERNAL);
    cr_assert_neq(ops[2].status, DLOCK_OK);
    cr_assert_eq(ops[0].grant.lease_ms, 0);
    message_names_the_file();
    cr_assert_eq(dlt_store_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
}

Test(faults, INTERNAL_a_transaction_that_ended_by_itself_after_a_renewal)
{
    renewals_torn(DLOCK_OK);
}

Test(faults, INTERNAL_a_transaction_that_ended_by_itself_before_what_is_lost)
{
    renewals_torn(DLOCK_LOST);
}
