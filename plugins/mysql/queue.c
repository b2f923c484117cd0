/* SPDX-License-Identifier: MIT */
/*
 * Who waits sleeps in GET_LOCK, in a connection for that alone, and the server lets one of them
 * through at a time, in the order in which they came: the head. A connection says nothing while it
 * waits; once through it has to, or the server ends it after MY_HEAD_S and the next one is the
 * head. The head that gets the lock of the name keeps GET_LOCK, too, and gives both back together:
 * so the next one learns of it from the server, at once, and nobody looks in vain meanwhile. Who
 * holds the name for longer than MY_HEAD_S has somebody who looks again. The server makes the name
 * of that lock, SHA2 of ours, because it cuts names at NUL and at 64 characters.
 */
#include "queue.h"

#include <stdlib.h>
#include <string.h>

#define FOREVER_S 86400

/* Time for one word to the server, and what it has of that past the caller's deadline. */
#define EXCHANGE_NS (200 * DL_NS_PER_MS)
#define GRACE_NS    (40 * DL_NS_PER_MS)

static int64_t now_ns(const struct my_queue *queue)
{
    return queue->conn.host->now_ns(queue->conn.host->ctx);
}

static int64_t exchange_until(const struct my_queue *queue, int64_t deadline_ns)
{
    int64_t begin_ns = now_ns(queue);
    int64_t until_ns = deadline_ns > begin_ns + GRACE_NS ? deadline_ns : begin_ns + GRACE_NS;

    return until_ns < begin_ns + EXCHANGE_NS ? until_ns : begin_ns + EXCHANGE_NS;
}

void my_queue_drop(struct my_queue *queue)
{
    struct my_side *side = queue->side;

    if (queue->kept)
        my_side_keep_end(side);
    queue->conn.dead = 1; /* a wait may be going on */
    my_conn_close(&queue->conn, 0);
    free(queue->text);
    free(queue);
    if (side != NULL)
        my_side_leave(side);
}

static struct my_queue *queue_new(struct my_side *side, int64_t deadline_ns,
                                  struct dlock_error *err)
{
    struct my_queue *queue = calloc(1, sizeof *queue);

    if (queue == NULL) {
        (void)dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a connection");
        return NULL;
    }
    queue->conn.queue = 1;
    queue->conn.side = side;
    if (my_conn_open(&queue->conn, my_side_place(side), my_side_host(side), deadline_ns, err) !=
        DLOCK_OK) {
        my_queue_drop(queue);
        return NULL;
    }
    return queue;
}

struct my_queue *my_queue_take(struct my_side *side, int may_connect, int64_t deadline_ns,
                               struct dlock_error *err)
{
    struct my_queue *queue = NULL;

    while ((queue = my_side_wake(side)) != NULL) {
        queue->conn.answered_ns = 0; /* be sure to look */
        if (my_conn_enter(&queue->conn, deadline_ns, err) == DLOCK_OK)
            break;
        my_queue_drop(queue);
    }
    if (queue == NULL && may_connect)
        queue = queue_new(side, deadline_ns, err);
    if (queue != NULL) {
        queue->side = side;
        my_side_hold(side);
    }
    return queue;
}

/* "SELECT GET_LOCK(...)" for the name of a request: its bytes in hex. */
static char *text_make(const struct my_place *place, const struct dlock_request *req)
{
    char hex[2 * MY_NAME_MAX + 1];
    char *text = NULL;

    my_hex(hex, req->name, req->name_len);
    if (asprintf(&text, "SELECT GET_LOCK(SHA2(CONCAT(DATABASE(), '.%s', x'%s'), 256), %d)",
                 place->prefix, hex, FOREVER_S) < 0)
        return NULL;
    return text;
}

static enum dlock_status gone(struct my_queue *queue, struct dlock_error *err)
{
    queue->conn.dead = 1;
    return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE,
                      queue->conn.mysql != NULL ? (int32_t)mysql_errno(queue->conn.mysql) : 0,
                      "%s: GET_LOCK: %.150s", queue->conn.place->endpoint,
                      mysql_error(queue->conn.mysql));
}

/* What GET_LOCK said: 1, or it is not to be had. */
static enum dlock_status answer(struct my_queue *queue, int64_t deadline_ns,
                                struct dlock_error *err)
{
    struct my_call store = {.what = MY_STORE};
    MYSQL_ROW row = NULL;

    queue->conn.deadline_ns = exchange_until(queue, deadline_ns);
    if (queue->call.failed || my_drive(&queue->conn, &store) != DLOCK_OK || store.result == NULL)
        return gone(queue, err);
    row = mysql_num_fields(store.result) == 1 ? mysql_fetch_row(store.result) : NULL;
    queue->head = row != NULL && row[0] != NULL && row[0][0] == '1';
    mysql_free_result(store.result);
    queue->conn.answered_ns = queue->head_ns = now_ns(queue);
    return queue->head ? DLOCK_OK : gone(queue, err);
}

enum dlock_status my_queue_await(struct my_queue *queue, struct my_session *session,
                                 const struct dlock_request *req, struct dlock_error *err)
{
    const struct my_slot *slot = req->slot;
    enum dlock_status status = DLOCK_INTERNAL;

    if (queue->head)
        return DLOCK_OK;
    if (!queue->asked) {
        free(queue->text);
        queue->text = text_make(&session->place, req);
        if (queue->text == NULL)
            return dlock_fail(err, MY_ORIGIN, DLOCK_NOMEM, 0, "no memory for a query");
        queue->call = (struct my_call){.what = MY_QUERY, .text = queue->text};
        queue->asked = 1;
    }
    queue->conn.deadline_ns = req->deadline_ns;
    queue->conn.stop = &slot->stop;
    queue->conn.wake_fd = session->wake_fd - 1;
    status = my_drive_part(&queue->conn, &queue->call);
    queue->conn.stop = NULL;
    if (status == DLOCK_OK)
        status = answer(queue, req->deadline_ns, err);
    return status == DLOCK_OK ? DLOCK_BUSY : status;
}

enum dlock_status my_queue_ping(struct my_queue *queue, int64_t deadline_ns,
                                struct dlock_error *err)
{
    if (now_ns(queue) - queue->conn.answered_ns < MY_HEAD_S * DL_NS_PER_S / 3)
        return DLOCK_OK;
    queue->conn.deadline_ns = exchange_until(queue, deadline_ns);
    return my_conn_query(&queue->conn, "DO 0", err);
}

int my_queue_keep(struct my_queue *queue)
{
    queue->kept = queue->head && my_side_keep(queue->side);
    return queue->kept;
}

void my_queue_pass(struct my_queue *queue)
{
    struct dlock_error ignored = DLOCK_ERROR_INIT;

    queue->conn.answered_ns = 0; /* be sure to look: the server may have had enough */
    if (!queue->head || my_conn_enter(&queue->conn, 0, &ignored) != DLOCK_OK)
        return;
    queue->call = (struct my_call){.what = MY_QUERY, .text = "DO RELEASE_ALL_LOCKS()"};
    queue->passed = 1;
    (void)my_drive_part(&queue->conn, &queue->call);
}

void my_queue_rest(struct my_queue *queue, int64_t deadline_ns)
{
    struct my_side *side = queue->side;

    queue->conn.deadline_ns = exchange_until(queue, deadline_ns);
    if (queue->kept)
        my_side_keep_end(side);
    queue->kept = 0;
    if (!queue->passed ||
        (queue->call.pending != 0 && my_drive_part(&queue->conn, &queue->call) != DLOCK_OK) ||
        queue->call.failed) {
        my_queue_drop(queue);
        return;
    }
    queue->head = queue->asked = queue->passed = 0;
    queue->side = NULL;
    my_side_rest(side, queue);
    my_side_leave(side);
}
