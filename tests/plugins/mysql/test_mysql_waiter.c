/* SPDX-License-Identifier: MIT */
/*
 * test_mysql_waiter - the connection of a waiter of strategy session is killed, again and again,
 * and later than an answer may take: is it told to nobody (C4, C13), and does the lock come in the
 * end (C1, C6)? The same when its statement alone is killed, and when the server restarts.
 */
#include "maria_server.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KILLS         3
#define OP_TIMEOUT_MS 500 /* of the waiter */

/* Of the only connection that waits for a row, or "". */
static const char waiting[] = "SELECT COALESCE(MAX(id), '') FROM information_schema.processlist"
                              " WHERE user = 'u' AND info LIKE '% FOR UPDATE'";

static struct dlt_maria server;

struct party {
    struct dlock_client *client;
    struct dlock_handle *lock;
    struct dlock_error err;
    enum dlock_status status;
};

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void party_open(struct party *party, const char *options)
{
    char uri[160];

    (void)snprintf(uri, sizeof uri, "mysql://u:secret@%s/locks?strategy=session%s", server.address,
                   options);
    party->err = (struct dlock_error)DLOCK_ERROR_INIT;
    if (dlock_client_open(uri, NULL, &party->client, &party->err) != DLOCK_OK ||
        dlock_new(party->client, "job", 3, NULL, &party->lock, &party->err) != DLOCK_OK) {
        printf("Bail out! %s\n", party->err.message);
        exit(1);
    }
}

static void party_close(struct party *party)
{
    dlock_free(party->lock);
    dlock_client_close(party->client);
}

static void *wait_run(void *arg)
{
    struct party *party = arg;

    party->status = dlock_timedlock(party->lock, 60000, &party->err);
    return NULL;
}

/* What `question` finds (`waiting` or `statement`) that is not `last`; false: in 20 s there was
 * none. */
static bool waits_again(const char *question, char *last, size_t size)
{
    for (int i = 0; i < 1000; i++) {
        const char *id = dlt_maria_ask(&server, "%s", question);

        if (id[0] != '\0' && strcmp(id, last) != 0) {
            (void)snprintf(last, size, "%s", id);
            return true;
        }
        sleep_ms(20);
    }
    return false;
}

/* Of the statement of the only connection that waits for a row, or "". */
static const char statement[] =
    "SELECT COALESCE(MAX(query_id), '') FROM information_schema.processlist"
    " WHERE user = 'u' AND info LIKE '% FOR UPDATE'";

/* KILL QUERY ends the statement that waits, and no connection: as soon as it waits, while core has
 * not heard of the name's holder, and when it has waited for longer than an answer may take. */
static void query_test(struct party *holder, struct party *waiter)
{
    pthread_t thread;
    char id[256] = "";

    (void)dlt_ok(dlock_lock(holder->lock, &holder->err) == DLOCK_OK, "C1 it is held");
    if (pthread_create(&thread, NULL, wait_run, waiter) != 0)
        abort();
    for (int i = 0; i < 2; i++) {
        (void)dlt_ok(waits_again(statement, id, sizeof id),
                     "C8 the statement of the waiter, time %d", i + 1);
        sleep_ms(i * 2 * OP_TIMEOUT_MS);
        (void)dlt_maria_ask(&server, "KILL QUERY ID %s", id);
    }
    (void)dlt_ok(waits_again(statement, id, sizeof id), "C8 it asks again after each KILL QUERY");
    (void)dlt_ok(dlock_unlock(holder->lock, &holder->err) == DLOCK_OK,
                 "C4 the holder saw nothing: %s", holder->err.message);
    (void)pthread_join(thread, NULL);
    (void)dlt_ok(waiter->status == DLOCK_OK, "C8 the waiter did not give up early: %s %s",
                 dlock_status_name((int)waiter->status), waiter->err.message);
    (void)dlt_ok(dlock_unlock(waiter->lock, &waiter->err) == DLOCK_OK, "C7 and it gives it back");
}

/* The server restarts before an answer to the waiter is due, and refuses connections meanwhile. */
static void restart_test(struct party *holder, struct party *waiter)
{
    pthread_t thread;
    char id[256] = "";

    (void)dlt_ok(dlock_lock(holder->lock, &holder->err) == DLOCK_OK, "C1 it is held again");
    if (pthread_create(&thread, NULL, wait_run, waiter) != 0)
        abort();
    (void)dlt_ok(waits_again(waiting, id, sizeof id), "C13 the waiter waits at the server");
    dlt_maria_kill(&server);
    sleep_ms(200);
    (void)dlt_ok(dlt_maria_again(&server), "the server is there again: %s", server.why);
    (void)pthread_join(thread, NULL);
    (void)dlt_ok(waiter->status == DLOCK_OK, "C8 the waiter went on through the restart: %s %s",
                 dlock_status_name((int)waiter->status), waiter->err.message);
    (void)dlt_ok(dlock_unlock(holder->lock, &holder->err) == DLOCK_LOST,
                 "C5 the lock ended with the holder's session");
    (void)dlt_ok(dlock_unlock(waiter->lock, &waiter->err) == DLOCK_OK, "C7 and it gives it back");
}

int main(void)
{
    struct party holder, waiter;
    pthread_t thread;
    char id[256] = "", options[32];

    if (!dlt_maria_start(&server, NULL)) {
        printf("Bail out! %s\n", server.why);
        return 1;
    }
    party_open(&holder, "");
    (void)snprintf(options, sizeof options, "&op_timeout=%dms", OP_TIMEOUT_MS);
    party_open(&waiter, options);
    (void)dlt_ok(dlock_lock(holder.lock, &holder.err) == DLOCK_OK, "C1 it is held");
    if (pthread_create(&thread, NULL, wait_run, &waiter) != 0)
        abort();
    for (int i = 0; i < KILLS; i++) {
        (void)dlt_ok(waits_again(waiting, id, sizeof id),
                     "C13 the waiter waits at the server, time %d", i + 1);
        sleep_ms(2 * OP_TIMEOUT_MS);
        (void)dlt_maria_ask(&server, "KILL %s", id);
    }
    (void)dlt_ok(waits_again(waiting, id, sizeof id), "C13 and once more");
    (void)dlt_ok(dlock_unlock(holder.lock, &holder.err) == DLOCK_OK,
                 "C4 the holder saw nothing: %s", holder.err.message);
    (void)pthread_join(thread, NULL);
    (void)dlt_ok(waiter.status == DLOCK_OK, "C4 nor did the waiter: %s %s",
                 dlock_status_name((int)waiter.status), waiter.err.message);
    (void)dlt_ok(dlock_fence(waiter.lock) > 0, "C6 it has a fence");
    (void)dlt_ok(dlock_unlock(waiter.lock, &waiter.err) == DLOCK_OK, "C7 and gives it back");
    query_test(&holder, &waiter);
    restart_test(&holder, &waiter);
    party_close(&waiter);
    party_close(&holder);
    dlt_maria_stop(&server);
    return dlt_done();
}
