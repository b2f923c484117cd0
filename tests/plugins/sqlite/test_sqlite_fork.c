/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/plugin.c */
/* Is a forked child kept from a store that its parent uses, until it calls exec (C10) [CLS-1]? */
#include "peer_kit.h"
#include "store_kit.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64], path[64];
static struct dlt_store s, t;
static struct dlt_request a, b;

static void set_up(void)
{
    dlt_store_directory(directory, path);
    dlt_store_init(&s, path);
    dlt_store_request(&s, &a, "job", 'a', 60000);
    dlt_store_request(&s, &b, "job", 'b', 60000);
}

static void tear_down(void)
{
    dlt_store_close(&s);
    dlt_store_remove(directory);
}

TestSuite(forked, .init = set_up, .fini = tear_down, .timeout = 60);

/* Non-zero, and the line, where an answer is another one. */
#define WANT(got, expected)      \
    do {                         \
        if ((got) != (expected)) \
            return __LINE__;     \
    } while (0)

static int child_of_a_user(void)
{
    struct dlt_holder holder;
    size_t count = 1;

    WANT(dlt_store_try(&s, &b), DLOCK_FORKED);
    WANT(dlt_store_renew(&s, &a), DLOCK_FORKED);
    WANT(dlt_store_unlock(&s, &a), DLOCK_FORKED);
    WANT(dlt_store_watch(&s, &b, 1000), DLOCK_FORKED);
    WANT(dlt_store_break(&s, "job", NULL), DLOCK_FORKED);
    WANT(dlt_store_list(&s, "", &holder, &count), DLOCK_FORKED);
    WANT(dlt_store_inspect(&s, "job", &holder, &count), DLOCK_FORKED);
    WANT(s.ops->probe(s.self, 0, &s.info, NULL, NULL, &s.err), DLOCK_FORKED);
    s.ops->interrupt(s.self, &b.req);
    dlt_store_init(&t, path);
    WANT(dlt_store_open(&t), DLOCK_FORKED);
    s.ops->close(s.self, 1);
    s.ops->close(s.self, 0);
    return 0;
}

/* Exit statuses are a byte: one line of trouble is as good as another. */
static void in_child(int (*body)(void))
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        int line = body();

        if (line != 0)
            printf("# child: line %d\n", line);
        (void)fflush(stdout);
        _exit(line != 0);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
}

static int grandchild_of_a_user(void)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(child_of_a_user() != 0);
    return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : __LINE__;
}

Test(forked, FORKED_in_a_child_and_the_parent_goes_on)
{
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &a), DLOCK_OK);
    in_child(child_of_a_user);
    in_child(grandchild_of_a_user);
    cr_assert_eq(dlt_store_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_store_unlock(&s, &a), DLOCK_OK);
}

Test(forked, FORKED_after_the_parent_closed_too)
{
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    dlt_store_close(&s);
    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    in_child(child_of_a_user);
}

static int child_of_nobody(void)
{
    WANT(dlt_store_open(&s), DLOCK_OK);
    WANT(dlt_store_try(&s, &a), DLOCK_OK);
    dlt_store_close(&s);
    return 0;
}

Test(forked, OK_in_a_child_of_a_process_that_did_not_use_it)
{
    in_child(child_of_nobody);
    in_child(child_of_nobody);
}

/* A thread that takes and releases without end, so that forks happen inside its calls. */
static void *busy_thread(void *stop)
{
    while (!atomic_load((atomic_int *)stop)) {
        dlt_store_request(&s, &a, "job", 'a', 60000);
        if (dlt_store_try(&s, &a) != DLOCK_OK || dlt_store_unlock(&s, &a) != DLOCK_OK)
            return NULL;
    }
    return stop;
}

/* Also the child's own calls do not hang on what the thread held when the fork happened. */
static int child_of_a_busy_process(void)
{
    dlt_store_init(&t, path);
    WANT(dlt_store_open(&t), DLOCK_FORKED);
    WANT(dlt_store_try(&s, &b), DLOCK_FORKED);
    return 0;
}

Test(forked, a_fork_inside_a_call_hangs_neither_child_nor_exec)
{
    static atomic_int stop;
    pthread_t thread;
    void *fine = NULL;
    struct dlt_peer peer;

    cr_assert_eq(dlt_store_open(&s), DLOCK_OK);
    cr_assert_eq(pthread_create(&thread, NULL, busy_thread, &stop), 0);
    for (int i = 0; i < 30; i++) {
        in_child(child_of_a_busy_process);
        dlt_peer_start(&peer, NULL);
        cr_assert_eq(dlt_peer_ask(&peer, "open %s normal", path).status, DLOCK_OK);
        cr_assert_eq(dlt_peer_ask(&peer, "try other b 60000 2000").status, DLOCK_OK);
        cr_assert_eq(dlt_peer_ask(&peer, "unlock b").status, DLOCK_OK);
        dlt_peer_kill(&peer);
    }
    atomic_store(&stop, 1);
    cr_assert_eq(pthread_join(thread, &fine), 0);
    cr_assert_not_null(fine, "the thread in the parent failed");
}
