/* SPDX-License-Identifier: MIT */
/*
 * redis_load URI PROCESSES COUNT HOLD_MS - each of the processes takes one name COUNT times and
 * holds it so long. Prints the acquisitions of a second; fails if two ever hold it together or a
 * call does.
 */
#include <dlock/dlock.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Atomic int *holders;

static void pause_ms(long ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    if (ms > 0)
        (void)nanosleep(&pause, NULL);
}

static int complain(const struct dlock_error *err)
{
    (void)fprintf(stderr, "redis_load: %s\n", err->message);
    return 1;
}

static int work(const char *uri, long count, long hold_ms)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;
    int wrong = 0;

    if (dlock_client_open(uri, NULL, &client, &err) != DLOCK_OK ||
        dlock_new(client, "load", 4, NULL, &lock, &err) != DLOCK_OK)
        return complain(&err);
    for (long i = 0; i < count && !wrong; i++) {
        if (dlock_timedlock(lock, 60000, &err) != DLOCK_OK)
            return complain(&err);
        if (atomic_fetch_add(holders, 1) != 0)
            wrong = 1;
        pause_ms(hold_ms);
        (void)atomic_fetch_sub(holders, 1);
        if (dlock_unlock(lock, &err) != DLOCK_OK)
            return complain(&err);
    }
    dlock_free(lock);
    dlock_client_close(client);
    return wrong;
}

static double now_s(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    long processes = argc == 5 ? strtol(argv[2], NULL, 10) : 0;
    long count = argc == 5 ? strtol(argv[3], NULL, 10) : 0;
    double begin = now_s();
    int bad = 0;

    if (processes < 1 || count < 1)
        return 64;
    holders =
        mmap(NULL, sizeof *holders, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (holders == MAP_FAILED)
        return 71;
    for (long i = 0; i < processes; i++)
        if (fork() == 0)
            _exit(work(argv[1], count, strtol(argv[4], NULL, 10)));
    for (long i = 0; i < processes; i++) {
        int status = 0;

        bad |= wait(&status) < 0 || status != 0;
    }
    printf("%ld acquisitions, %.0f a second\n", processes * count,
           (double)(processes * count) / (now_s() - begin));
    return bad;
}
