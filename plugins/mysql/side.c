/* SPDX-License-Identifier: MIT */
/*
 * What a client has once [HST-1]. Strategy session: the second connection. What is written in the
 * session that holds the row lock is undone when that session dies, and a fence must not be; and
 * who waits for the row cannot cancel the wait in the same session. One connection serves all
 * sessions, one at a time. Strategies row and insert: the queue sessions that nobody waits in.
 */
#include "queue.h"

#include <stdlib.h>

/* What a caller in a hurry gives others time for all the same: a connection that is cut for one
 * caller's deadline has to be made again for the next. */
#define LEAST_NS (60 * DL_NS_PER_MS)

/* A look at the tables costs the server milliseconds; many connections are made at once. */
#define CHECK_NS (5 * DL_NS_PER_S)

/* Queue sessions that rested for so long are given back, like core's idle ones, with which they go:
 * when one of those is closed. */
#define REST_NS (60 * DL_NS_PER_S)

/* Connections that a client has in its locks, and not only in its waits. */
#define KEPT_MOST 16

struct my_side {
    struct my_side *next;
    const struct dlock_host *host; /* the key */
    unsigned users;
    struct my_place place;
    pthread_mutex_t mutex; /* of busy; never held across I/O */
    pthread_cond_t freed;
    int busy; /* somebody has conn and connected */
    struct my_conn conn;
    int connected;
    struct my_queue *resting; /* under the registry's mutex */
    int kept;                 /* queue sessions, by holders; the same */
    _Atomic int64_t checked_ns;
};

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER; /* sides, users, resting; a leaf */
static struct my_side *sides;
static struct my_side *inherited; /* in a child: of no use any more */

static void registry_lock(void)
{
    (void)pthread_mutex_lock(&registry);
}

static void registry_unlock(void)
{
    (void)pthread_mutex_unlock(&registry);
}

/* A child may open a client of its own, at the address of the one that it inherited, too. */
static void registry_abandon(void)
{
    while (sides != NULL) {
        struct my_side *side = sides;

        my_conn_close(&side->conn, 1);
        for (struct my_queue *queue = side->resting; queue != NULL; queue = queue->next)
            my_conn_close(&queue->conn, 1);
        sides = side->next;
        side->next = inherited;
        inherited = side;
    }
    registry_unlock();
}

int my_side_init(void)
{
    return pthread_atfork(registry_lock, registry_unlock, registry_abandon);
}

static struct my_side *side_new(const struct my_place *place, const struct dlock_host *host)
{
    struct my_side *side = calloc(1, sizeof *side);

    if (side == NULL)
        return NULL;
    (void)pthread_mutex_init(&side->mutex, NULL);
    (void)dl_deadline_cond_init(&side->freed);
    side->host = host;
    side->place = *place;
    side->next = sides;
    sides = side;
    return side;
}

struct my_side *my_side_join(const struct my_place *place, const struct dlock_host *host)
{
    struct my_side *side = NULL;

    registry_lock();
    for (side = sides; side != NULL && side->host != host; side = side->next)
        ;
    if (side == NULL)
        side = side_new(place, host);
    if (side != NULL)
        side->users++;
    registry_unlock();
    return side;
}

void my_side_hold(struct my_side *side)
{
    registry_lock();
    side->users++;
    registry_unlock();
}

static void queues_drop(struct my_queue *queue)
{
    while (queue != NULL) {
        struct my_queue *next = queue->next;

        my_queue_drop(queue);
        queue = next;
    }
}

/* The one that rests since the latest is the first. Under the registry's mutex. */
static struct my_queue *rested(struct my_side *side)
{
    const int64_t now_ns = side->host->now_ns(side->host->ctx);
    struct my_queue **at = &side->resting, *old = NULL;

    while (*at != NULL && now_ns - (*at)->rest_ns < REST_NS)
        at = &(*at)->next;
    old = *at;
    *at = NULL;
    return old;
}

void my_side_leave(struct my_side *side)
{
    struct my_side **link = &sides;
    struct my_queue *old = NULL;
    int last = 0;

    registry_lock();
    last = --side->users == 0;
    old = last ? side->resting : rested(side);
    while (last && *link != side)
        link = &(*link)->next;
    if (last)
        *link = side->next;
    registry_unlock();
    queues_drop(old);
    if (!last)
        return;
    my_conn_close(&side->conn, 0);
    (void)pthread_cond_destroy(&side->freed);
    (void)pthread_mutex_destroy(&side->mutex);
    free(side);
}

int my_side_checked(const struct my_side *side)
{
    int64_t checked_ns = atomic_load(&side->checked_ns);

    return checked_ns != 0 && side->host->now_ns(side->host->ctx) - checked_ns < CHECK_NS;
}

void my_side_check(struct my_side *side)
{
    atomic_store(&side->checked_ns, side->host->now_ns(side->host->ctx));
}

void my_side_uncheck(struct my_side *side)
{
    atomic_store(&side->checked_ns, 0);
}

const struct my_place *my_side_place(const struct my_side *side)
{
    return &side->place;
}

const struct dlock_host *my_side_host(const struct my_side *side)
{
    return side->host;
}

struct my_queue *my_side_wake(struct my_side *side)
{
    struct my_queue *queue = NULL;

    registry_lock();
    queue = side->resting;
    if (queue != NULL)
        side->resting = queue->next;
    registry_unlock();
    return queue;
}

void my_side_rest(struct my_side *side, struct my_queue *queue)
{
    queue->rest_ns = side->host->now_ns(side->host->ctx);
    registry_lock();
    queue->next = side->resting;
    side->resting = queue;
    registry_unlock();
}

int my_side_keep(struct my_side *side)
{
    int may = 0;

    registry_lock();
    may = side->kept < KEPT_MOST;
    side->kept += may;
    registry_unlock();
    return may;
}

void my_side_keep_end(struct my_side *side)
{
    registry_lock();
    side->kept--;
    registry_unlock();
}

/* 0: conn is ours. */
static int conn_take(struct my_side *side, int64_t deadline_ns)
{
    int failed = 0;

    (void)pthread_mutex_lock(&side->mutex);
    while (side->busy && side->host->now_ns(side->host->ctx) < deadline_ns)
        dl_deadline_cond_wait(&side->freed, &side->mutex,
                              deadline_ns - side->host->now_ns(side->host->ctx));
    failed = side->busy;
    side->busy = 1;
    (void)pthread_mutex_unlock(&side->mutex);
    return failed;
}

static void conn_give(struct my_side *side)
{
    (void)pthread_mutex_lock(&side->mutex);
    side->busy = 0;
    (void)pthread_cond_signal(&side->freed);
    (void)pthread_mutex_unlock(&side->mutex);
}

enum dlock_status my_side_begin(struct my_side *side, int64_t deadline_ns, struct my_conn **conn,
                                struct dlock_error *err)
{
    int64_t now_ns = side->host->now_ns(side->host->ctx);
    int64_t left_ns = deadline_ns - now_ns > LEAST_NS ? deadline_ns - now_ns : LEAST_NS;
    enum dlock_status status = DLOCK_INTERNAL;

    if (conn_take(side, now_ns + left_ns) != 0)
        return dlock_fail(err, MY_ORIGIN, DLOCK_UNAVAILABLE, 0, "%s: the second connection is busy",
                          side->place.endpoint);
    side->conn.answered_ns = 0; /* be sure to look: others may have had reason to end it */
    if (side->connected)
        status = my_conn_enter(&side->conn, now_ns + left_ns, err);
    if (status != DLOCK_OK) {
        my_conn_close(&side->conn, 0);
        side->conn = (struct my_conn){.side = side};
        status = my_conn_open(&side->conn, &side->place, side->host, now_ns + left_ns, err);
        side->connected = status == DLOCK_OK;
    }
    *conn = &side->conn;
    if (status != DLOCK_OK)
        my_side_end(side);
    return status;
}

void my_side_end(struct my_side *side)
{
    if (side->conn.dead || !side->connected) {
        my_conn_close(&side->conn, 0);
        side->conn = (struct my_conn){.side = side};
        side->connected = 0;
    }
    conn_give(side);
}
