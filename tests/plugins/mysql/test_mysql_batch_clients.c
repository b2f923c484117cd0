/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/row_batch.c */
/* Clients with overlapping batches: does each name have one holder and rising numbers, and does
 * nobody wait in a circle? (C1, C6, C19)
 */
#include "batch_fixture.h"

#include <stdatomic.h>

enum { CLIENTS = 8, NAMES = 24, OF_ONE = 16 };

static atomic_int holders[NAMES];
static _Atomic uint64_t last_fence[NAMES];
static atomic_int grants, wrong;
static atomic_bool stop;

struct client {
    pthread_t thread;
    struct dlt_session session;
    struct dlt_batch batch;
    unsigned seed;
};
static struct client clients[CLIENTS];

/* Some of the names, in any order. */
static void client_make(struct client *client)
{
    unsigned at = (unsigned)rand_r(&client->seed);
    const unsigned step = (unsigned[]){1, 5, 7, 11, 23}[at % 5]; /* prime to NAMES: no name twice */

    dlt_batch_init(&client->batch, &client->session, OF_ONE, "n");
    for (size_t i = 0; i < OF_ONE; i++, at += step) {
        char *name = client->batch.names[i];

        (void)snprintf(name, sizeof client->batch.names[i], "n%u", at % NAMES);
        client->batch.requests[i].req.name_len = (uint32_t)strlen(name);
    }
}

static void client_hold(struct dlt_batch *batch, size_t i, int change)
{
    const unsigned long name = strtoul(batch->names[i] + 1, NULL, 10);

    if (change > 0 && atomic_fetch_add(&holders[name], 1) != 0)
        atomic_fetch_add(&wrong, 1);
    if (change > 0 && atomic_exchange(&last_fence[name], batch->elements[i].grant.fence) >=
                          batch->elements[i].grant.fence)
        atomic_fetch_add(&wrong, 1);
    if (change < 0)
        atomic_fetch_sub(&holders[name], 1);
}

/* Those that are not held have no part in the unlock. */
static void client_unlock(struct client *client)
{
    struct dlt_batch *batch = &client->batch;
    struct dlock_batch_op *held_ops[OF_ONE];
    bool has[OF_ONE];
    size_t n = 0;

    for (size_t i = 0; i < OF_ONE; i++)
        has[i] = batch->elements[i].status == DLOCK_OK;
    dlt_batch_due(batch, &client->session, CALL_MS);
    for (size_t i = 0; i < OF_ONE; i++)
        if (has[i])
            held_ops[n++] = batch->ops[i];
    if (n == 0)
        return;
    if (client->session.ops->unlock_batch(client->session.self, held_ops, n,
                                          &client->session.err) != DLOCK_OK)
        atomic_fetch_add(&wrong, 1);
    for (size_t i = 0; i < n; i++)
        if (held_ops[i]->status != DLOCK_OK)
            atomic_fetch_add(&wrong, 1);
}

static void *client_run(void *arg)
{
    struct client *client = arg;
    struct dlt_batch *batch = &client->batch;

    while (!atomic_load(&stop)) {
        client_make(client);
        dlt_batch_try(batch, &client->session);
        for (size_t i = 0; i < OF_ONE; i++) {
            const enum dlock_status status = batch->elements[i].status;

            if (status != DLOCK_OK && status != DLOCK_BUSY)
                atomic_fetch_add(&wrong, 1);
            if (status == DLOCK_OK)
                client_hold(batch, i, 1);
        }
        dlt_sleep_ms(1); /* for others to take the same name if they can */
        for (size_t i = 0; i < OF_ONE; i++)
            if (batch->elements[i].status == DLOCK_OK) {
                atomic_fetch_add(&grants, 1);
                client_hold(batch, i, -1);
            }
        client_unlock(client);
    }
    return NULL;
}

LEASED(C1_C6_eight_clients_with_overlapping_batches_and_no_deadlock)
{
    atomic_store(&stop, false);
    for (size_t i = 0; i < CLIENTS; i++) {
        struct client *client = &clients[i];

        client->seed = (unsigned)i;
        cr_assert_eq(dlt_session_join(&client->session, &s), DLOCK_OK, "%s",
                     client->session.err.message);
        client->session.call_ms = CALL_MS;
        cr_assert_eq(pthread_create(&client->thread, NULL, client_run, client), 0);
    }
    for (int i = 0; i < 600 && (i < 30 || atomic_load(&grants) < 500); i++)
        dlt_sleep_ms(100);
    atomic_store(&stop, true);
    for (size_t i = 0; i < CLIENTS; i++) {
        (void)pthread_join(clients[i].thread, NULL);
        dlt_session_close(&clients[i].session);
    }
    cr_assert_eq(atomic_load(&wrong), 0);
    cr_assert_geq(atomic_load(&grants), 500);
    /* Single INSERTs of a name that was just deleted may meet in one: BUSY for one of them. */
    if (is_row())
        cr_assert_str_eq(dlt_maria_ask(&server, "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'"),
                         "Innodb_deadlocks 0");
}
