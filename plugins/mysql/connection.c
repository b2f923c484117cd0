/* SPDX-License-Identifier: MIT */
#include "connection.h"

#include <sys/socket.h>

/* A connection that was silent for so long is checked before it is used. */
#define FRESH_NS (5 * DL_NS_PER_MS)

#define LEAST_NS (40 * DL_NS_PER_MS)

int64_t my_connection_exchange_until(const struct my_connection *conn, int64_t deadline_ns,
                                     int64_t most_ns)
{
    const int64_t begin_ns = my_connection_now(conn);
    const int64_t left_ns = deadline_ns - begin_ns;
    const int64_t span_ns = left_ns > LEAST_NS ? left_ns : LEAST_NS;

    return begin_ns + (span_ns < most_ns ? span_ns : most_ns);
}

static enum dlock_status closed(struct my_connection *conn, struct dlock_error *err)
{
    conn->dead = true;
    return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 2006,
                      "%s: the server closed the connection", conn->config->endpoint);
}

enum dlock_status my_connection_enter(struct my_connection *conn, int64_t deadline_ns,
                                      struct dlock_error *err)
{
    unsigned char byte;
    ssize_t got = -1;

    conn->deadline_ns = deadline_ns;
    if (conn->dead)
        return closed(conn, err);
    if (my_connection_now(conn) - conn->answered_ns < FRESH_NS || conn->ping_wait != 0)
        return DLOCK_OK;
    got = recv(conn->socket - 1, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    /* TLS has messages of its own that may lie there. Otherwise it is the server's good-bye. */
    return got == 0 || (got > 0 && !conn->tls) ? closed(conn, err) : DLOCK_OK;
}

enum dlock_status my_connection_refused(struct my_connection *conn, unsigned code, const char *text,
                                        struct dlock_error *err)
{
    enum dlock_status status = my_errmap_status(code, conn->in_transaction);

    if (my_errmap_fatal(code))
        conn->dead = true;
    if (status == DLOCK_CONFIG)
        atomic_store(&conn->tables->checked_ns, 0);
    return dlock_fail(err, MY_ORIGIN, status, (int32_t)code, "%s: %.180s", conn->config->endpoint,
                      text);
}

enum dlock_status my_connection_unanswered(struct my_connection *conn, enum dlock_status why,
                                           struct dlock_error *err)
{
    if (why == DLOCK_CANCELED)
        return dlock_fail(err, MY_ORIGIN, why, 0, "the wait was cancelled");
    return dlock_fail(err, MY_ORIGIN, conn->in_transaction ? DLOCK_UNAVAILABLE : DLOCK_UNKNOWN, 0,
                      "%s: no answer in time", conn->config->endpoint);
}

enum dlock_status my_connection_bad_reply(struct my_connection *conn, struct dlock_error *err)
{
    conn->dead = true;
    return dlock_fail(err, MY_ORIGIN, DLOCK_PROTOCOL, 0, "%s: the answer does not fit the request",
                      conn->config->endpoint);
}
