/* SPDX-License-Identifier: MIT */
#include "connection.h"

#include "lib/time.h"

#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A connection that was silent for so long is checked before it is used. */
#define FRESH_NS (5 * DL_NS_PER_MS)

static enum dlock_status closed(struct pg_connection *conn, struct dlock_error *err)
{
    conn->dead = true;
    return dlock_fail(err, PG_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s: the server closed the connection",
                      conn->config->endpoint);
}

/* The server's good-bye is a message and the end of the stream. */
static bool is_closed(struct pg_connection *conn)
{
    struct pollfd fd = {.fd = PQsocket(conn->pq), .events = POLLIN};

    for (int i = 0; i < 2 && poll(&fd, 1, 0) > 0; i++)
        if (PQconsumeInput(conn->pq) == 0)
            return true;
    return PQstatus(conn->pq) != CONNECTION_OK;
}

enum dlock_status pg_connection_enter(struct pg_connection *conn, int64_t deadline_ns,
                                      struct dlock_error *err)
{
    conn->deadline_ns = deadline_ns;
    if (conn->dead || conn->pq == NULL)
        return closed(conn, err);
    if (pg_connection_now(conn) - conn->answered_ns < FRESH_NS)
        return DLOCK_OK;
    return is_closed(conn) ? closed(conn, err) : DLOCK_OK;
}

/* Takes a stale wake-up, or the one of an interrupt. */
static void wake_take(const struct pg_connection *conn)
{
    uint64_t sum = 0;
    ssize_t got = read(conn->wake_fd, &sum, sizeof sum);

    (void)got;
}

/* The number of descriptors that are ready; 0: none was ready soon. */
static int spin_for(struct pg_connection *conn, struct pollfd fds[2])
{
    int count = 0;

    while (count == 0 && spin_more(&conn->spin, pg_connection_now(conn))) {
        (void)sched_yield();
        count = poll(fds, 2, 0);
    }
    return count;
}

static bool is_stopped(const struct pg_connection *conn)
{
    return conn->stop != NULL && atomic_load(conn->stop) != 0;
}

static enum dlock_status sleep_for(struct pg_connection *conn, short events)
{
    struct pollfd fds[2] = {{.fd = PQsocket(conn->pq), .events = events},
                            {.fd = conn->stop != NULL ? conn->wake_fd : -1, .events = POLLIN}};

    for (;;) {
        int64_t left_ns = conn->deadline_ns - pg_connection_now(conn);
        const struct timespec left =
            dl_deadline_cond_slice(left_ns); /* if it is over, what has arrived counts */
        int count = 0;

        if (is_stopped(conn))
            return DLOCK_CANCELED;
        count = spin_for(conn, fds);
        if (count == 0)
            count = ppoll(fds, 2, &left, NULL);
        if (count > 0 && fds[0].revents != 0)
            return DLOCK_OK;
        if (left_ns <= 0 && count == 0)
            return DLOCK_TIMEOUT;
        if (count > 0)
            wake_take(conn);
    }
}

enum dlock_status pg_connection_wait(struct pg_connection *conn, short events)
{
    enum dlock_status status = DLOCK_INTERNAL;

    /* Other answers do not tell how long another owner holds a lock. Where waiters stand, a thread
     * that polls takes the processor from those who hand the name on. */
    if (conn->long_wait || conn->passes || conn->spin.processors < 2)
        return sleep_for(conn, events);
    spin_begin(&conn->spin, pg_connection_now(conn));
    status = sleep_for(conn, events);
    spin_end(&conn->spin, pg_connection_now(conn), status == DLOCK_OK);
    return status;
}

enum dlock_status pg_connection_bad_reply(struct pg_connection *conn, struct dlock_error *err)
{
    conn->dead = true;
    return dlock_fail(err, PG_ORIGIN, DLOCK_PROTOCOL, 0, "%s: the answer does not fit the request",
                      conn->config->endpoint);
}

/* ---- errors of the server ---- */

#define STATE_LEN 5

int32_t pg_connection_error_code(const char *state)
{
    int32_t code = 0;

    if (state == NULL || strlen(state) != STATE_LEN)
        return 0;
    for (int i = 0; i < STATE_LEN; i++)
        code |= (int32_t)((state[i] - '0') & 0x3F) << (6 * i);
    return code;
}

static bool is_one_of(const char *state, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strncmp(state, *list, strlen(*list)) == 0)
            return true;
    return false;
}

/* Beginnings of states. */
static const char *const contention[] = {"40001", "40P01", "55P03", "23505", NULL};
static const char *const refused[] = {"28", "42501", "0LP01", "0P000", NULL};
static const char *const wrong[] = {"42", "3D", "3F", "22", "23", "0A", "26", "P0", "2F", NULL};
/* They end the session before a statement begins, or inside a transaction. */
static const char *const before[] = {"57P05", "25P03", "25P04", "57P03", "57P04", "53300", NULL};

bool pg_connection_is_contention(int32_t code)
{
    for (size_t i = 0; contention[i] != NULL; i++)
        if (code == pg_connection_error_code(contention[i]))
            return true;
    return false;
}

enum dlock_status pg_connection_error_status(const char *state, bool fatal)
{
    if (state == NULL)
        return DLOCK_UNKNOWN;
    if (is_one_of(state, contention))
        return DLOCK_UNAVAILABLE;
    if (is_one_of(state, refused))
        return DLOCK_AUTH;
    if (is_one_of(state, wrong))
        return DLOCK_CONFIG;
    if (is_one_of(state, before))
        return DLOCK_UNAVAILABLE;
    /* 08: a pooler that lost its server in the middle of a statement */
    if (fatal || strncmp(state, "08", 2) == 0 || strcmp(state, "57P01") == 0 ||
        strcmp(state, "57P02") == 0 || strcmp(state, "40003") == 0)
        return DLOCK_UNKNOWN;
    return DLOCK_UNAVAILABLE;
}

struct phrase {
    const char *text;
    enum dlock_status status;
};

/* Of the library and of pgbouncer, in English: the library's calls run in the locale "C". */
static const struct phrase phrases[] = {
    {"could not read root certificate", DLOCK_INVALID},
    {"could not read certificate file", DLOCK_INVALID},
    {"private key file", DLOCK_INVALID},
    {"root certificate file", DLOCK_INVALID},
    {"server does not support SSL", DLOCK_CONFIG},
    {"unsupported startup parameter", DLOCK_CONFIG},
    {"no such database", DLOCK_CONFIG},
    {"certificate", DLOCK_AUTH}, /* ours, or the server's */
    {"alert unknown ca", DLOCK_AUTH},
    {"no password supplied", DLOCK_AUTH},
    {"no such user", DLOCK_AUTH},
    {"password authentication failed", DLOCK_AUTH},
    {"auth failed", DLOCK_AUTH},
    {"authentication method", DLOCK_AUTH},
    {"invalid response to SSL negotiation", DLOCK_PROTOCOL},
    {"expected authentication request", DLOCK_PROTOCOL},
    {"invalid authentication request", DLOCK_PROTOCOL}, /* libpq 17 */
    {"out of memory", DLOCK_NOMEM},
};

enum dlock_status pg_connection_login_status(const char *state, const char *text)
{
    if (state != NULL && strncmp(state, "08", 2) != 0) {
        enum dlock_status status = pg_connection_error_status(state, false);

        return status == DLOCK_UNKNOWN ? DLOCK_UNAVAILABLE : status;
    }
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++)
        if (strstr(text, phrases[i].text) != NULL)
            return phrases[i].status;
    return DLOCK_UNAVAILABLE;
}

/* ---- what the sessions of a client share ---- */

static struct pg_shared *shared_of(struct client *client)
{
    return (struct pg_shared *)(void *)client;
}

static struct client *shared_make(const struct dlock_host *host, const void *config)
{
    struct pg_shared *shared = calloc(1, sizeof *shared);

    (void)host;
    if (shared == NULL)
        return NULL;
    shared->config = *(const struct pg_config *)config;
    return &shared->client;
}

static void shared_after_fork(struct client *client)
{
    struct pg_shared *shared = shared_of(client);
    struct pg_listener *listener = atomic_load(&shared->listener);

    if (listener != NULL)
        shared->listener_after_fork(listener);
}

static struct clients clients = {.make = shared_make, .after_fork = shared_after_fork};

bool pg_shared_init(void)
{
    return clients_init(&clients);
}

struct pg_shared *pg_shared_find(const struct pg_config *config, const struct dlock_host *host)
{
    return shared_of(clients_find(&clients, host, config));
}

void pg_shared_ref(struct pg_shared *shared)
{
    clients_ref(&shared->client);
}

void pg_shared_unref(struct pg_shared *shared)
{
    struct pg_listener *listener = NULL;

    if (!clients_unref(&clients, &shared->client))
        return;
    listener = atomic_load(&shared->listener);
    if (listener != NULL)
        shared->listener_free(listener);
    free(atomic_load(&shared->texts));
    free(shared);
}

bool pg_shared_is_checked(const struct pg_shared *shared, int64_t now_ns)
{
    const int64_t checked_ns = atomic_load(&shared->checked_ns);

    return checked_ns != 0 && now_ns - checked_ns < PG_SHARED_CHECK_NS;
}
