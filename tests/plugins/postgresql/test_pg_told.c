/* SPDX-License-Identifier: MIT */
/*
 * Operations of dlock_start wait in the server, and do not poll (C13, C19). Runs under
 * ThreadSanitizer, too.
 */
#include "postgres_server.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NAMES = 5, EACH = 4, WAITERS = NAMES * EACH, STILL_MS = 2000, LONG_MS = 10000 };

static struct dlt_postgres server;
static struct dlock_client *holder, *waiter;
static struct dlock *held[NAMES], *waiting[WAITERS];

static void want(enum dlock_status status, const char *what)
{
    if (status == DLOCK_OK)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, dlock_status_name((int)status));
    abort();
}

static struct dlock *lock_new(struct dlock_client *client, int name)
{
    const struct dlock_options options = {.struct_size = sizeof options, .ttl_ms = 300000};
    struct dlock *lock = NULL;
    char text[16];

    (void)snprintf(text, sizeof text, "told-%d", name);
    want(dlock_new(client, text, strlen(text), &options, &lock, NULL), "new");
    return lock;
}

/* Attempts to take a name that the server has seen: it logs each statement. */
static int attempts(void)
{
    char path[128], line[4096];
    FILE *file = NULL;
    int count = 0;

    (void)snprintf(path, sizeof path, "%s/log", server.directory);
    file = fopen(path, "re");
    if (file == NULL)
        abort();
    while (fgets(line, sizeof line, file) != NULL)
        count += strstr(line, "told_take\"($1") != NULL;
    (void)fclose(file);
    return count;
}

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Until the next DONE, and no longer than until the first poll; each handle that has acquired gives
 * the name back. Returns whether it was an acquisition; -1: none in time. */
static int notice_take(void)
{
    struct pollfd fd = {.fd = dlock_client_fd(waiter), .events = POLLIN};
    struct dlock_notice notice = {.struct_size = sizeof notice};

    if (poll(&fd, 1, LONG_MS) != 1 || dlock_client_next(waiter, &notice, NULL) != 1)
        return -1;
    want(notice.status, "DONE");
    if (notice.op != DLOCK_OP_LOCK)
        return 0;
    want(dlock_start(notice.lock, DLOCK_OP_UNLOCK, 0, NULL), "start unlock");
    return 1;
}

static void check(void)
{
    int before = 0, after = 0, acquired = 0, taken = 0;

    for (int i = 0; i < NAMES; i++)
        want(dlock_trylock(held[i], NULL), "trylock");
    for (int i = 0; i < WAITERS; i++)
        want(dlock_start(waiting[i], DLOCK_OP_LOCK, DLOCK_FOREVER, NULL), "start");
    sleep_ms(STILL_MS); /* all of them are in the queue */
    before = attempts();
    sleep_ms(STILL_MS);
    after = attempts();
    (void)dlt_ok(before >= 2 * NAMES, "each name has a holder and a waiter in the server");
    (void)dlt_ok(after == before, "%d operations that wait made %d requests in %d ms", WAITERS,
                 after - before, STILL_MS);
    for (int i = 0; i < NAMES; i++)
        want(dlock_unlock(held[i], NULL), "unlock");
    while (acquired < WAITERS && taken >= 0) {
        taken = notice_take();
        acquired += taken > 0;
    }
    (void)dlt_ok(acquired == WAITERS, "%d of %d acquired without a poll", acquired, WAITERS);
}

int main(void)
{
    static const char *const settings[] = {"-c", "log_statement=all", "-c", "fsync=off", NULL};
    char uri[256];

    if (!dlt_postgres_start(&server, settings))
        abort();
    (void)snprintf(
        uri, sizeof uri,
        "postgresql://u:secret@%s/locks?table_prefix=told_&poll_max=60s&waiter_lease=60s",
        server.address);
    want(dlock_client_open(uri, NULL, &holder, NULL), "open");
    want(dlock_client_open(uri, NULL, &waiter, NULL), "open");
    for (int i = 0; i < NAMES; i++)
        held[i] = lock_new(holder, i);
    for (int i = 0; i < WAITERS; i++)
        waiting[i] = lock_new(waiter, i % NAMES);
    check();
    for (int i = 0; i < NAMES; i++)
        dlock_free(held[i]);
    for (int i = 0; i < WAITERS; i++)
        dlock_free(waiting[i]);
    dlock_client_close(waiter);
    dlock_client_close(holder);
    dlt_postgres_stop(&server);
    return dlt_done();
}
