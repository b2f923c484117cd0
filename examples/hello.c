/* SPDX-License-Identifier: MIT */
/*
 * hello.c - the smallest honest program with a lock: take it or say who has it, work in steps while
 * it is ours, give it back.
 *
 *     hello [URI]      default: $DLOCK_URI, then the SQLite file of this user
 */
#include <dlock/dlock.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char name[] = "hello";

static bool holder_print(void *arg, const struct dlock_holder *info)
{
    (void)arg;
    (void)printf("held by %s for another %" PRId64 " ms\n", info->label, info->remaining_ms);
    return false;
}

static enum dlock_status work_under(struct dlock_handle *lock, struct dlock_error *err)
{
    enum dlock_status status = dlock_trylock(lock, err);

    if (status != DLOCK_OK)
        return status;
    (void)printf("mine, fence %" PRIu64 "\n", dlock_fence(lock));
    /* A lease can be lost at any time: check before each step, and give the fence to whatever
     * stores the result, so that it can refuse a step that comes too late. */
    for (int step = 1; step <= 3 && dlock_state(lock) != DLOCK_STATE_LOST; step++) {
        (void)printf("step %d, valid for %" PRId64 " ms\n", step, dlock_remaining_ms(lock));
        (void)usleep(100000);
    }
    return dlock_unlock(lock, err); /* LOST if it was */
}

int main(int argc, char **argv)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;
    enum dlock_status status = dlock_client_open(argc > 1 ? argv[1] : NULL, NULL, &client, &err);

    if (status == DLOCK_OK)
        status = dlock_new(client, name, DLOCK_NUL, NULL, &lock, &err);
    if (status == DLOCK_OK)
        status = work_under(lock, &err);
    if (status == DLOCK_BUSY)
        (void)dlock_client_inspect(client, name, strlen(name), holder_print, NULL, NULL);
    else if (status != DLOCK_OK)
        (void)fprintf(stderr, "hello: %s\n", err.message);
    dlock_free(lock);
    dlock_client_close(client);
    return status == DLOCK_OK ? 0 : 1;
}
