/* SPDX-License-Identifier: MIT */
#include "work.h"

#include <dlock/dlock.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define WAIT_MS 30000 /* longer than any step of a working run */

static void why_fill(char *why, const char *what, const struct dlock_error *err)
{
    (void)snprintf(why, BENCH_WHY_SIZE, "%s: %.200s", what, err->message);
}

static void *async_open(const struct bench_config *config, char *why)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;

    if (dlock_client_open(config->uri, NULL, &client, &err) == DLOCK_OK)
        return client;
    why_fill(why, "open", &err);
    return NULL;
}

static void async_close(void *process)
{
    dlock_client_close(process);
}

static void *async_begin(void *process, const struct bench_config *config, int index, char *why)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .user = (void *)(intptr_t)index};
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *lock = NULL;
    char name[48];

    (void)snprintf(name, sizeof name, "bench-%d-%d", config->run, config->one_name ? 0 : index);
    if (dlock_new(process, name, strlen(name), &options, &lock, &err) == DLOCK_OK)
        return lock;
    why_fill(why, "new", &err);
    return NULL;
}

static void async_end(void *worker)
{
    dlock_free(worker);
}

static int async_start(void *worker, int unlock, char *why)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    if (dlock_op_start(worker, unlock ? DLOCK_OP_UNLOCK : DLOCK_OP_LOCK, WAIT_MS, &err) == DLOCK_OK)
        return 0;
    why_fill(why, "start", &err);
    return -1;
}

static int async_next(void *process, char *why)
{
    struct dlock_notice notice = {.struct_size = sizeof notice};
    struct dlock_error err = DLOCK_ERROR_INIT;

    for (;;) {
        struct pollfd fd = {.fd = dlock_client_fd(process), .events = POLLIN};
        enum dlock_status status = dlock_client_next(process, &notice, &err);
        bool taken = status == DLOCK_OK && notice.kind != DLOCK_NOTICE_NONE;

        if (status != DLOCK_OK ||
            (taken && (notice.kind != DLOCK_NOTICE_DONE || notice.status != DLOCK_OK)))
            break;
        if (taken)
            return (int)(intptr_t)notice.user;
        if (poll(&fd, 1, 2 * WAIT_MS) <= 0) {
            (void)snprintf(why, BENCH_WHY_SIZE, "no operation ended");
            return -1;
        }
    }
    why_fill(why, "notice", &err);
    return -1;
}

const struct bench_work bench_work_async = {
    .open = async_open,
    .close = async_close,
    .begin = async_begin,
    .end = async_end,
    .start = async_start,
    .next = async_next,
};
