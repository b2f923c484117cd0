/* SPDX-License-Identifier: MIT */
/* Tests: lib/thread.c */
#include "lib/thread.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static _Atomic int blocked;

static void *mask_read(void *arg)
{
    sigset_t mask;

    (void)arg;
    (void)pthread_sigmask(SIG_BLOCK, NULL, &mask);
    atomic_store(&blocked,
                 sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGUSR1) == 1 ? 1 : -1);
    return NULL;
}

Test(thread, takes_no_signal_and_leaves_the_mask_of_its_maker)
{
    sigset_t mask;
    pthread_t thread;

    cr_assert_eq(dl_thread_start(&thread, NULL, mask_read, NULL), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_expect_eq(atomic_load(&blocked), 1);
    cr_assert_eq(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
    cr_expect_eq(sigismember(&mask, SIGUSR1), 0);
}

Test(thread, detached)
{
    cr_assert_eq(dl_thread_start(NULL, NULL, mask_read, NULL), 0);
    while (atomic_load(&blocked) == 0)
        (void)usleep(1000);
    cr_expect_eq(atomic_load(&blocked), 1);
}
