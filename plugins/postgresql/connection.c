/* SPDX-License-Identifier: MIT */
#include "connection.h"

#include "lib/deadline_cond.h"

#include <poll.h>
#include <sched.h>
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
