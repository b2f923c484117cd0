/* SPDX-License-Identifier: MIT */
/* Tests: core/session/wait.c */
/* Are all who sleep woken, and does nobody stay behind in the list? */
#include "session/wait.h"

#include <criterion/criterion.h>

#define THREADS 8

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct dl_wait_list sleepers;
static int asleep, go;

static void *sleep_until_go(void *arg)
{
    (void)arg;
    (void)pthread_mutex_lock(&mutex);
    asleep++;
    while (!go)
        dl_wait_list_sleep_locked(&sleepers, &mutex, &dl_clock_boottime, DL_NEVER);
    asleep--;
    (void)pthread_mutex_unlock(&mutex);
    return NULL;
}

Test(sleepers, all_are_woken)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, sleep_until_go, NULL), 0);
    (void)pthread_mutex_lock(&mutex);
    while (asleep < THREADS) {
        (void)pthread_mutex_unlock(&mutex);
        dl_clock_pause(DL_NS_PER_MS);
        (void)pthread_mutex_lock(&mutex);
    }
    go = 1;
    dl_wait_list_wake_locked(&sleepers);
    (void)pthread_mutex_unlock(&mutex);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    cr_assert_eq(asleep, 0);
    cr_assert_null(sleepers.first);
}

Test(sleepers, a_deadline_ends_it)
{
    int64_t until_ns = dl_clock_now(&dl_clock_boottime) + 20 * DL_NS_PER_MS;

    (void)pthread_mutex_lock(&mutex);
    while (dl_clock_now(&dl_clock_boottime) < until_ns)
        dl_wait_list_sleep_locked(&sleepers, &mutex, &dl_clock_boottime, until_ns);
    cr_assert_null(sleepers.first);
    (void)pthread_mutex_unlock(&mutex);
}
