/* SPDX-License-Identifier: MIT */
#include "pooler.h"

#include "connect.h"
#include "lib/text.h"
#include "query.h"

#include <poll.h>

#define TEST_NS    DL_NS_PER_S
#define LEAST_NS   (300 * DL_NS_PER_MS) /* of silence that says something */
#define TEST_BYTES 8
#define ASK_TIMES  2
#define TRIES      5 /* to get a second connection whose answers are its own */

enum dlock_status pg_pooler_detect(struct pg_connection *conn, int64_t *pid,
                                   struct dlock_error *err)
{
    PGresult *result = NULL;
    enum dlock_status status =
        pg_query_read(conn, "SELECT pg_catalog.pg_backend_pid()::bigint", NULL, &result, err);

    if (status == DLOCK_OK)
        status = pg_query_expect(conn, &result, 1, 1, err);
    if (status == DLOCK_OK) {
        *pid = pg_query_number(result, 0, 0);
        conn->pooled = *pid != PQbackendPID(conn->pq);
    }
    PQclear(result);
    return status;
}

static enum dlock_status run(struct pg_connection *conn, const char *verb, const char *name,
                             struct dlock_error *err)
{
    PGresult *result = NULL;
    char sql[96];
    enum dlock_status status = DLOCK_INTERNAL;

    (void)snprintf(sql, sizeof sql, "%s dlock_test_%s", verb, name);
    status = pg_query_read(conn, sql, NULL, &result, err);
    PQclear(result);
    return status;
}

/* Reads once: the peer may never stop sending. */
static bool has_message(struct pg_connection *conn)
{
    PGnotify *message = PQconsumeInput(conn->pq) == 1 ? PQnotifies(conn->pq) : NULL;
    const bool has = message != NULL;

    PQfreemem(message);
    return has;
}

/* OK: *reached says whether a message came. */
static enum dlock_status await(struct pg_connection *idle, bool *reached, struct dlock_error *err)
{
    const int64_t deadline_ns = idle->deadline_ns, start_ns = pg_connection_now(idle);
    enum dlock_status status = DLOCK_OK;

    if (idle->deadline_ns > start_ns + TEST_NS)
        idle->deadline_ns = start_ns + TEST_NS;
    *reached = has_message(idle);
    while (!*reached && status == DLOCK_OK && PQstatus(idle->pq) == CONNECTION_OK &&
           pg_connection_now(idle) < idle->deadline_ns) {
        status = pg_connection_wait(idle, POLLIN);
        *reached = has_message(idle);
    }
    idle->deadline_ns = deadline_ns;
    idle->dead = PQstatus(idle->pq) != CONNECTION_OK || status == DLOCK_CANCELED;
    if (status == DLOCK_CANCELED)
        return dlock_fail(err, PG_ORIGIN, status, 0, "the wait was cancelled");
    if (!*reached && (idle->dead || pg_connection_now(idle) - start_ns < LEAST_NS))
        return dlock_fail(err, PG_ORIGIN, DLOCK_UNAVAILABLE, 0,
                          "%s: no time to find out how the pooler works", idle->config->endpoint);
    return DLOCK_OK;
}

/* After the silence: a session that has changed proves that none belongs to its client. Else a
 * server that was slow may have kept the message. */
static enum dlock_status ask_again(struct pg_connection *idle, int64_t idle_pid,
                                   struct pg_connection *other, int64_t other_pid,
                                   enum pg_pooler *pooler, struct dlock_error *err)
{
    for (int i = 0; i < ASK_TIMES; i++) {
        int64_t idle_now = 0, other_now = 0;
        enum dlock_status status = pg_pooler_detect(idle, &idle_now, err);

        if (status == DLOCK_OK)
            status = pg_pooler_detect(other, &other_now, err);
        if (status != DLOCK_OK)
            return status;
        if (idle_now != idle_pid || other_now != other_pid || idle_now == other_now) {
            *pooler = PG_POOLER_TRANSACTION;
            return DLOCK_OK;
        }
    }
    return dlock_fail(err, PG_ORIGIN, DLOCK_UNAVAILABLE, 0,
                      "%s: a message did not arrive, and nothing says why", idle->config->endpoint);
}

static enum dlock_status listen_test(struct pg_connection *idle, int64_t idle_pid,
                                     struct pg_connection *other, int64_t other_pid,
                                     enum pg_pooler *pooler, struct dlock_error *err)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    unsigned char random[TEST_BYTES];
    char name[2 * TEST_BYTES + 1];
    bool reached = false;
    enum dlock_status status = DLOCK_INTERNAL;

    if (idle->host->random(idle->host->ctx, random, sizeof random) != 0)
        return dlock_fail(err, PG_ORIGIN, DLOCK_INTERNAL, 0, "no random bytes");
    dl_hex_encode(name, random, sizeof random);
    status = run(idle, "LISTEN", name, err);
    if (status == DLOCK_OK)
        status = run(other, "NOTIFY", name, err);
    if (status == DLOCK_OK)
        status = await(idle, &reached, err);
    if (status == DLOCK_OK && reached)
        *pooler = PG_POOLER_SESSION;
    else if (status == DLOCK_OK)
        status = ask_again(idle, idle_pid, other, other_pid, pooler, err);
    if (!idle->dead)
        (void)run(idle, "UNLISTEN", name, &ignored);
    return status;
}

enum dlock_status pg_pooler_test(struct pg_connection *idle, struct pg_connection *other,
                                 enum pg_pooler *pooler, struct dlock_error *err)
{
    int64_t idle_pid = 0, other_pid = 0;
    enum dlock_status status = pg_pooler_detect(idle, &idle_pid, err);

    if (status == DLOCK_OK && !idle->pooled) {
        *pooler = PG_POOLER_NONE;
        return status;
    }
    if (status == DLOCK_OK)
        status = pg_pooler_detect(other, &other_pid, err);
    if (status != DLOCK_OK)
        return status;
    if (idle_pid != other_pid)
        return listen_test(idle, idle_pid, other, other_pid, pooler, err);
    *pooler = PG_POOLER_TRANSACTION;
    return DLOCK_OK;
}

enum dlock_status pg_pooler_find(struct pg_connection *conn, int64_t deadline_ns,
                                 enum pg_pooler *pooler, struct dlock_error *err)
{
    struct pg_connection second = {
        .config = conn->config,
        .host = conn->host,
        .shared = conn->shared,
        .for_messages = true,
        .wake_fd = -1,
        .deadline_ns = deadline_ns,
    };
    enum dlock_status status = DLOCK_OK;

    *pooler = PG_POOLER_NONE;
    if (conn->pooled) {
        int left = TRIES;

        conn->deadline_ns = deadline_ns;
        do {
            status = pg_connect(&second, err);
            if (status == DLOCK_OK)
                status = pg_pooler_test(&second, conn, pooler, err);
        } while (status == DLOCK_UNAVAILABLE && --left > 0 && pg_connect_again(&second));
        pg_connect_close(&second);
    }
    if (status == DLOCK_OK)
        atomic_store(&conn->shared->pooler, (int)*pooler);
    return status;
}
