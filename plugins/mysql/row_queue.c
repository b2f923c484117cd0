/* SPDX-License-Identifier: MIT */
/*
 * A waiter sleeps in GET_LOCK, in a connection for that alone. The server lets one waiter through
 * at a time, in the order of arrival: the head. A connection sends nothing while it waits. The head
 * has to send something, or the server ends its connection after MY_HEAD_S and the next waiter is
 * the head. A head that gets the lock of the name keeps GET_LOCK, too, and gives both back
 * together: so the next waiter learns of it from the server, at once, and nobody polls in vain
 * until then. If the holder keeps the name for longer than MY_HEAD_S, the next waiter polls. The
 * name of GET_LOCK's lock is SHA2 of ours, because the server cuts names at NUL and at 64
 * characters.
 */
#include "queue.h"

#include "connect.h"
#include "lib/hex.h"
#include "open.h"
#include "query.h"
#include "setup.h"

#include <stdlib.h>

#define FOREVER_S 86400

/* The most time for one exchange. */
#define EXCHANGE_NS (200 * DL_NS_PER_MS)

void my_queue_drop(struct my_queue *queue)
{
    if (queue->kept)
        my_shared_keep_end(queue->shared);
    if (queue->conn != NULL) {
        queue->conn->dead = true; /* a wait may be under way */
        my_connect_close(queue->conn);
    }
    my_shared_unref(queue->shared);
    free(queue->conn);
    free(queue->text);
    free(queue);
}

/* An idle connection that is in order, or NULL. */
static struct my_connection *idle_take(struct my_shared *shared, int64_t deadline_ns)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    struct my_connection *conn = NULL;

    while ((conn = my_shared_idle_take(shared)) != NULL) {
        conn->answered_ns = 0;
        if (my_connection_enter(conn, deadline_ns, &ignored) == DLOCK_OK)
            break;
        my_connect_close(conn);
        free(conn);
    }
    return conn;
}

static struct my_connection *connection_new(struct my_shared *shared, int64_t deadline_ns)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;
    struct my_connection *conn = calloc(1, sizeof *conn);

    if (conn == NULL)
        return NULL;
    conn->config = &shared->config;
    conn->host = shared->client.host;
    conn->tables = &shared->tables;
    conn->for_queue = true;
    if (my_open(conn, deadline_ns, &ignored) == DLOCK_OK)
        return conn;
    conn->dead = true;
    my_connect_close(conn);
    free(conn);
    return NULL;
}

struct my_queue *my_queue_take(struct my_shared *shared, bool may_connect, int64_t deadline_ns)
{
    struct my_queue *queue = calloc(1, sizeof *queue);

    if (queue == NULL)
        return NULL;
    queue->shared = shared;
    my_shared_ref(shared);
    queue->conn = idle_take(shared, deadline_ns);
    if (queue->conn == NULL && may_connect)
        queue->conn = connection_new(shared, deadline_ns);
    if (queue->conn != NULL)
        return queue;
    my_queue_drop(queue);
    return NULL;
}

char *my_queue_text(const struct my_config *config, const void *name, uint32_t name_len)
{
    char hex[2 * MY_NAME_MAX + 1];
    char *text = NULL;

    dl_hex_encode(hex, name, name_len);
    if (asprintf(&text, "SELECT GET_LOCK(SHA2(CONCAT(DATABASE(), '.%s', x'%s'), 256), %d)",
                 config->prefix, hex, FOREVER_S) < 0)
        return NULL;
    return text;
}

static enum dlock_status failed(struct my_queue *queue, struct dlock_error *err)
{
    MYSQL *mysql = queue->conn->mysql;

    queue->conn->dead = true;
    return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, (int32_t)mysql_errno(mysql),
                      "%s: GET_LOCK: %.150s", queue->conn->config->endpoint, mysql_error(mysql));
}

/* The answer of GET_LOCK: 1, or the lock cannot be had. */
static enum dlock_status answer(struct my_queue *queue, int64_t deadline_ns,
                                struct dlock_error *err)
{
    struct my_connection *conn = queue->conn;
    struct my_call store = {.kind = MY_STORE};
    MYSQL_ROW row = NULL;

    conn->deadline_ns = my_connection_exchange_until(conn, deadline_ns, EXCHANGE_NS);
    if (queue->call.failed || my_async_run(conn, &store) != DLOCK_OK || store.result == NULL)
        return failed(queue, err);
    row = mysql_num_fields(store.result) == 1 ? mysql_fetch_row(store.result) : NULL;
    queue->head = row != NULL && row[0] != NULL && row[0][0] == '1';
    mysql_free_result(store.result);
    conn->answered_ns = queue->head_ns = my_connection_now(conn);
    return queue->head ? DLOCK_OK : failed(queue, err);
}

enum dlock_status my_queue_await(struct my_queue *queue, struct my_session *session,
                                 const struct dlock_request *req, struct dlock_error *err)
{
    const struct my_slot *slot = req->attempt;
    struct my_connection *conn = queue->conn;
    enum dlock_status status = DLOCK_INTERNAL;

    if (queue->head)
        return DLOCK_OK;
    if (queue->text == NULL) {
        queue->text = my_queue_text(&session->config, req->name, req->name_len);
        if (queue->text == NULL)
            return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
        queue->call = (struct my_call){.kind = MY_QUERY, .text = queue->text};
    }
    conn->deadline_ns = req->deadline_ns;
    conn->stop = &slot->stop;
    conn->wake_fd = session->wake_fd - 1;
    status = my_async_resume(conn, &queue->call);
    conn->stop = NULL;
    if (status == DLOCK_OK)
        status = answer(queue, req->deadline_ns, err);
    return status == DLOCK_OK ? DLOCK_BUSY : status;
}

/* A busy server or client does not cost the head its entry. An end that the server has given it
 * arrives as an answer; where none can arrive, the head gives up. */
enum dlock_status my_queue_ping(struct my_queue *queue, struct dlock_error *err)
{
    struct my_connection *conn = queue->conn;
    const int64_t silent_ns = my_connection_now(conn) - conn->answered_ns;
    enum dlock_status status = DLOCK_OK;

    if (silent_ns < MY_HEAD_S * DL_NS_PER_S / 3)
        return DLOCK_OK;
    conn->deadline_ns = 0;
    status = conn->ping_wait != 0 ? my_query_catch_up(conn, err) : my_query_ping(conn, err);
    if (conn->ping_wait == 0)
        return status;
    conn->dead = silent_ns >= 2 * MY_HEAD_S * DL_NS_PER_S;
    return conn->dead ? status : DLOCK_OK;
}

bool my_queue_keep(struct my_queue *queue)
{
    queue->kept = queue->head && my_shared_keep(queue->shared);
    return queue->kept;
}

void my_queue_pass(struct my_queue *queue)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    queue->conn->answered_ns = 0; /* the server may have ended it */
    if (!queue->head || my_connection_enter(queue->conn, 0, &ignored) != DLOCK_OK ||
        my_query_catch_up(queue->conn, &ignored) != DLOCK_OK)
        return;
    queue->call = (struct my_call){.kind = MY_QUERY, .text = "DO RELEASE_ALL_LOCKS()"};
    queue->passed = true;
    (void)my_async_resume(queue->conn, &queue->call);
}

void my_queue_end(struct my_queue *queue, int64_t deadline_ns)
{
    struct my_connection *conn = queue->conn;

    conn->deadline_ns = my_connection_exchange_until(conn, deadline_ns, EXCHANGE_NS);
    if (queue->passed &&
        (queue->call.pending == 0 || my_async_resume(conn, &queue->call) == DLOCK_OK) &&
        !queue->call.failed) {
        my_shared_idle_put(queue->shared, conn);
        queue->conn = NULL;
    }
    my_queue_drop(queue);
}

void my_queue_dequeue(const struct dlock_request *req)
{
    struct my_slot *slot = req->attempt;

    if (slot->queue == NULL)
        return;
    my_queue_pass(slot->queue);
    my_queue_end(slot->queue, req->deadline_ns);
    slot->queue = NULL;
}
