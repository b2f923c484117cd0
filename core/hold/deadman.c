/* SPDX-License-Identifier: MIT */
#include "hold/deadman.h"
#include "sys/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct dl_deadman {
    struct dl_schedule ends; /* of handles with `kill_end` */
    int64_t set_ns;          /* what the timer is set to */
};

static void timer_set_locked(struct dlock_client *client)
{
    struct dl_deadman *deadman = client->deadman;
    const struct dl_due *first = dl_schedule_first(&deadman->ends);
    int64_t at_ns = first != NULL ? first->at_ns : DL_NEVER;

    if (at_ns == deadman->set_ns)
        return;
    deadman->set_ns = at_ns;
    client->host.kill_timer.set(&client->host.kill_timer, at_ns);
}

static enum dlock_status deadman_new_locked(struct dlock_client *client, struct dlock_error *err)
{
    struct dl_deadman *deadman = calloc(1, sizeof *deadman);
    int error = deadman == NULL ? ENOMEM : client->host.kill_timer.open(&client->host.kill_timer);

    if (error == 0) {
        deadman->set_ns = DL_NEVER;
        client->deadman = deadman;
        return DLOCK_OK;
    }
    free(deadman);
    if (error == EPERM)
        return dl_error(err, DLOCK_UNSUPPORTED,
                        "on_expiry: no signal ends the first process of a PID namespace; start it "
                        "by an init (docker run --init)");
    return dl_error(err, error == ENOMEM || error == EAGAIN ? DLOCK_NOMEM : DLOCK_UNSUPPORTED,
                    "on_expiry: no timer: %s", strerrordesc_np(error));
}

enum dlock_status dl_deadman_add_locked(struct dlock_handle *lock, struct dlock_error *err)
{
    struct dlock_client *client = lock->client;
    enum dlock_status status = DLOCK_OK;

    if (client->deadman == NULL)
        status = deadman_new_locked(client, err);
    if (status != DLOCK_OK)
        return status;
    lock->kill_end = calloc(1, sizeof *lock->kill_end);
    if (lock->kill_end != NULL && dl_schedule_reserve(&client->deadman->ends))
        return DLOCK_OK;
    free(lock->kill_end);
    lock->kill_end = NULL;
    return dl_error(err, DLOCK_NOMEM, "no memory for a handle");
}

void dl_deadman_remove_locked(struct dlock_handle *lock)
{
    if (lock->kill_end == NULL)
        return;
    dl_deadman_end_locked(lock);
    dl_schedule_unreserve(&lock->client->deadman->ends);
    free(lock->kill_end);
    lock->kill_end = NULL;
}

void dl_deadman_hold_locked(struct dlock_handle *lock, int64_t until_ns)
{
    if (lock->kill_end == NULL || lock->kill_disarmed)
        return;
    dl_schedule_set(&lock->client->deadman->ends, lock->kill_end, until_ns);
    timer_set_locked(lock->client);
}

void dl_deadman_end_locked(struct dlock_handle *lock)
{
    if (lock->kill_end == NULL)
        return;
    lock->kill_disarmed = false;
    dl_schedule_remove(&lock->client->deadman->ends, lock->kill_end);
    timer_set_locked(lock->client);
}

void dl_deadman_disarm_locked(struct dlock_handle *lock)
{
    bool is_in = lock->kill_end != NULL && lock->kill_end->heap_index != 0;

    dl_deadman_end_locked(lock);
    lock->kill_disarmed = is_in;
}

void dl_deadman_free(struct dlock_client *client)
{
    if (client->deadman != NULL)
        client->host.kill_timer.close(&client->host.kill_timer);
    dl_deadman_free_after_fork(client);
}

void dl_deadman_free_after_fork(struct dlock_client *client)
{
    if (client->deadman == NULL)
        return;
    dl_schedule_fini(&client->deadman->ends);
    free(client->deadman);
}
