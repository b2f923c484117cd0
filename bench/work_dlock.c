/* SPDX-License-Identifier: MIT */
#include "work_command.h"

#include <dlock/dlock.h>
#include <stdio.h>
#include <string.h>

#define WAIT_MS 30000 /* longer than any step of a working run */

static void why_fill(char *why, const char *what, const struct dlock_error *err)
{
    (void)snprintf(why, BENCH_WHY_SIZE, "%s: %.200s", what, err->message);
}

static void *dlock_process_open(const struct bench_config *config, char *why)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;

    if (dlock_client_open(config->uri, NULL, &client, &err) == DLOCK_OK)
        return client;
    why_fill(why, "open", &err);
    return NULL;
}

static void dlock_process_close(void *process)
{
    dlock_client_close(process);
}

static void *dlock_begin(void *process, const struct bench_config *config, int index, char *why)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *lock = NULL;
    char name[48];

    (void)snprintf(name, sizeof name, "bench-%d-%d", config->run, config->one_name ? 0 : index);
    if (dlock_new(process, name, strlen(name), NULL, &lock, &err) == DLOCK_OK)
        return lock;
    why_fill(why, "new", &err);
    return NULL;
}

static void dlock_end(void *worker)
{
    dlock_free(worker);
}

static int dlock_take(void *worker, char *why)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    if (dlock_timedlock(worker, WAIT_MS, &err) == DLOCK_OK)
        return 0;
    why_fill(why, "lock", &err);
    return -1;
}

static int dlock_take_shared(void *worker, char *why)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    if (dlock_timedrdlock(worker, WAIT_MS, &err) == DLOCK_OK)
        return 0;
    why_fill(why, "rdlock", &err);
    return -1;
}

static int dlock_give(void *worker, char *why)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    if (dlock_unlock(worker, &err) == DLOCK_OK)
        return 0;
    why_fill(why, "unlock", &err);
    return -1;
}

static int dlock_holds(const void *worker)
{
    return dlock_state(worker) == DLOCK_STATE_HELD;
}

const struct bench_work bench_work_dlock = {
    .open = dlock_process_open,
    .close = dlock_process_close,
    .begin = dlock_begin,
    .end = dlock_end,
    .lock = dlock_take,
    .rdlock = dlock_take_shared,
    .unlock = dlock_give,
    .holds = dlock_holds,
    .command = bench_work_command_dlock,
};
