/* SPDX-License-Identifier: MIT */
#include "row_listener.h"

#include "connect.h"
#include "lib/text.h"
#include "pooler.h"
#include "query.h"
#include "row.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a message: what a waiter is told of its grant ---- */

/* "<token> <fence> <lease_ms>", then " <permit>" of a semaphore. Everybody who may connect to the
 * database can send one. */
struct message {
    unsigned char token[DLOCK_TOKEN_SIZE];
    uint64_t fence;   /* of a bigint */
    int64_t lease_ms; /* greater than 0 */
    uint32_t permit;  /* 0 without one */
};

#define TOKEN_DIGITS (2 * DLOCK_TOKEN_SIZE)
#define LEASE_MOST   UINT64_C(999999999999)
#define PERMIT_MOST  999

/* Reads a blank and a number of at most `most`, and moves *at behind them. */
static bool number_read(const char **at, uint64_t most, uint64_t *number)
{
    const char *digit = *at;

    *number = 0;
    if (*digit++ != ' ')
        return false;
    if (*digit < '0' || *digit > '9')
        return false;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        const uint64_t value = (uint64_t)(*digit - '0');

        if (*number > (most - value) / 10)
            return false;
        *number = *number * 10 + value;
    }
    *at = digit;
    return true;
}

/* False: the text is anything else. Numbers are decimal digits, without sign and blanks. */
static bool message_parse(const char *text, struct message *message)
{
    char token[TOKEN_DIGITS + 1];
    const char *at = NULL;
    uint64_t lease_ms = 0, permit = 0;

    (void)snprintf(token, sizeof token, "%s", text);
    if (!dl_hex_decode(message->token, sizeof message->token, token))
        return false;
    at = text + TOKEN_DIGITS;
    if (!number_read(&at, INT64_MAX, &message->fence) || !number_read(&at, LEASE_MOST, &lease_ms))
        return false;
    if (*at != '\0' && !number_read(&at, PERMIT_MOST, &permit))
        return false;
    message->lease_ms = (int64_t)lease_ms;
    message->permit = (uint32_t)permit;
    return *at == '\0' && lease_ms > 0;
}

/* ---- the connection that listens ---- */

#define ID_BYTES     16
#define LINGER_NS    (5 * DL_NS_PER_S) /* without a waiter */
#define PING_NS      (5 * DL_NS_PER_S) /* of silence, before a ping */
#define STUCK_NS     (2 * DL_NS_PER_S) /* without an answer to the ping */
#define IDLE_SETTING "20s"             /* of silence, before the server ends the connection */
#define RETRY_NS     DL_NS_PER_S       /* after a failure to connect, doubled for each one more */
#define RETRY_SHIFTS 5
#define DEAF_NS      (60 * DL_NS_PER_S)   /* after a pooler that loses messages was found */
#define FAIR_NS      (300 * DL_NS_PER_MS) /* with less time, a failure to connect says nothing */

static int64_t now(const struct pg_listener *listener)
{
    return listener->shared->client.host->now_ns(listener->shared->client.host->ctx);
}

/* by_leader: it reads, and needs no wake-up. */
static void deliver(struct pg_listener *listener, const char *text, bool by_leader)
{
    struct message message;
    struct pg_waiter *waiter = NULL;

    if (!message_parse(text, &message))
        return;
    (void)pthread_mutex_lock(&listener->waiters.mutex);
    waiter = (struct pg_waiter *)waiters_find_locked(&listener->waiters, message.token);
    if (waiter != NULL && !waiter->base.interrupted && message.fence > waiter->fence) {
        waiter->fence = message.fence;
        waiter->lease_ms = message.lease_ms;
        waiter->permit = message.permit;
        waiters_wake_locked(&waiter->base, !by_leader);
    }
    (void)pthread_mutex_unlock(&listener->waiters.mutex);
}

void pg_listener_deliver(struct pg_listener *listener, const char *text)
{
    deliver(listener, text, false);
}

/* ---- the leader, without the mutex ---- */

/* The server's good-bye is a message and the end of the stream, which come one after the other. */
static bool read_all(PGconn *pq)
{
    struct pollfd fd = {.fd = PQsocket(pq), .events = POLLIN};

    for (int i = 0; i < 2 && poll(&fd, 1, 0) > 0; i++)
        if (PQconsumeInput(pq) == 0)
            return false;
    return PQstatus(pq) == CONNECTION_OK;
}

/* A ping is the only statement that may run here. */
static void take_in(struct pg_listener *listener)
{
    PGconn *pq = listener->conn.pq;
    PGresult *result = NULL;
    PGnotify *message = NULL;

    listener->conn.dead = !read_all(pq);
    while ((message = PQnotifies(pq)) != NULL) {
        deliver(listener, message->extra, true);
        PQfreemem(message);
        listener->heard_ns = now(listener);
    }
    while (!listener->conn.dead && PQisBusy(pq) == 0 && (result = PQgetResult(pq)) != NULL) {
        listener->conn.dead = PQresultStatus(result) != PGRES_EMPTY_QUERY;
        PQclear(result); /* of a copy the library would give one after the other */
        listener->heard_ns = now(listener);
        listener->pinged_ns = 0;
    }
}

static int64_t due_ns(const struct pg_listener *listener)
{
    return listener->pinged_ns != 0 ? listener->pinged_ns + STUCK_NS : listener->heard_ns + PING_NS;
}

static void ping(struct pg_listener *listener)
{
    if (now(listener) < due_ns(listener))
        return;
    listener->conn.dead |= listener->pinged_ns != 0 || PQsendQuery(listener->conn.pq, "") != 1 ||
                           PQflush(listener->conn.pq) < 0;
    listener->pinged_ns = now(listener);
}

/* One statement; what the server answers does not matter. */
static enum dlock_status run(struct pg_connection *conn, const char *sql, struct dlock_error *err)
{
    PGresult *result = NULL;
    enum dlock_status status = pg_query_read(conn, sql, NULL, &result, err);

    PQclear(result);
    return status;
}

/* UNSUPPORTED: a pooler stands between that loses messages. */
static enum dlock_status pooler_check(struct pg_connection *conn, struct pg_connection *own,
                                      struct dlock_error *err)
{
    enum pg_pooler pooler = PG_POOLER_UNKNOWN;
    const int64_t own_ns = own->deadline_ns;
    enum dlock_status status = DLOCK_INTERNAL;

    own->deadline_ns = conn->deadline_ns;
    status = pg_pooler_test(conn, own, &pooler, err);
    own->deadline_ns = own_ns;
    if (status != DLOCK_OK)
        return status;
    atomic_store(&conn->shared->pooler, (int)pooler);
    if (pooler != PG_POOLER_TRANSACTION)
        return DLOCK_OK;
    return dlock_fail(err, PG_ORIGIN, DLOCK_UNSUPPORTED, 0,
                      "%s: a pooler lends sessions to transactions, and loses messages",
                      conn->config->endpoint);
}

static enum dlock_status begin(struct pg_listener *listener, struct pg_connection *own,
                               struct dlock_error *err)
{
    struct pg_connection *conn = &listener->conn;
    char sql[PG_INBOX_SIZE + 8];
    enum dlock_status status = pg_connect(conn, err);

    if (status == DLOCK_OK)
        status = pooler_check(conn, own, err);
    if (status == DLOCK_OK && !conn->pooled && PQserverVersion(conn->pq) >= 140000)
        status = run(conn, "SET idle_session_timeout = '" IDLE_SETTING "'", err);
    (void)snprintf(sql, sizeof sql, "LISTEN %s", listener->channel);
    if (status == DLOCK_OK)
        status = run(conn, sql, err);
    listener->heard_ns = now(listener);
    listener->pinged_ns = 0;
    return status;
}

static void report(struct pg_listener *listener, const struct dlock_error *err)
{
    char line[400];

    (void)snprintf(line, sizeof line, "waiters have to ask: %s", err->message);
    listener->shared->client.host->log(listener->shared->client.host->ctx, PG_SHARED_WARNING, line);
}

/* ---- leading ---- */

/* What the leader found. */
static void publish_locked(struct pg_listener *listener)
{
    bool listening = listener->conn.pq != NULL && !listener->conn.dead;

    if (listening == listener->listening)
        return;
    listener->listening = listening;
    if (!listening)
        atomic_store(&listener->idle_ns, 0);
    for (struct waiter *at = listener->waiters.first; at != NULL; at = at->next) {
        ((struct pg_waiter *)at)->recheck = true;
        waiters_wake_locked(at, false);
    }
}

static void failure_note_locked(struct pg_listener *listener, enum dlock_status status,
                                int64_t given_ns)
{
    const unsigned shifts = listener->failures < RETRY_SHIFTS ? listener->failures : RETRY_SHIFTS;
    const int64_t now_ns = now(listener);

    if (status == DLOCK_OK) {
        listener->failures = 0;
        listener->reported = false;
    } else if (status == DLOCK_UNSUPPORTED) {
        listener->retry_ns = now_ns + DEAF_NS;
    } else if (status != DLOCK_CANCELED) {
        const bool says_nothing = status == DLOCK_UNAVAILABLE && given_ns < FAIR_NS;

        listener->retry_ns = now_ns + (says_nothing ? RETRY_NS / 20 : RETRY_NS << shifts);
        listener->failures += !says_nothing;
    }
}

/* Led, without the mutex; ends with it. */
static void connect_and_lock(struct pg_listener *listener, struct pg_connection *own,
                             const atomic_int *stop, int64_t until_ns)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    const int64_t given_ns = until_ns - now(listener);
    enum dlock_status status = DLOCK_INTERNAL;
    bool first = false;

    listener->conn = (struct pg_connection){
        .config = own->config,
        .host = own->host,
        .shared = listener->shared,
        .for_messages = true,
        .wake_fd = listener->waiters.wake_fd,
        .stop = stop,
        .deadline_ns = until_ns,
    };
    status = begin(listener, own, &err);
    listener->conn.stop = NULL;
    listener->conn.config = &listener->shared->config;
    if (status != DLOCK_OK)
        pg_connect_close(&listener->conn);
    (void)pthread_mutex_lock(&listener->waiters.mutex);
    failure_note_locked(listener, status, given_ns);
    for (struct waiter *at = listener->waiters.first; at != NULL && status != DLOCK_CANCELED;
         at = at->next)
        waiters_wake_locked(at, false); /* they poll now */
    first = !listener->reported && (status == DLOCK_UNSUPPORTED || listener->failures > 0);
    listener->reported |= first;
    if (!first)
        return;
    (void)pthread_mutex_unlock(&listener->waiters.mutex);
    report(listener, &err);
    (void)pthread_mutex_lock(&listener->waiters.mutex);
}

/* Led, without the mutex; ends with it. */
static void read_and_lock(struct pg_listener *listener, int64_t until_ns)
{
    if (due_ns(listener) < until_ns)
        until_ns = due_ns(listener);
    if (waiters_await(&listener->waiters, PQsocket(listener->conn.pq), until_ns - now(listener)))
        take_in(listener);
    if (!listener->conn.dead)
        ping(listener);
    if (listener->conn.dead)
        pg_connect_close(&listener->conn);
    (void)pthread_mutex_lock(&listener->waiters.mutex);
}

void pg_listener_sleep_locked(struct pg_listener *listener, struct waiter *waiter,
                              struct pg_connection *own, const atomic_int *stop, int64_t until_ns)
{
    const int64_t now_ns = now(listener);
    const bool may_connect = now_ns >= listener->retry_ns;

    if (!waiters_lead_or_sleep_locked(waiter, until_ns - now_ns))
        return;
    (void)pthread_mutex_unlock(&listener->waiters.mutex);
    if (listener->conn.pq != NULL) {
        read_and_lock(listener, until_ns);
    } else if (may_connect) {
        connect_and_lock(listener, own, stop, until_ns);
    } else {
        (void)waiters_await(&listener->waiters, -1, until_ns - now_ns);
        (void)pthread_mutex_lock(&listener->waiters.mutex);
    }
    publish_locked(listener);
    waiters_led_locked(waiter);
}

void pg_listener_catch_up_locked(struct pg_listener *listener)
{
    if (!listener->listening || !waiters_lead_locked(&listener->waiters))
        return;
    (void)pthread_mutex_unlock(&listener->waiters.mutex);
    take_in(listener);
    if (listener->conn.dead)
        pg_connect_close(&listener->conn);
    (void)pthread_mutex_lock(&listener->waiters.mutex);
    publish_locked(listener);
    listener->waiters.led = false;
    waiters_hand_over_locked(&listener->waiters);
}

void pg_listener_tidy(struct pg_listener *listener)
{
    int64_t idle_ns = atomic_load(&listener->idle_ns);
    struct waiters *waiters = &listener->waiters;

    if (idle_ns == -1)
        (void)atomic_compare_exchange_strong(&listener->idle_ns, &idle_ns, now(listener));
    if (idle_ns <= 0 || now(listener) - idle_ns < LINGER_NS)
        return;
    (void)pthread_mutex_lock(&waiters->mutex);
    if (atomic_load(&listener->idle_ns) == idle_ns && waiters_lead_locked(waiters)) {
        (void)pthread_mutex_unlock(&waiters->mutex);
        pg_connect_close(&listener->conn);
        (void)pthread_mutex_lock(&waiters->mutex);
        publish_locked(listener);
        waiters->led = false;
        waiters_hand_over_locked(waiters);
    }
    (void)pthread_mutex_unlock(&waiters->mutex);
}

/* ---- waiters ---- */

/* Messages arrive, or the next sleep tries to make a connection for them. */
static bool hears_locked(const struct pg_listener *listener)
{
    return listener->listening || now(listener) >= listener->retry_ns;
}

/* Where to send messages for this client; NULL: none would arrive now. */
static const char *inbox_locked(const struct pg_listener *listener)
{
    return hears_locked(listener) ? listener->channel : NULL;
}

void pg_listener_add_locked(struct pg_listener *listener, struct pg_waiter *waiter,
                            const unsigned char *token)
{
    waiters_add_locked(&listener->waiters, &waiter->base, token);
    waiter->listener = listener;
    waiter->since_ns = now(listener);
    listener->count++;
    atomic_store(&listener->idle_ns, 0);
}

/* No session need be open. */
static void waiter_remove(struct pg_waiter *waiter)
{
    struct pg_listener *listener = waiter->listener;

    (void)pthread_mutex_lock(&listener->waiters.mutex);
    waiters_remove_locked(&waiter->base);
    listener->count--;
    if (listener->count == 0 && listener->listening)
        atomic_store(&listener->idle_ns, -1);
    (void)pthread_mutex_unlock(&listener->waiters.mutex);
}

/* ---- the begin and the end ---- */

static void listener_free(struct pg_listener *listener)
{
    if (listener->conn.pq != NULL)
        pg_connect_close(&listener->conn);
    waiters_fini(&listener->waiters);
    free(listener);
}

/* Takes no mutex, frees nothing. What a thread of the parent was making is left alone. */
static void listener_after_fork(struct pg_listener *listener)
{
    if (listener->listening)
        pg_connect_after_fork(&listener->conn);
    waiters_after_fork(&listener->waiters);
}

static struct pg_listener *listener_new(struct pg_shared *shared)
{
    static const char prefix[] = "dlock_";
    struct pg_listener *listener = calloc(1, sizeof *listener);
    unsigned char id[ID_BYTES];

    if (listener == NULL)
        return NULL;
    listener->shared = shared;
    if (!waiters_init(&listener->waiters) ||
        shared->client.host->random(shared->client.host->ctx, id, sizeof id) != 0) {
        listener_free(listener);
        return NULL;
    }
    memcpy(listener->channel, prefix, sizeof prefix);
    dl_hex_encode(listener->channel + sizeof prefix - 1, id, sizeof id);
    return listener;
}

struct pg_listener *pg_listener_get(struct pg_shared *shared)
{
    struct pg_listener *listener = atomic_load(&shared->listener), *fresh = NULL;

    if (listener != NULL)
        return listener;
    fresh = listener_new(shared);
    if (fresh == NULL)
        return NULL;
    atomic_store(&shared->listener_free, listener_free);
    atomic_store(&shared->listener_after_fork, listener_after_fork);
    if (atomic_compare_exchange_strong(&shared->listener, &listener, fresh))
        return fresh;
    listener_free(fresh);
    return listener;
}

/* ---- an attempt that waits ---- */

enum dlock_status pg_waiter_expect(struct pg_shared *shared, const struct dlock_request *req,
                                   const char **to, struct dlock_error *err)
{
    struct pg_listener *listener = pg_listener_get(shared);
    struct pg_slot *slot = req->attempt;
    struct pg_waiter *waiter = slot->waiter;

    if (listener != NULL && waiter == NULL)
        waiter = calloc(1, sizeof *waiter);
    if (waiter == NULL || listener == NULL)
        return dlock_fail(err, PG_ORIGIN, DLOCK_NOMEM, 0,
                          "no memory, no descriptor for an event, or no random bytes");
    pg_listener_tidy(listener);
    (void)pthread_mutex_lock(&listener->waiters.mutex);
    if (slot->waiter == NULL) {
        pg_shared_ref(shared);
        pg_listener_add_locked(listener, waiter, req->token);
        waiter->base.interrupted = atomic_load(&slot->stop) != 0;
        waiter->base.number = req->waiter;
        slot->waiter = waiter;
    }
    pg_listener_catch_up_locked(listener);
    waiter->unheard = !listener->listening;
    waiter->recheck = false;
    waiters_news_clear_locked(&waiter->base);
    *to = inbox_locked(listener);
    (void)pthread_mutex_unlock(&listener->waiters.mutex);
    return DLOCK_OK;
}

bool pg_waiter_queued(struct pg_slot *slot, uint64_t counter)
{
    struct pg_waiter *waiter = slot->waiter;
    struct pg_listener *listener = waiter != NULL ? waiter->listener : NULL;
    bool hears = false;

    if (listener == NULL)
        return false;
    (void)pthread_mutex_lock(&listener->waiters.mutex);
    waiter->counter = counter;
    hears = hears_locked(listener);
    (void)pthread_mutex_unlock(&listener->waiters.mutex);
    return hears;
}

void pg_waiter_free(struct pg_slot *slot)
{
    struct pg_waiter *waiter = slot->waiter;
    struct pg_shared *shared = waiter != NULL ? waiter->listener->shared : NULL;

    slot->waiter = NULL;
    if (waiter == NULL)
        return;
    waiter_remove(waiter);
    free(waiter);
    pg_shared_unref(shared);
}

void pg_row_forget(void *self, const struct dlock_request *req)
{
    (void)self;
    pg_waiter_free(req->attempt);
}
