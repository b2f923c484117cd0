/* SPDX-License-Identifier: MIT */
/* Tests: core/sys/fork.c lib/thread.c */
/* Does every kind of child know that it is one (C10)? */
#include "sys/fork.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool deaf; /* as an emulator that accepts every advice and follows none */

int madvise(void *address, size_t size, int advice)
{
    return deaf ? 0 : (int)syscall(SYS_madvise, address, size, advice);
}

static int child_answer(pid_t child)
{
    int wait_status = -1;

    cr_assert_gt(child, 0);
    cr_assert_eq(waitpid(child, &wait_status, 0), child);
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 255;
}

Test(fork, the_same_process_keeps_its_generation)
{
    uint64_t generation = dl_fork_generation();

    cr_assert_neq(generation, 0);
    cr_expect_eq(dl_fork_generation(), generation);
    cr_expect_not(dl_fork_differs(generation));
    cr_expect(dl_fork_differs(generation + 1));
}

Test(fork, a_child_differs_and_its_parent_does_not)
{
    uint64_t generation = dl_fork_generation();
    pid_t child = fork();

    if (child == 0)
        _exit(dl_fork_differs(generation) ? 0 : 1);
    cr_expect_eq(child_answer(child), 0);
    cr_expect_not(dl_fork_differs(generation));
}

/* pthread_atfork handlers do not run there. */
Test(fork, a_child_of_the_bare_system_call_differs)
{
    uint64_t generation = dl_fork_generation();
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    if (child == 0)
        _exit(dl_fork_differs(generation) ? 0 : 1);
    cr_expect_eq(child_answer(child), 0);
    cr_expect_not(dl_fork_differs(generation));
}

/* C10 by the handler alone; the test before this one has the page alone. */
Test(fork, a_child_differs_where_the_page_is_not_wiped)
{
    uint64_t generation;
    pid_t child;

    deaf = true;
    generation = dl_fork_generation();
    child = fork();
    if (child == 0)
        _exit(dl_fork_differs(generation) ? 0 : 1);
    cr_expect_eq(child_answer(child), 0);
    cr_expect_not(dl_fork_differs(generation));
}

Test(fork, a_child_gets_a_generation_of_its_own)
{
    uint64_t generation = dl_fork_generation();
    pid_t child = fork();

    if (child == 0) {
        uint64_t own = dl_fork_generation();
        pid_t grandchild;
        int wait_status = -1;

        if (own == 0 || own == generation || dl_fork_differs(own) || !dl_fork_differs(generation))
            _exit(1);
        grandchild = fork();
        if (grandchild == 0)
            _exit(dl_fork_differs(own) && dl_fork_differs(generation) ? 0 : 1);
        _exit(waitpid(grandchild, &wait_status, 0) == grandchild && wait_status == 0 ? 0 : 2);
    }
    cr_expect_eq(child_answer(child), 0);
    cr_expect_not(dl_fork_differs(generation));
}

static _Atomic int stop;

static void *generation_loop(void *arg)
{
    (void)arg;
    while (!stop)
        (void)dl_fork_generation();
    return NULL;
}

/* A child must not wait for a mutex that a thread of its parent held. */
Test(fork, children_of_a_busy_process_do_not_hang, .timeout = 60)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, generation_loop, NULL), 0);
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();

        if (child == 0)
            _exit(dl_fork_generation() != 0 ? 0 : 1);
        cr_assert_eq(child_answer(child), 0, "child %d", i);
    }
    stop = 1;
    (void)pthread_join(thread, NULL);
}

static _Atomic int started;

static void *first_use(void *arg)
{
    (void)arg;
    started = 1;
    (void)dl_fork_generation();
    return NULL;
}

/* A process that forks while another of its threads uses the generation for the first time. */
static void fork_during_first_use(void)
{
    pthread_t thread;
    pid_t child;

    if (pthread_create(&thread, NULL, first_use, NULL) != 0)
        _exit(2);
    while (!started)
        ;
    child = fork();
    if (child == 0) {
        alarm(2);
        _exit(dl_fork_generation() != 0 ? 0 : 1);
    }
    _exit(child_answer(child) == 0 && pthread_join(thread, NULL) == 0 ? 0 : 1);
}

Test(fork, a_child_of_the_first_use_does_not_hang, .timeout = 60)
{
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();

        if (child == 0)
            fork_during_first_use();
        cr_assert_eq(child_answer(child), 0, "round %d", i);
    }
}
