/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/clock.c plugins/sqlite/wake_file.c */
/* Does the wake file help without being needed? A file with a defect is made again or not used; and
 * a sleeper is woken by an unlock, an interrupt or the deadline, and by nothing else. */
#include "session.h"
#include "store_kit.h"
#include "wake_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64], path[64], wake_path[80];
static struct dlt_store s, t;
static struct dlt_request a, b;

static void set_up(void)
{
    dlt_store_directory(directory, path);
    (void)snprintf(wake_path, sizeof wake_path, "%s-wake", path);
    cr_assert_eq(dlt_store_start(&s, path), DLOCK_OK);
    cr_assert_eq(dlt_store_start(&t, path), DLOCK_OK);
    dlt_store_request(&s, &a, "job", 'a', 60000);
    dlt_store_request(&s, &b, "job", 'b', 60000);
}

static void tear_down(void)
{
    dlt_store_close(&t);
    dlt_store_close(&s);
    dlt_store_remove(directory);
}

TestSuite(wake_file, .init = set_up, .fini = tear_down, .timeout = 60);

static struct sqlite_wake_file *wake_file_of(struct dlt_store *store)
{
    struct sqlite_session *session = store->self;

    return &session->db.wake_file;
}

static ino_t wake_inode(void)
{
    struct stat st;

    cr_assert_eq(stat(wake_path, &st), 0);
    return st.st_ino;
}

static void wake_write(off_t at, const void *bytes, size_t size)
{
    int fd = open(wake_path, O_WRONLY | O_CLOEXEC);

    cr_assert_eq(pwrite(fd, bytes, size, at), (ssize_t)size);
    (void)close(fd);
}

/* Reopens, and says whether the wake file was made again, without what was in the old one. It can
 * be used in either case. */
static int made_anew(void)
{
    static const uint32_t mark = 77;
    _Atomic uint32_t *count = NULL;
    int fd = open(wake_path, O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        wake_write(offsetof(struct sqlite_wake_map, buckets[5].count), &mark, sizeof mark);
        (void)close(fd);
    }
    dlt_store_close(&s);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_not_null(wake_file_of(&s)->map, "%s", wake_file_of(&s)->why);
    cr_assert_eq(wake_file_of(&s)->inode, wake_inode());
    count = &wake_file_of(&s)->map->buckets[5].count;
    return *count != mark;
}

Test(wake_file, a_good_one_is_kept)
{
    cr_assert_not(made_anew());
}

Test(wake_file, one_of_another_boot_is_made_anew)
{
    unsigned char boot[SQ_BOOT_SIZE] = {1, 2, 3};

    wake_write(offsetof(struct sqlite_wake_map, identity.boot), boot, sizeof boot);
    cr_assert(made_anew());
}

Test(wake_file, one_of_another_database_is_made_anew)
{
    uint64_t inode = 7;

    wake_write(offsetof(struct sqlite_wake_map, identity.db_inode), &inode, sizeof inode);
    wake_write(offsetof(struct sqlite_wake_map, shm_inode), &inode, sizeof inode);
    cr_assert(made_anew());
}

Test(wake_file, one_of_an_older_version_is_made_anew)
{
    uint32_t version = 1;

    wake_write(offsetof(struct sqlite_wake_map, identity.version), &version, sizeof version);
    cr_assert(made_anew());
}

Test(wake_file, garbage_is_made_anew)
{
    static const char text[] = "garbage, garbage, garbage";

    wake_write(0, text, sizeof text);
    cr_assert(made_anew());
}

Test(wake_file, one_of_another_size_is_made_anew)
{
    int fd = open(wake_path, O_WRONLY | O_APPEND | O_CLOEXEC);

    cr_assert_eq(write(fd, "x", 1), 1);
    (void)close(fd);
    cr_assert(made_anew());
}

Test(wake_file, a_removed_one_is_made_anew)
{
    uint64_t inode = wake_file_of(&t)->inode;

    cr_assert_eq(unlink(wake_path), 0);
    cr_assert(made_anew());
    cr_assert_neq(wake_file_of(&s)->inode, inode, "the other session has the old one still");
}

Test(wake_file, a_copy_is_made_anew)
{
    char command[512];

    (void)snprintf(command, sizeof command, "cp -p %s %s.copy && mv %s.copy %s", wake_path,
                   wake_path, wake_path, wake_path);
    cr_assert_eq(system(command), 0);
    cr_assert(made_anew(), "its mutex may be locked for ever");
}

/* Two versions that replace each other's would never stop. */
Test(wake_file, one_of_a_newer_version_is_left_alone)
{
    uint32_t version = 99;
    ino_t inode = wake_inode();
    int fd = open(wake_path, O_WRONLY | O_APPEND | O_CLOEXEC);

    cr_assert_eq(write(fd, "more", 4), 4);
    (void)close(fd);
    wake_write(offsetof(struct sqlite_wake_map, identity.version), &version, sizeof version);
    dlt_store_close(&s);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_null(wake_file_of(&s)->map);
    cr_assert_eq(wake_inode(), inode);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK, "the store works");
}

Test(wake_file, one_of_a_newer_version_and_another_database_is_made_anew)
{
    uint32_t version = 99;
    uint64_t inode = 7;

    wake_write(offsetof(struct sqlite_wake_map, identity.version), &version, sizeof version);
    wake_write(offsetof(struct sqlite_wake_map, identity.db_inode), &inode, sizeof inode);
    wake_write(offsetof(struct sqlite_wake_map, shm_inode), &inode, sizeof inode);
    cr_assert(made_anew());
}

Test(wake_file, one_that_others_own_is_not_trusted)
{
    if (geteuid() != 0)
        cr_skip("giving files away takes root");
    cr_assert_eq(chown(wake_path, 12345, (gid_t)-1), 0);
    dlt_store_close(&s);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_null(wake_file_of(&s)->map);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK, "the store works");
}

Test(wake_file, no_half_made_file_is_left)
{
    char command[256];

    (void)snprintf(command, sizeof command, "test $(ls %s | wc -l) = 4", directory);
    cr_assert_eq(system(command), 0);
}

Test(wake_file, an_owner_that_dies_gives_it_back)
{
    int64_t until = sqlite_clock_until(2 * DL_NS_PER_S);
    struct sqlite_session *session = s.self;
    pid_t pid = fork();

    if (pid == 0) {
        /* Its own mapping; the parent's is not inherited. */
        struct sqlite_wake_file file;

        sqlite_wake_map_open(&file, &session->config, &session->clock, until);
        _exit(file.map != NULL && sqlite_wake_file_enter(&file, until) ? 0 : 1);
    }
    int result = -1;
    cr_assert_eq(waitpid(pid, &result, 0), pid);
    cr_assert_eq(result, 0);
    cr_assert(sqlite_wake_file_enter(wake_file_of(&s), until));
    sqlite_wake_file_exit(wake_file_of(&s), 1, &(struct sqlite_wake_set){0});
    cr_assert(sqlite_wake_file_enter(wake_file_of(&s), until), "free again");
    sqlite_wake_file_exit(wake_file_of(&s), 1, &(struct sqlite_wake_set){0});
}

/* ---- cut short: touching what is gone would be a SIGBUS ---- */

static void store_works(void)
{
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_store_try(&t, &b), DLOCK_BUSY, "%s", t.err.message);
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
}

Test(wake_file, one_cut_short_is_done_without_until_the_next_open)
{
    cr_assert_eq(truncate(wake_path, 0), 0);
    store_works();
    cr_assert_str_not_empty(wake_file_of(&s)->why);
    cr_assert(made_anew());
    cr_assert_str_empty(wake_file_of(&s)->why);
}

Test(wake_file, one_cut_short_to_a_part_is_done_without)
{
    cr_assert_eq(truncate(wake_path, 4096), 0);
    store_works();
    cr_assert_eq(dlt_store_watch(&t, &b, 30000), DLOCK_BUSY);
}

Test(wake_file, one_cut_short_and_grown_again_is_done_without)
{
    cr_assert_eq(truncate(wake_path, 0), 0);
    store_works();
    cr_assert_eq(truncate(wake_path, (off_t)sizeof(struct sqlite_wake_map)), 0);
    store_works();
    cr_assert_eq(dlt_store_watch(&t, &b, 30000), DLOCK_BUSY);
}

Test(wake_file, one_cut_short_inside_a_transaction)
{
    struct sqlite_session *session = s.self;

    session->db.until_ns = sqlite_clock_until(2 * DL_NS_PER_S);
    cr_assert_eq(sqlite_db_begin(&session->db, &s.err), DLOCK_OK);
    cr_assert(session->db.entered);
    cr_assert_eq(truncate(wake_path, 0), 0);
    sqlite_db_rollback(&session->db);
    store_works();
}

static void *cut_soon(void *arg)
{
    (void)arg;
    dlt_sleep_ms(50);
    cr_assert_eq(truncate(wake_path, 0), 0);
    return NULL;
}

Test(wake_file, one_cut_short_under_a_sleeper)
{
    pthread_t thread;

    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(pthread_create(&thread, NULL, cut_soon, NULL), 0);
    cr_assert_eq(dlt_store_watch(&t, &b, 2000), DLOCK_BUSY);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    t.ops->interrupt(t.self, &b.req);
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
}

/* It is not cut here: that would be a SIGBUS, if it came while the other one looks. */
Test(wake_file, one_spoiled_while_somebody_waits_for_a_turn)
{
    struct sqlite_wake_file *file = wake_file_of(&t);
    static const uint32_t nothing = 0;

    cr_assert(sqlite_wake_file_enter(wake_file_of(&s), sqlite_clock_until(0)));
    wake_write(0, &nothing, sizeof nothing);
    cr_assert_eq(sqlite_ticket_lock_enter(&file->map->tickets, &file->pass,
                                          sqlite_clock_until(20 * DL_NS_PER_S)),
                 ENODATA);
    store_works();
}

/* ---- sleeping ---- */

static void held_and_busy(void)
{
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&t, &b), DLOCK_BUSY);
}

static int64_t watched_ms(int64_t timeout_ms, enum dlock_status expected)
{
    int64_t start = dlt_host_now(&t.host);
    enum dlock_status status = dlt_store_watch(&t, &b, timeout_ms);

    cr_assert_eq(status, expected, "%s: %s", dlock_status_name((int)status), t.err.message);
    return (dlt_host_now(&t.host) - start) / DLT_NS_PER_MS;
}

Test(wake_file, WAT_1_TIMEOUT_at_the_deadline)
{
    int64_t ms = 0;

    held_and_busy();
    ms = watched_ms(150, DLOCK_TIMEOUT);
    cr_assert_geq(ms, 149);
    cr_assert(dlt_took_within(ms, 5000), "%s", dlt_within_text());
    cr_assert(dlt_took_within(watched_ms(-5, DLOCK_TIMEOUT), 5000), "%s", dlt_within_text());
}

Test(wake_file, WAT_2_BUSY_at_once_when_it_was_released_before)
{
    held_and_busy();
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK);
    cr_assert(dlt_took_within(watched_ms(30000, DLOCK_BUSY), 20000), "%s", dlt_within_text());
}

Test(wake_file, INT_2_an_interrupt_before_the_watch_is_remembered)
{
    held_and_busy();
    t.ops->interrupt(t.self, &b.req);
    t.ops->interrupt(t.self, &b.req);
    cr_assert(dlt_took_within(watched_ms(30000, DLOCK_CANCELED), 20000), "%s", dlt_within_text());
    cr_assert(dlt_took_within(watched_ms(30000, DLOCK_CANCELED), 20000), "%s", dlt_within_text());
}

Test(wake_file, BUSY_soon_without_a_trylock_before)
{
    held_and_busy();
    memset(b.attempt, 0, sizeof b.attempt);
    cr_assert(dlt_took_within(watched_ms(30000, DLOCK_BUSY), 20000), "%s", dlt_within_text());
}

/* [FAI-1]: UNAVAILABLE would cost this session, and all that idle. */
Test(wake_file, WAT_1_a_waiter_whose_wake_file_was_removed_keeps_its_session_and_finds_another)
{
    uint64_t inode = wake_file_of(&t)->inode;

    held_and_busy();
    cr_assert_eq(unlink(wake_path), 0);
    cr_assert(dlt_took_within(watched_ms(30000, DLOCK_BUSY), 20000), "%s", dlt_within_text());
    cr_assert_eq(dlt_store_try(&t, &b), DLOCK_BUSY);
    cr_assert_not_null(wake_file_of(&t)->map, "%s", wake_file_of(&t)->why);
    cr_assert_neq(wake_file_of(&t)->inode, inode);
    cr_assert_eq(wake_file_of(&t)->inode, wake_inode());
    (void)watched_ms(20, DLOCK_TIMEOUT);
}

Test(wake_file, WAT_1_a_waiter_without_a_wake_file_keeps_its_session)
{
    struct dlt_request queued;

    if (geteuid() != 0)
        cr_skip("giving files away takes root");
    dlt_store_request(&t, &queued, "job", 'q', 60000);
    cr_assert_eq(chown(wake_path, 12345, (gid_t)-1), 0);
    dlt_store_close(&t);
    cr_assert_eq(dlt_store_open(&t), DLOCK_OK);
    held_and_busy();
    cr_assert(dlt_took_within(watched_ms(30000, DLOCK_BUSY), 20000), "%s", dlt_within_text());
    cr_assert_eq(dlt_store_try(&t, &b), DLOCK_BUSY);
    cr_assert_null(wake_file_of(&t)->map);
    cr_assert_eq(dlt_store_enqueue(&t, &queued), DLOCK_BUSY);
    cr_assert_eq(dlt_store_watch(&t, &queued, 120), DLOCK_TIMEOUT);
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_watch(&t, &queued, 30000), DLOCK_OK);
    t.ops->interrupt(t.self, &b.req);
    (void)watched_ms(30000, DLOCK_CANCELED);
}

/* A rolling upgrade: the program that unlocks knows an older layout, and so uses no wake file. The
 * entry has the lock, and its next request says so. */
Test(wake_file, C13_an_unlock_by_a_program_with_another_layout_grants_to_the_entry)
{
    struct dlt_request queued;

    dlt_store_request(&t, &queued, "job", 'q', 60000);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_enqueue(&t, &queued), DLOCK_BUSY);
    sqlite_wake_map_close(wake_file_of(&s));
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY, "the name is the waiter's");
    cr_assert_eq(dlt_store_refresh(&t, &queued), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_store_unlock(&t, &queued), DLOCK_OK);
}

Test(wake_file, BUSY_when_the_place_was_noted_in_another_wake_file)
{
    held_and_busy();
    cr_assert_eq(unlink(wake_path), 0);
    dlt_store_close(&t);
    cr_assert_eq(dlt_store_open(&t), DLOCK_OK);
    cr_assert(dlt_took_within(watched_ms(30000, DLOCK_BUSY), 20000), "%s", dlt_within_text());
}

/* The machine is suspended: CLOCK_BOOTTIME goes on, CLOCK_MONOTONIC, on which futexes wait, stops.
 */
static _Atomic int suspended_s;

int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
    int rc = __real_clock_gettime(id, ts);

    if (id == CLOCK_BOOTTIME)
        ts->tv_sec += atomic_load(&suspended_s);
    return rc;
}

static void *suspend_soon(void *arg)
{
    (void)arg;
    dlt_sleep_ms(50);
    atomic_store(&suspended_s, 1000);
    return NULL;
}

Test(wake_file, C8_a_sleep_ends_after_a_suspend)
{
    pthread_t thread;
    struct timespec start, end;

    held_and_busy();
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    cr_assert_eq(pthread_create(&thread, NULL, suspend_soon, NULL), 0);
    cr_assert_eq(dlt_store_watch(&t, &b, 50000), DLOCK_TIMEOUT);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert(dlt_took_within((end.tv_sec - start.tv_sec) * 1000, 30000), "%s", dlt_within_text());
}

static void on_signal(int number)
{
    (void)number;
}

Test(wake_file, C8_signals_neither_end_nor_prolong_a_sleep)
{
    struct sigaction action = {.sa_handler = on_signal};
    pid_t pid = -1;
    int64_t ms = 0;

    held_and_busy();
    cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
    pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 200; i++) {
            (void)kill(getppid(), SIGUSR1);
            dlt_sleep_ms(2);
        }
        _exit(0);
    }
    ms = watched_ms(200, DLOCK_TIMEOUT);
    cr_assert(ms >= 199 && dlt_took_within(ms, 5000), "%lld ms", (long long)ms);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* Only who sleeps costs a releaser a system call, and a waiter that vanished costs one. */
Test(wake_file, a_waiter_that_vanished_leaves_one_wake_up_behind)
{
    struct sqlite_waiter waiter = {0};
    struct sqlite_wake_bucket *bucket = NULL;

    held_and_busy();
    sqlite_wake_file_note(wake_file_of(&s), a.req.name, a.req.name_len, &waiter);
    bucket = &wake_file_of(&s)->map->buckets[waiter.bucket];
    cr_assert_eq(bucket->sleepers, 0);
    (void)watched_ms(20, DLOCK_TIMEOUT);
    cr_assert_eq(bucket->sleepers, 1);
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(bucket->sleepers, 0);
    cr_assert_neq(bucket->count, waiter.count);
}
