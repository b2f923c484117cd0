/* SPDX-License-Identifier: MIT */
/*
 * The program under the shim in test_skew: does what a line of its input says and answers with a
 * line of numbers. "read": its clocks in ns, REALTIME MONOTONIC BOOTTIME, gettimeofday, time.
 * "wait KIND": ms, by the true clock, that a wait of 100 ms until a deadline of KIND takes.
 */
#include "skew.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* -1: not a time. */
static int64_t ns_of(clockid_t id)
{
    struct timespec ts;

    if (clock_gettime(id, &ts) != 0 || ts.tv_nsec < 0 || ts.tv_nsec >= 1000000000)
        return -1;
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static void clocks_print(void)
{
    struct timeval tv;

    (void)gettimeofday(&tv, NULL);
    (void)printf("%lld %lld %lld %lld %lld\n", (long long)ns_of(CLOCK_REALTIME),
                 (long long)ns_of(CLOCK_MONOTONIC), (long long)ns_of(CLOCK_BOOTTIME),
                 (long long)(tv.tv_sec * INT64_C(1000000000) + tv.tv_usec * 1000),
                 (long long)time(NULL));
}

static struct timespec soon(clockid_t id)
{
    int64_t at = ns_of(id) + 100 * INT64_C(1000000);

    return (struct timespec){(time_t)(at / 1000000000), (long)(at % 1000000000)};
}

static void wait_cond(clockid_t id)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_t attr;
    pthread_cond_t cond;
    struct timespec at = soon(id);

    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, id);
    (void)pthread_cond_init(&cond, &attr);
    (void)pthread_mutex_lock(&mutex);
    (void)pthread_cond_timedwait(&cond, &mutex, &at);
    (void)pthread_mutex_unlock(&mutex);
    (void)pthread_cond_destroy(&cond);
    (void)pthread_condattr_destroy(&attr);
}

static void wait_clockwait(clockid_t id)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    struct timespec at = soon(id);

    (void)pthread_mutex_lock(&mutex);
    (void)pthread_cond_clockwait(&cond, &mutex, id, &at);
    (void)pthread_mutex_unlock(&mutex);
}

static void wait_sem(clockid_t id)
{
    struct timespec at = soon(id);
    sem_t sem;

    (void)sem_init(&sem, 0, 0);
    if (id == CLOCK_REALTIME)
        (void)sem_timedwait(&sem, &at);
    else
        (void)sem_clockwait(&sem, id, &at);
}

static void *mutex_wait(void *arg)
{
    struct timespec real = soon(CLOCK_REALTIME);

    if (pthread_mutex_timedlock(arg, &real) == 0)
        (void)pthread_mutex_unlock(arg);
    return NULL;
}

static void wait_mutex(clockid_t id)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;

    (void)id;
    (void)pthread_mutex_lock(&mutex);
    if (pthread_create(&thread, NULL, mutex_wait, &mutex) == 0)
        (void)pthread_join(thread, NULL);
    (void)pthread_mutex_unlock(&mutex);
}

static void wait_sleep(clockid_t id)
{
    struct timespec at = soon(id);

    (void)clock_nanosleep(id, TIMER_ABSTIME, &at, NULL);
}

static void wait_timer(clockid_t id)
{
    struct itimerspec at = {.it_value = soon(id)};
    int fd = timerfd_create(id, TFD_CLOEXEC);
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    (void)timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL);
    (void)poll(&wait, 1, 5000);
    (void)close(fd);
}

static void wait_time(const char *kind, clockid_t id)
{
    static const struct {
        const char *name;
        void (*fn)(clockid_t);
    } kinds[] = {{"cond", wait_cond},   {"clockwait", wait_clockwait}, {"sem", wait_sem},
                 {"mutex", wait_mutex}, {"sleep", wait_sleep},         {"timer", wait_timer}};
    int64_t began = dlt_skew_true_ns(CLOCK_MONOTONIC);

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kind, kinds[i].name) == 0)
            kinds[i].fn(id);
    (void)printf("%lld\n",
                 (long long)((dlt_skew_true_ns(CLOCK_MONOTONIC) - began) / INT64_C(1000000)));
}

int main(void)
{
    char line[64];

    while (fgets(line, sizeof line, stdin) != NULL) {
        char kind[16] = "", clock[16] = "";

        if (sscanf(line, "wait %15s %15s", kind, clock) == 2)
            wait_time(kind, strcmp(clock, "monotonic") == 0  ? CLOCK_MONOTONIC
                            : strcmp(clock, "boottime") == 0 ? CLOCK_BOOTTIME
                                                             : CLOCK_REALTIME);
        else
            clocks_print();
        (void)fflush(stdout);
    }
    return 0;
}
