/* SPDX-License-Identifier: MIT */
#include "rotation.h"
#include "tap.h"

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

struct dlock_handle *dlt_lock_new(struct dlock_client *client, const char *name)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *lock = NULL;

    if (dlock_new(client, name, strlen(name), NULL, &lock, &err) != DLOCK_OK)
        abort();
    return lock;
}

enum dlock_status dlt_renew_until_answered(struct dlock_handle *lock, struct dlock_error *err)
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

const struct dlt_rotation dlt_rotation_strategies[2] = {
    {.what = "row: ",
     .database = "/locks",
     .options = "&strategy=row&table_prefix=row_",
     .from = "secret",
     .to = "second"},
    {.what = "session: ",
     .database = "/locks",
     .options = "&strategy=session&table_prefix=session_",
     .from = "second",
     .to = "third",
     .session_lock = true},
};

static enum dlock_status client_open(const struct dlt_store_server *server,
                                     const struct dlt_rotation *rotation, const char *file,
                                     struct dlock_client **client, struct dlock_error *err)
{
    char uri[400];

    (void)snprintf(uri, sizeof uri, "%s://u@%s%s?pass_file=%s&ttl=60s%s", server->scheme,
                   server->address, rotation->database, file, rotation->options);
    return dlock_client_open(uri, NULL, client, err);
}

static bool lock_and_unlock(struct dlock_handle *lock, struct dlock_error *err)
{
    return dlock_timedlock(lock, 10000, err) == DLOCK_OK && dlock_unlock(lock, err) == DLOCK_OK;
}

static void rotate_under(const struct dlt_store_server *server, const struct dlt_rotation *rotation,
                         const char *file, struct dlock_handle *held, struct dlock_handle *other)
{
    const char *what = rotation->what;
    const enum dlock_status want = rotation->session_lock ? DLOCK_LOST : DLOCK_OK;
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = dlock_lock(held, &err);

    (void)dlt_ok(status == DLOCK_OK, "%sa lock is held: %s", what, err.message);
    server->password_set(server->self, rotation->to);
    dlt_password_write(file, rotation->to);
    (void)dlt_ok(lock_and_unlock(other, &err), "%sanother lock is had after the rotation: %s", what,
                 err.message);
    server->disconnect(server->self);
    status = dlt_renew_until_answered(held, &err);
    (void)dlt_ok(status == want, "C14 %sthe holder whose connections were ended: %s, %s", what,
                 dlock_status_name((int)status), err.message);
    status = dlock_unlock(held, &err);
    (void)dlt_ok(status == want, "%sand its unlock: %s, %s", what, dlock_status_name((int)status),
                 err.message);
    (void)dlt_ok(lock_and_unlock(other, &err), "%sand a new lock is had: %s", what, err.message);
}

static void rotate(const struct dlt_store_server *server, const struct dlt_rotation *rotation)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;
    struct dlock_handle *held = NULL, *other = NULL;
    enum dlock_status status = DLOCK_INTERNAL;
    char file[128];

    (void)snprintf(file, sizeof file, "%s/password", server->directory);
    server->password_set(server->self, rotation->from);
    dlt_password_write(file, rotation->from);
    status = client_open(server, rotation, file, &client, &err);
    if (!dlt_ok(status == DLOCK_OK, "%sthe store is opened: %s", rotation->what, err.message))
        return;
    held = dlt_lock_new(client, "held");
    other = dlt_lock_new(client, "other");
    rotate_under(server, rotation, file, held, other);
    dlock_free(other);
    dlock_free(held);
    dlock_client_close(client);
}

int dlt_rotation_run(const struct dlt_store_server *server, const struct dlt_rotation *rotations,
                     size_t count)
{
    if (!server->start(server->self)) {
        printf("Bail out! %s\n", server->why);
        return 1;
    }
    for (size_t i = 0; i < count; i++)
        rotate(server, &rotations[i]);
    server->stop(server->self);
    return dlt_done();
}
