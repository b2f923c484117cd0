/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/life.c plugins/sqlite/queue.c */
/* Does a lease end with its process (C23), and never before it? */
#include "session.h"
#include "store_kit.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TTL_MS 60000

static char directory[64], path[64];
static struct dlt_store s, t; /* of this process, opened after the holder was started */
static struct dlt_request b, c;

/* Another process, which holds the name, and a process that it started. */
struct holder {
    pid_t pid, child;
};

enum child { NO_CHILD, FORKED_CHILD, PROGRAM };

static void set_up(void)
{
    dlt_store_directory(directory, path);
    dlt_store_init(&s, path);
    dlt_store_init(&t, path);
    dlt_store_request(&s, &b, "job", 'b', TTL_MS);
    dlt_store_request(&s, &c, "job", 'c', TTL_MS);
}

static void tear_down(void)
{
    dlt_store_close(&s);
    dlt_store_close(&t);
    dlt_store_remove(directory);
}

TestSuite(life, .init = set_up, .fini = tear_down, .timeout = 60);

static pid_t child_of_holder(enum child child)
{
    pid_t pid = child != NO_CHILD ? fork() : 0;

    if (pid != 0 || child == NO_CHILD)
        return pid;
    if (child == PROGRAM)
        (void)execlp("sleep", "sleep", "50", (char *)NULL);
    else
        (void)sleep(50);
    _exit(1);
}

static void holder_run(const struct dlock_request *like, enum child child, int out)
{
    struct dlt_request a;
    enum dlock_status status = DLOCK_INTERNAL;
    pid_t pid = 0;

    dlt_store_request(&s, &a, "job", 'a', like->ttl_ms);
    a.req.mode = like->mode;
    a.req.end = like->end;
    status = dlt_store_open(&s);
    if (status == DLOCK_OK)
        status = dlt_store_try(&s, &a);
    if (status == DLOCK_OK)
        pid = child_of_holder(child);
    else
        pid = -1;
    if (write(out, &pid, sizeof pid) != (ssize_t)sizeof pid)
        _exit(1);
    (void)sleep(50);
    _exit(0);
}

/* like: mode, ttl and end of its request. */
static void holder_start(struct holder *holder, const struct dlock_request *like, enum child child)
{
    int fds[2];

    cr_assert_eq(pipe(fds), 0);
    holder->pid = fork();
    if (holder->pid == 0)
        holder_run(like, child, fds[1]);
    cr_assert_eq(read(fds[0], &holder->child, sizeof holder->child), sizeof holder->child);
    cr_assert_geq(holder->child, 0, "the holder did not get the name");
    (void)close(fds[0]);
    (void)close(fds[1]);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_store_open(&t), DLOCK_OK);
}

static void holder_start_as(struct holder *holder, enum dlock_end end, enum child child)
{
    struct dlock_request like = {.ttl_ms = TTL_MS, .end = end};

    holder_start(holder, &like, child);
}

static void holder_kill(const struct holder *holder)
{
    cr_assert_eq(kill(holder->pid, SIGKILL), 0);
    cr_assert_eq(waitpid(holder->pid, NULL, 0), holder->pid);
}

/* The kernel closes the descriptors of a process that is killed a little later. */
static enum dlock_status try_soon(void)
{
    enum dlock_status status = DLOCK_BUSY;

    for (int i = 0; i < 1000 && status == DLOCK_BUSY; i++) {
        status = dlt_store_try(&s, &b);
        dlt_sleep_ms(status == DLOCK_BUSY ? 10 : 0);
    }
    return status;
}

Test(life, C23_a_lease_without_a_ttl_ends_with_its_process)
{
    struct dlock_request like = {.ttl_ms = DLOCK_TTL_NONE};
    struct holder holder;

    holder_start(&holder, &like, NO_CHILD);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
    cr_assert_eq(s.grant.holder_ms, -1, "a time that nobody knows");
    holder_kill(&holder);
    cr_assert_eq(try_soon(), DLOCK_OK);
}

Test(life, C23_a_lease_without_a_ttl_needs_a_process)
{
    dlt_store_request(&s, &b, "job", 'b', DLOCK_TTL_NONE);
    b.req.end = DLOCK_END_TTL;
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_CONFIG);
    cr_assert_not_null(strstr(s.err.message, "ttl=none"));
    cr_assert_eq(dlt_store_try(&s, &c), DLOCK_OK, "it took the name");
}

Test(life, C23_a_dead_holders_name_is_free_at_once)
{
    struct holder holder;

    holder_start_as(&holder, DLOCK_END_PROCESS, NO_CHILD);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
    holder_kill(&holder);
    cr_assert_eq(try_soon(), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &c), DLOCK_BUSY, "this process lives");
    cr_assert_eq(dlt_store_try(&t, &c), DLOCK_BUSY, "for another session, too");
}

Test(life, C23_a_stopped_holder_keeps_its_lease_until_the_ttl)
{
    struct dlock_request like = {.ttl_ms = 1000};
    struct holder holder;
    int64_t before_ns = dlt_host_now(&s.host);

    holder_start(&holder, &like, NO_CHILD);
    cr_assert_eq(kill(holder.pid, SIGSTOP), 0);
    cr_assert_eq(try_soon(), DLOCK_OK);
    cr_assert_geq(dlt_host_now(&s.host) - before_ns, 1000 * DLT_NS_PER_MS);
    holder_kill(&holder);
}

Test(life, C23_a_lease_with_END_TTL_outlives_its_process)
{
    struct holder holder;

    holder_start_as(&holder, DLOCK_END_TTL, NO_CHILD);
    holder_kill(&holder);
    dlt_sleep_ms(100);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
}

/* fork copies the descriptor; the child that nobody asked must not keep the lease. */
Test(life, C23_a_forked_child_does_not_keep_the_lease)
{
    struct holder holder;

    holder_start_as(&holder, DLOCK_END_PROCESS, FORKED_CHILD);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
    holder_kill(&holder);
    cr_assert_eq(try_soon(), DLOCK_OK);
    (void)kill(holder.child, SIGKILL);
}

Test(life, C23_a_program_does_not_keep_the_lease_unless_asked)
{
    struct holder holder;

    holder_start_as(&holder, DLOCK_END_PROCESS, PROGRAM);
    holder_kill(&holder);
    cr_assert_eq(try_soon(), DLOCK_OK);
    (void)kill(holder.child, SIGKILL);
}

Test(life, C23_with_END_PROGRAMS_the_lease_ends_with_the_last_program)
{
    struct holder holder;

    holder_start_as(&holder, DLOCK_END_PROGRAMS, PROGRAM);
    holder_kill(&holder);
    dlt_sleep_ms(100);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_store_try(&t, &c), DLOCK_BUSY);
    cr_assert_eq(kill(holder.child, SIGKILL), 0);
    cr_assert_eq(try_soon(), DLOCK_OK);
}

Test(life, C23_the_first_waiter_finds_the_death_in_its_watch)
{
    struct holder holder;
    int64_t before_ns = 0;

    holder_start_as(&holder, DLOCK_END_PROCESS, NO_CHILD);
    cr_assert_eq(dlt_store_enqueue(&s, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_store_watch(&s, &b, 100), DLOCK_TIMEOUT, "while it lives");
    holder_kill(&holder);
    before_ns = dlt_host_now(&s.host);
    cr_assert_eq(dlt_store_watch(&s, &b, 30000), DLOCK_BUSY);
    cr_assert(dlt_host_within(&s.host, before_ns, 10000), "%s", dlt_within_text());
    cr_assert_eq(dlt_store_refresh(&s, &b), DLOCK_OK);
}

Test(life, C23_a_dead_waiter_is_passed)
{
    struct holder waiter;
    struct dlt_request a;
    int fds[2];

    cr_assert_eq(pipe(fds), 0);
    waiter.pid = fork();
    if (waiter.pid == 0) { /* queues behind b, which this process takes first */
        char go;

        if (read(fds[0], &go, 1) != 1 || dlt_store_open(&s) != DLOCK_OK)
            _exit(1);
        dlt_store_request(&s, &a, "job", 'a', TTL_MS);
        (void)dlt_store_enqueue(&s, &a);
        (void)sleep(50);
        _exit(0);
    }
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    cr_assert_eq(write(fds[1], "", 1), 1);
    for (s.grant.waiters = 0; s.grant.waiters == 0; dlt_sleep_ms(10))
        cr_assert_eq(dlt_store_renew(&s, &b), DLOCK_OK);
    holder_kill(&waiter);
    cr_assert_eq(dlt_store_unlock(&s, &b), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &c), DLOCK_OK);
}

Test(life, C23_dead_readers_let_a_writer_in)
{
    struct dlock_request like = {.ttl_ms = TTL_MS, .mode = DLOCK_SHARED};
    struct holder holder;

    holder_start(&holder, &like, NO_CHILD);
    c.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_store_try(&t, &c), DLOCK_OK);
    holder_kill(&holder);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY, "the other reader lives");
    cr_assert_eq(dlt_store_unlock(&t, &c), DLOCK_OK);
    cr_assert_eq(try_soon(), DLOCK_OK);
}

Test(life, C23_C7_an_adopted_lease_does_not_end_with_its_first_process)
{
    struct holder holder;
    struct dlt_request adopted;

    holder_start_as(&holder, DLOCK_END_PROCESS, NO_CHILD);
    dlt_store_request(&s, &adopted, "job", 'a', TTL_MS);
    cr_assert_eq(dlt_store_renew(&s, &adopted), DLOCK_OK);
    holder_kill(&holder);
    dlt_sleep_ms(100);
    cr_assert_eq(dlt_store_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_store_unlock(&s, &adopted), DLOCK_OK);
}

/* The holder's lock is in the file that was there before. */
Test(life, C23_with_another_wake_file_the_lease_ends_with_its_ttl)
{
    struct holder holder;
    char file[80];

    holder_start_as(&holder, DLOCK_END_PROCESS, NO_CHILD);
    dlt_store_close(&s);
    dlt_store_close(&t);
    (void)snprintf(file, sizeof file, "%s-wake", path);
    cr_assert_eq(unlink(file), 0);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY, "it lives");
    holder_kill(&holder);
    dlt_sleep_ms(100);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY, "nobody can know");
}

/* As a program of an older version writes it. */
Test(life, C23_a_row_without_a_mark_ends_with_its_ttl)
{
    struct sqlite_session *session = NULL;
    struct holder holder;

    holder_start_as(&holder, DLOCK_END_PROCESS, NO_CHILD);
    session = s.self;
    cr_assert_eq(
        sqlite3_exec(session->db.handle, "UPDATE locks SET label = 'host:1'", NULL, NULL, NULL),
        SQLITE_OK);
    holder_kill(&holder);
    dlt_sleep_ms(100);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
}

/* The process lives, and repeats the release. */
Test(life, C22_UNL_4_a_lease_that_could_not_be_kept_yet_is_nobody_elses)
{
    struct sqlite_session *session = NULL;

    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_store_open(&t), DLOCK_OK);
    session = t.self;
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    b.req.keep_ms = TTL_MS;
    cr_assert_eq(sqlite3_exec(session->db.handle, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    b.req.deadline_ns = dlt_host_in(&s.host, 100);
    cr_assert_eq(s.ops->unlock(s.self, &b.req, &s.err), DLOCK_UNAVAILABLE);
    cr_assert_eq(sqlite3_exec(session->db.handle, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    cr_assert_eq(dlt_store_try(&t, &c), DLOCK_BUSY, "the holder lives");
    cr_assert_eq(dlt_store_unlock(&s, &b), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&t, &c), DLOCK_BUSY, "it is kept");
}

Test(life, inspect_shows_the_label_without_the_mark)
{
    struct dlt_holder shown;
    size_t count = 1;

    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    b.req.label = "host:1:word";
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    cr_assert_eq(dlt_store_inspect(&s, "job", &shown, &count), DLOCK_OK);
    cr_assert_str_eq(shown.label, "host:1:word");
}

/* More leases than locks: the others are leases without them. */
Test(life, a_process_has_so_many_locks_and_gives_them_back)
{
    static struct dlt_request many[SQ_LIVES_MOST + 2];
    static char names[SQ_LIVES_MOST + 2][16];
    const struct sqlite_attempt *attempt = NULL;

    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    for (size_t i = 0; i < SQ_LIVES_MOST + 2; i++) {
        (void)snprintf(names[i], sizeof names[i], "%zu", i);
        dlt_store_request(&s, &many[i], names[i], (unsigned char)i, TTL_MS);
        many[i].req.token[0] = (unsigned char)(i / 256);
        cr_assert_eq(dlt_store_try(&s, &many[i]), DLOCK_OK);
        attempt = many[i].req.attempt;
        cr_assert_eq(attempt->life != NULL, i < SQ_LIVES_MOST, "%zu", i);
    }
    for (size_t i = 0; i < SQ_LIVES_MOST + 2; i++)
        cr_assert_eq(dlt_store_unlock(&s, &many[i]), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_OK);
    attempt = b.req.attempt;
    cr_assert_not_null(attempt->life);
}
