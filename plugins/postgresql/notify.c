/* SPDX-License-Identifier: MIT */
#include "notify.h"

#include "row_listener.h"
#include "statements.h"

#include <stdlib.h>
#include <string.h>

static const char send_all[] =
    "SELECT pg_notify(split_part(w, ' ', 1), substr(w, strpos(w, ' ') + 1)) "
    "FROM unnest(string_to_array($1, E'\\n')) w";

/* Wakes the waiters of this client, and removes their lines. */
static void deliver_here(struct pg_listener *listener, char *lines)
{
    const size_t len = strlen(listener->channel);
    char *to = lines, *next = lines;

    while (next != NULL) {
        char *line = next;

        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        if (strncmp(line, listener->channel, len) == 0 && line[len] == ' ') {
            pg_listener_deliver(listener, line + len + 1);
            continue;
        }
        if (to != lines)
            *to++ = '\n';
        memmove(to, line, strlen(line) + 1);
        to += strlen(to);
    }
    *to = '\0';
}

static void report(const struct pg_connection *conn, const struct dlock_error *err)
{
    char line[400];

    if (atomic_exchange(&conn->shared->notify_reported, true))
        return;
    (void)snprintf(line, sizeof line, "a waiter was granted a name and has to ask for it: %s",
                   err->message);
    conn->host->log(conn->host->ctx, PG_SHARED_WARNING, line);
}

/* Cuts a single line at its first blank. */
static void send_others(struct pg_connection *conn, char *lines)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct pg_params params = {.count = 0};
    const int64_t deadline_ns = conn->deadline_ns;
    char *blank = strchr(lines, '\n') == NULL ? strchr(lines, ' ') : NULL;
    PGresult *result = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    conn->deadline_ns = pg_connection_extend(conn, deadline_ns);
    pg_params_text(&params, lines);
    if (blank != NULL) {
        *blank = '\0';
        pg_params_text(&params, blank + 1);
        status = pg_statements_run(conn, PG_NOTIFY, &params, 1, &result, &err);
    } else {
        status = pg_query(conn, send_all, &params, &result, &err);
    }
    if (status != DLOCK_OK)
        report(conn, &err);
    PQclear(result);
    conn->deadline_ns = deadline_ns;
}

/* The lines of all rows; NULL: there are none, or there is no memory. */
static char *lines_of(const PGresult *result)
{
    const int column = PQfnumber(result, "wake");
    char *lines = NULL, *at = NULL;
    size_t size = 0;

    for (int row = 0; column >= 0 && row < PQntuples(result); row++)
        size += PQgetisnull(result, row, column) ? 0 : (size_t)PQgetlength(result, row, column) + 1;
    lines = at = size > 0 ? malloc(size) : NULL;
    for (int row = 0; lines != NULL && row < PQntuples(result); row++) {
        const size_t len = (size_t)PQgetlength(result, row, column);

        if (PQgetisnull(result, row, column))
            continue;
        if (at != lines)
            at[-1] = '\n';
        memcpy(at, PQgetvalue(result, row, column), len + 1);
        at += len + 1;
    }
    return lines;
}

/* sent: the message is sent, if it is one line. True: some waiter was granted. */
static bool send_lines(struct pg_connection *conn, const PGresult *result, bool sent)
{
    struct pg_listener *listener = atomic_load(&conn->shared->listener);
    char *lines = lines_of(result);
    const bool some = lines != NULL && lines[0] != '\0';

    sent = sent && some && strchr(lines, '\n') == NULL;
    if (listener != NULL)
        pg_listener_tidy(listener);
    if (lines != NULL && listener != NULL)
        deliver_here(listener, lines);
    if (lines != NULL && lines[0] != '\0' && !sent)
        send_others(conn, lines);
    free(lines);
    return some;
}

void pg_notify_send(struct pg_connection *conn, const PGresult *result)
{
    (void)send_lines(conn, result, false);
}

/* Waiters of this client need no message. */
static enum dlock_status pass(struct pg_connection *conn, const struct pg_params *params,
                              PGresult **result, bool *sent, struct dlock_error *err)
{
    const struct pg_listener *listener = atomic_load(&conn->shared->listener);
    struct pg_params tell = {.count = 0};

    pg_params_text(&tell, listener != NULL ? listener->channel : " ");
    return pg_statements_pass(conn, params, &tell, result, sent, err);
}

enum dlock_status pg_notify_release(struct pg_connection *conn, const struct pg_params *params,
                                    PGresult **result, struct dlock_error *err)
{
    bool sent = false;
    enum dlock_status status = DLOCK_UNSUPPORTED;

    if (conn->passes)
        status = pass(conn, params, result, &sent, err);
    if (status == DLOCK_UNSUPPORTED)
        status = pg_statements_run(conn, PG_RELEASE, params, 1, result, err);
    if (status == DLOCK_OK)
        conn->passes = send_lines(conn, *result, sent);
    return status;
}
