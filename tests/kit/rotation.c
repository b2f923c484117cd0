/* SPDX-License-Identifier: MIT */
#include "rotation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

void dlt_password_write(const char *file, const char *password)
{
    char half[256];
    FILE *out = NULL;

    (void)snprintf(half, sizeof half, "%s.half", file);
    out = fopen(half, "we");
    if (out == NULL || fchmod(fileno(out), 0600) != 0 || fprintf(out, "%s\n", password) < 0 ||
        fclose(out) != 0 || rename(half, file) != 0)
        abort();
}

struct dlock *dlt_lock_new(struct dlock_client *client, const char *name)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock *lock = NULL;

    if (dlock_new(client, name, strlen(name), NULL, &lock, &err) != DLOCK_OK)
        abort();
    return lock;
}

enum dlock_status dlt_renew_until_answered(struct dlock *lock, struct dlock_error *err)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    enum dlock_status status = DLOCK_UNKNOWN;

    for (int i = 0; i < 100; i++) {
        status = dlock_renew(lock, 0, err);
        if (status == DLOCK_OK || status == DLOCK_LOST)
            break;
        (void)nanosleep(&pause, NULL);
    }
    return status;
}
