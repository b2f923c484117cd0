/* SPDX-License-Identifier: MIT */
/*
 * contend URI PROCESSES SECONDS LEAST DIRECTORY [each] - so many processes take and release one
 * name for so long, or a name each, and write their histories to DIRECTORY for dlock-history-check.
 * Prints what each got. Fails if any call fails, or a process got less than LEAST.
 */
#include "log.h"

#include <dlock/dlock.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)
#define RECORDS   (1u << 20)
#define WAIT_MS   60000

struct worker {
    const char *uri;
    struct dlt_log *log;
    struct dlock_handle *lock;
    struct dlock_error err;
    long taken;
    unsigned name; /* its number */
};

static void note(struct worker *w, enum dlt_event event, uint64_t attempt, enum dlock_status status,
                 int64_t until_ns)
{
    dlt_log_write(w->log,
                  &(struct dlt_record){
                      .event = (uint8_t)event,
                      .attempt_id = attempt,
                      .name_id = (uint16_t)w->name,
                      .status = (uint16_t)(event == DLT_INV_LOCK ? DLT_CALL_WAITS : (int)status),
                      .fence = event == DLT_RET_LOCK ? dlock_fence(w->lock) : 0,
                      .until_ns = until_ns,
                  });
}

static int failed(const struct worker *w, const char *call, enum dlock_status status)
{
    (void)fprintf(stderr, "%d: %s: %s: %s\n", (int)getpid(), call, dlock_status_name((int)status),
                  w->err.message);
    return 1;
}

static int turn(struct worker *w)
{
    uint64_t attempt = dlt_log_attempt(w->log);
    enum dlock_status status = DLOCK_INTERNAL;

    note(w, DLT_INV_LOCK, attempt, DLOCK_OK, dlt_log_now_ns() + WAIT_MS * NS_PER_MS);
    status = dlock_timedlock(w->lock, WAIT_MS, &w->err);
    note(w, DLT_RET_LOCK, attempt, status,
         dlt_log_now_ns() + dlock_remaining_ms(w->lock) * NS_PER_MS);
    if (status != DLOCK_OK)
        return failed(w, "timedlock", status);
    note(w, DLT_INV_UNLOCK, attempt, DLOCK_OK, 0);
    status = dlock_unlock(w->lock, &w->err);
    note(w, DLT_RET_UNLOCK, attempt, status, 0);
    if (status != DLOCK_OK)
        return failed(w, "unlock", status);
    w->taken++;
    return 0;
}

/* Of all processes: the beginning is when all have opened the store, so that none is late. */
static int report[2], ready[2], start[2];

static void await_others(void)
{
    const char byte = 0;
    char end = 0;

    if (write(ready[1], &byte, 1) == 1)
        (void)!read(start[0], &end, 1); /* its end */
}

static int work(const char *uri, const char *path, unsigned name, int64_t run_ns)
{
    struct dlock_client_options options = {.struct_size = sizeof options,
                                           .defaults = "op_timeout=20s"};
    struct worker w = {
        .uri = uri, .log = dlt_log_open(path, RECORDS), .err = DLOCK_ERROR_INIT, .name = name};
    struct dlock_client *client = NULL;
    char text[32];
    int len = snprintf(text, sizeof text, "contended-%u", name);
    enum dlock_status status = dlock_client_open(uri, &options, &client, &w.err);
    int64_t end_ns = 0;
    int bad = 0;

    if (w.log == NULL || status != DLOCK_OK)
        return failed(&w, "open", status);
    status = dlock_new(client, text, (size_t)len, NULL, &w.lock, &w.err);
    await_others();
    end_ns = dlt_log_now_ns() + run_ns;
    while (status == DLOCK_OK && !bad && dlt_log_now_ns() < end_ns)
        bad = turn(&w);
    dlock_free(w.lock);
    dlock_client_close(client);
    dlt_log_close(w.log);
    if (write(report[1], &w.taken, sizeof w.taken) != (ssize_t)sizeof w.taken)
        bad = 1;
    return bad;
}

static void start_all(long processes)
{
    char byte = 0;

    for (long i = 0; i < processes && read(ready[0], &byte, 1) == 1; i++)
        continue;
    (void)close(start[1]);
}

static int harvest(long processes, long least)
{
    long total = 0, fewest = -1, most = 0, taken = 0;
    int bad = 0, status = 0;

    for (long i = 0; i < processes; i++)
        bad |= wait(&status) < 0 || status != 0;
    for (long i = 0; i < processes && read(report[0], &taken, sizeof taken) > 0; i++) {
        total += taken;
        fewest = fewest < 0 || taken < fewest ? taken : fewest;
        most = taken > most ? taken : most;
    }
    (void)printf("# %ld acquisitions, %ld to %ld each\n", total, fewest, most);
    if (fewest < least)
        (void)fprintf(stderr, "%ld are less than %ld\n", fewest, least);
    return bad || fewest < least;
}

int main(int argc, char **argv)
{
    long processes = argc == 6 || argc == 7 ? strtol(argv[2], NULL, 10) : 0;
    bool each = argc == 7 && strcmp(argv[6], "each") == 0;
    int64_t run_ns = 0;

    if (processes < 1 || pipe(report) != 0 || pipe(ready) != 0 || pipe(start) != 0)
        return 64;
    run_ns = strtol(argv[3], NULL, 10) * NS_PER_S;
    for (long i = 0; i < processes; i++) {
        if (fork() == 0) {
            char path[256];

            (void)close(report[0]);
            (void)close(ready[0]);
            (void)close(start[1]);
            (void)snprintf(path, sizeof path, "%s/%ld.log", argv[5], i);
            _exit(work(argv[1], path, each ? (unsigned)i : 0, run_ns));
        }
    }
    (void)close(report[1]);
    (void)close(ready[1]);
    start_all(processes);
    return harvest(processes, strtol(argv[4], NULL, 10));
}
