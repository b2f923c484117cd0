/* SPDX-License-Identifier: MIT */
#include "bare_postgresql.h"
#include "work.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE  "dlock_bench_lease"
#define QUEUE  "dlock_bench_queue"
#define NUMBER "hashtextextended($1, 0)"

/* take: who has it; 0: queued. free: gives it back to nobody. release: to the first that waits, who
 * is returned. fence: an advisory lock and a number that has risen. */
static const char schema[] =
    "SELECT pg_advisory_xact_lock(7777);"
    "CREATE TABLE IF NOT EXISTS " LEASE " (name text PRIMARY KEY, token text NOT NULL,"
    " fence bigint NOT NULL, until timestamptz) WITH (fillfactor = 50);"
    "CREATE TABLE IF NOT EXISTS " QUEUE " (name text, seq bigserial, token text NOT NULL,"
    " PRIMARY KEY (name, seq));"
    "CREATE OR REPLACE FUNCTION dlock_bench_take(n text, t text) RETURNS bigint LANGUAGE plpgsql "
    "AS $$"
    "DECLARE f bigint; BEGIN"
    " UPDATE " LEASE
    " SET token = t, fence = fence + 1, until = clock_timestamp() + interval '30 s'"
    "  WHERE name = n AND token = '' RETURNING fence INTO f;"
    " IF FOUND THEN RETURN f; END IF;"
    " PERFORM 1 FROM " LEASE " WHERE name = n FOR UPDATE;"
    " UPDATE " LEASE
    " SET token = t, fence = fence + 1, until = clock_timestamp() + interval '30 s'"
    "  WHERE name = n AND token = '' RETURNING fence INTO f;"
    " IF FOUND THEN RETURN f; END IF;"
    " INSERT INTO " QUEUE " (name, token) VALUES (n, t);"
    " RETURN 0;"
    "END $$;"
    "CREATE OR REPLACE FUNCTION dlock_bench_free(n text, t text) RETURNS boolean LANGUAGE plpgsql "
    "AS $$"
    "BEGIN"
    " UPDATE " LEASE " SET token = '' WHERE name = n AND token = t;"
    " RETURN FOUND;"
    "END $$;"
    "CREATE OR REPLACE FUNCTION dlock_bench_release(n text, t text) RETURNS text LANGUAGE plpgsql "
    "AS $$"
    "DECLARE x text; BEGIN"
    " PERFORM 1 FROM " LEASE " WHERE name = n AND token = t FOR UPDATE;"
    " IF NOT FOUND THEN RETURN NULL; END IF;"
    " DELETE FROM " QUEUE " WHERE name = n AND seq = (SELECT min(seq) FROM " QUEUE
    "  WHERE name = n) RETURNING token INTO x;"
    " UPDATE " LEASE " SET token = coalesce(x, ''), fence = fence + 1,"
    "  until = clock_timestamp() + interval '30 s' WHERE name = n;"
    " RETURN coalesce(x, '');"
    "END $$;"
    "CREATE OR REPLACE FUNCTION dlock_bench_fence(n text) RETURNS bigint LANGUAGE plpgsql AS $$"
    "DECLARE f bigint; BEGIN"
    " PERFORM pg_advisory_lock(hashtextextended(n, 0));"
    " UPDATE " LEASE " SET fence = fence + 1 WHERE name = n RETURNING fence INTO f;"
    " RETURN f;"
    "END $$";

/* Of both, $1 is the name, and $2 the worker. */
struct recipe {
    const char *lock, *unlock;
};

static const struct recipe update_recipe = {
    .lock = "UPDATE " LEASE " SET token = $2, fence = fence + 1, until = clock_timestamp() + "
            "interval '30 s' WHERE name = $1 AND (token = '' OR until < clock_timestamp())",
    .unlock = "UPDATE " LEASE " SET token = '' WHERE name = $1 AND token = $2",
};

static const struct recipe function_recipe = {
    .lock = "SELECT dlock_bench_take($1, $2)",
    .unlock = "SELECT dlock_bench_free($1, $2)",
};

static const struct recipe advisory_recipe = {
    .lock = "SELECT 1 FROM pg_advisory_lock(" NUMBER ") WHERE $2 <> ''",
    .unlock = "SELECT pg_advisory_unlock(" NUMBER ") WHERE $2 <> ''",
};

static const struct recipe fence_recipe = {
    .lock = "SELECT dlock_bench_fence($1) WHERE $2 <> ''",
    .unlock = "SELECT pg_advisory_unlock(" NUMBER ") WHERE $2 <> ''",
};

static const struct recipe grant_recipe = {
    .lock = "SELECT dlock_bench_take($1, $2)",
    .unlock = "SELECT dlock_bench_release($1, $2)",
};

struct worker {
    PGconn *conn, *listener;
    char name[64], token[64];
};

static int row_make(PGconn *conn, const char *name, char *why)
{
    char text[256];

    (void)snprintf(text, sizeof text,
                   "INSERT INTO " LEASE " VALUES ('%s', '', 0, NULL) ON CONFLICT DO NOTHING", name);
    return bench_postgresql_do(conn, text, why);
}

/* The tables and functions, once for all workers. */
static int postgresql_prepare(const struct bench_config *config, char *why)
{
    struct bench_address address;
    PGconn *conn = NULL;
    int rc = -1;

    if (bench_address_parse(config->uri, &address) != 0)
        return -1;
    conn = bench_postgresql_connect(&address, why);
    if (conn == NULL)
        return -1;
    rc = bench_postgresql_do(conn, "SET client_min_messages = warning", why);
    if (rc == 0)
        rc = bench_postgresql_do(conn, schema, why);
    if (rc == 0)
        rc = bench_postgresql_do(conn, "TRUNCATE " LEASE ", " QUEUE, why);
    PQfinish(conn);
    return rc;
}

static void postgresql_end(void *arg)
{
    struct worker *worker = arg;

    PQfinish(worker->listener);
    PQfinish(worker->conn);
    free(worker);
}

static struct worker *worker_new(const struct bench_address *address,
                                 const struct bench_config *config, int index, char *why)
{
    struct worker *worker = calloc(1, sizeof *worker);

    if (worker == NULL) {
        (void)bench_postgresql_failed(NULL, why);
        return NULL;
    }
    (void)snprintf(worker->name, sizeof worker->name, "bench-%d-%d", config->run,
                   config->one_name ? 0 : index);
    (void)snprintf(worker->token, sizeof worker->token, "bench_%d_%d", config->run, index);
    worker->conn = bench_postgresql_connect(address, why);
    if (worker->conn != NULL && row_make(worker->conn, worker->name, why) == 0)
        return worker;
    postgresql_end(worker);
    return NULL;
}

static struct worker *recipe_begin(const struct recipe *recipe, const struct bench_address *address,
                                   const struct bench_config *config, int index, char *why)
{
    struct worker *worker = worker_new(address, config, index, why);

    if (worker == NULL)
        return NULL;
    if (bench_postgresql_prepare(worker->conn, "lock", recipe->lock, why) == 0 &&
        bench_postgresql_prepare(worker->conn, "unlock", recipe->unlock, why) == 0)
        return worker;
    postgresql_end(worker);
    return NULL;
}

static void *update_begin(void *process, const struct bench_config *config, int index, char *why)
{
    return recipe_begin(&update_recipe, process, config, index, why);
}

static void *function_begin(void *process, const struct bench_config *config, int index, char *why)
{
    return recipe_begin(&function_recipe, process, config, index, why);
}

static void *advisory_begin(void *process, const struct bench_config *config, int index, char *why)
{
    return recipe_begin(&advisory_recipe, process, config, index, why);
}

static void *fence_begin(void *process, const struct bench_config *config, int index, char *why)
{
    return recipe_begin(&fence_recipe, process, config, index, why);
}

static void *text_begin(void *process, const struct bench_config *config, int index, char *why)
{
    return worker_new(process, config, index, why);
}

static void *grant_begin(void *process, const struct bench_config *config, int index, char *why)
{
    struct worker *worker = recipe_begin(&grant_recipe, process, config, index, why);
    char text[80];

    if (worker == NULL)
        return NULL;
    (void)snprintf(text, sizeof text, "LISTEN %s", worker->token);
    worker->listener = bench_postgresql_connect(process, why);
    if (worker->listener != NULL && bench_postgresql_do(worker->listener, text, why) == 0)
        return worker;
    postgresql_end(worker);
    return NULL;
}

static PGresult *run(struct worker *worker, const char *prepared)
{
    const char *const values[] = {worker->name, worker->token};

    return PQexecPrepared(worker->conn, prepared, 2, values, NULL, NULL, 0);
}

static int postgresql_lock(void *arg, char *why)
{
    struct worker *worker = arg;

    return bench_postgresql_right(worker->conn, run(worker, "lock"), NULL, 0, why);
}

static int postgresql_unlock(void *arg, char *why)
{
    struct worker *worker = arg;

    return bench_postgresql_right(worker->conn, run(worker, "unlock"), NULL, 0, why);
}

static int text_run(struct worker *worker, const char *text, char *why)
{
    const char *const values[] = {worker->name, worker->token};

    return bench_postgresql_right(worker->conn,
                                  PQexecParams(worker->conn, text, 2, NULL, values, NULL, NULL, 0),
                                  NULL, 0, why);
}

static int text_lock(void *arg, char *why)
{
    return text_run(arg, function_recipe.lock, why);
}

static int text_unlock(void *arg, char *why)
{
    return text_run(arg, function_recipe.unlock, why);
}

static int message_await(struct worker *worker, char *why)
{
    struct pollfd pollfd = {.fd = PQsocket(worker->listener), .events = POLLIN};
    PGnotify *message = NULL;

    while ((message = PQnotifies(worker->listener)) == NULL)
        if (poll(&pollfd, 1, -1) != 1 || !PQconsumeInput(worker->listener))
            return bench_postgresql_failed(worker->listener, why);
    PQfreemem(message);
    return 0;
}

static int grant_lock(void *arg, char *why)
{
    struct worker *worker = arg;
    PGresult *result = run(worker, "lock");
    int queued = PQntuples(result) == 1 && strcmp(PQgetvalue(result, 0, 0), "0") == 0;

    if (!queued)
        return bench_postgresql_right(worker->conn, result, NULL, 0, why);
    PQclear(result);
    return message_await(worker, why);
}

/* The message is a transaction of its own, after the answer. */
static int grant_unlock(void *arg, char *why)
{
    struct worker *worker = arg;
    char next[64] = "", text[96];

    if (bench_postgresql_right(worker->conn, run(worker, "unlock"), next, sizeof next, why) != 0)
        return -1;
    (void)snprintf(text, sizeof text, "NOTIFY %s", next);
    return next[0] == '\0' ? 0 : bench_postgresql_do(worker->conn, text, why);
}

#define POSTGRESQL(begin_, lock_, unlock_)                                              \
    {                                                                                   \
        .prepare = postgresql_prepare, .open = bench_address_open, .close = free,       \
        .begin = (begin_), .end = postgresql_end, .lock = (lock_), .unlock = (unlock_), \
    }

const struct bench_work bench_work_postgresql_update =
    POSTGRESQL(update_begin, postgresql_lock, postgresql_unlock);
const struct bench_work bench_work_postgresql_function =
    POSTGRESQL(function_begin, postgresql_lock, postgresql_unlock);
const struct bench_work bench_work_postgresql_advisory =
    POSTGRESQL(advisory_begin, postgresql_lock, postgresql_unlock);
const struct bench_work bench_work_postgresql_fence =
    POSTGRESQL(fence_begin, postgresql_lock, postgresql_unlock);
const struct bench_work bench_work_postgresql_text = POSTGRESQL(text_begin, text_lock, text_unlock);
const struct bench_work bench_work_postgresql_grant =
    POSTGRESQL(grant_begin, grant_lock, grant_unlock);
