/* SPDX-License-Identifier: MIT */
/* The connection of a client that grants arrive on. */
#include "hub_private.h"
#include "lib/deadline_cond.h"
#include "lib/time.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRY_NS   (DL_NS_PER_S / 2) /* and up to as much again, by chance */
#define LASTS_NS   DL_NS_PER_S       /* else a subscription ended soon */
#define PING_NS    (5 * DL_NS_PER_S) /* a subscriber that hears nothing for so long asks */
#define STUCK_NS   (2 * DL_NS_PER_S) /* and is told so late, or the connection is over */
#define CHUNK_SIZE 4096
#define DRAIN_MOST 16 /* chunks; a flood is left to those who watch */

static int64_t now(const struct redis_hub *hub)
{
    return hub->host->now_ns(hub->host->ctx);
}

void redis_hub_hand_over(struct redis_hub *hub)
{
    struct redis_waiter *next = hub->waiters;

    while (next != NULL && !next->watching)
        next = next->next;
    if (next != NULL && !hub->reading)
        (void)pthread_cond_signal(&next->wake);
}

static void wake_all(struct redis_hub *hub)
{
    for (struct redis_waiter *waiter = hub->waiters; waiter != NULL; waiter = waiter->next)
        if (waiter->watching)
            (void)pthread_cond_signal(&waiter->wake);
}

static int64_t retry_at(const struct redis_hub *hub)
{
    uint32_t chance = 0;

    (void)hub->host->random(hub->host->ctx, &chance, sizeof chance);
    return now(hub) + RETRY_NS + chance % RETRY_NS;
}

/* With the mutex held, and the link ours. What ends soon twice in a row may do so always. */
static void went_down(struct redis_hub *hub, const char *why)
{
    bool soon = hub->up && now(hub) - hub->up_ns < LASTS_NS;

    if (soon && hub->ended_soon)
        hub->retry_ns = retry_at(hub);
    hub->ended_soon = soon;
    (void)snprintf(hub->why, sizeof hub->why, "%s", why);
    redis_link_close(&hub->link);
    hub->up = false;
    wake_all(hub); /* what arrived nowhere has to be asked for */
}

/* ---- messages ---- */

/* "<token> <fence> <lease>" for one of ours, or for one who has gone. */
static void granted(struct redis_hub *hub, const char *text)
{
    struct redis_waiter *waiter = hub->waiters;
    const size_t token_len = RESP_HEX_SIZE - 1;
    char *end = NULL;
    uint64_t fence = 0;
    int64_t lease_ms = 0;

    if (strcspn(text, " ") != token_len || text[token_len] != ' ')
        return;
    fence = strtoull(text + token_len + 1, &end, 10);
    if (*end != ' ')
        return;
    lease_ms = strtoll(end + 1, &end, 10);
    while (waiter != NULL && strncmp(waiter->token, text, token_len) != 0)
        waiter = waiter->next;
    if (*end != '\0' || waiter == NULL || waiter->interrupted || fence <= waiter->fence ||
        lease_ms <= 0 || lease_ms > RESP_LEASE_MAX_MS)
        return;
    waiter->fence = fence;
    waiter->lease_ms = lease_ms;
    if (waiter->watching && !waiter->reading)
        (void)pthread_cond_signal(&waiter->wake);
}

/* A server that refuses the ping is alive, too. */
static bool is_pong(const struct redis_hub *hub, const redisReply *reply)
{
    const redisReply *kind = resp_reply_array(reply, 2) ? resp_reply_text(reply, 0) : NULL;

    return hub->pinged_ns != 0 &&
           (reply->type == REDIS_REPLY_ERROR || (kind != NULL && strcmp(kind->str, "pong") == 0));
}

/* False: not what a subscriber is told. */
static bool message_take(struct redis_hub *hub, const redisReply *reply)
{
    const redisReply *kind = NULL, *text = NULL;

    if (is_pong(hub, reply)) {
        hub->pinged_ns = 0;
        return true;
    }
    if (!resp_reply_array(reply, 3))
        return false;
    kind = resp_reply_text(reply, 0);
    text = resp_reply_text(reply, 2);
    if (kind == NULL || strcmp(kind->str, "message") != 0 || text == NULL)
        return false;
    granted(hub, text->str);
    return true;
}

/* Takes what was fed. With the mutex held: nothing here waits. */
static bool messages_take(struct redis_hub *hub)
{
    for (;;) {
        redisReply *reply = NULL;
        bool fine = resp_reader_next(&hub->link.reader, &reply);

        if (fine && reply == NULL)
            return true;
        fine = fine && message_take(hub, reply);
        freeReplyObject(reply);
        if (!fine)
            return false;
    }
}

/* Takes bytes that are there. STREAM_TIMEOUT: none. With the mutex held and `reading` set by the
 * caller; releases it meanwhile. */
static enum stream_result take_in(struct redis_hub *hub)
{
    char chunk[CHUNK_SIZE];
    size_t received = 0;
    enum stream_result result = STREAM_FAILED;

    (void)pthread_mutex_unlock(&hub->mutex);
    result = stream_receive(&hub->link.stream, chunk, sizeof chunk, 0, &received);
    (void)pthread_mutex_lock(&hub->mutex);
    if (result == STREAM_TIMEOUT)
        return result;
    hub->heard_ns = now(hub);
    if (result != STREAM_OK)
        went_down(hub, hub->link.stream.why);
    else if (!resp_reader_feed(&hub->link.reader, chunk, received) || !messages_take(hub))
        went_down(hub, "the server's messages make no sense");
    return result;
}

static void wait_readable(const struct redis_hub *hub, int64_t deadline_ns)
{
    int64_t left_ns = deadline_ns - now(hub);
    struct timespec timeout = dl_deadline_cond_slice(left_ns);
    struct pollfd fds[2] = {
        {.fd = hub->link.stream.fd, .events = POLLIN},
        {.fd = hub->wake_fd, .events = POLLIN},
    };
    uint64_t count = 0;

    if (left_ns <= 0)
        return;
    if (ppoll(fds, 2, &timeout, NULL) > 0 && fds[1].revents != 0)
        (void)!read(hub->wake_fd, &count, sizeof count);
}

static int64_t ping_due_ns(const struct redis_hub *hub)
{
    return hub->pinged_ns != 0 ? hub->pinged_ns + STUCK_NS : hub->heard_ns + PING_NS;
}

/* With the mutex held and `reading` set; releases it meanwhile. */
static void ping(struct redis_hub *hub)
{
    static const char bytes[] = "*1\r\n$4\r\nPING\r\n";
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_INTERNAL;

    hub->pinged_ns = now(hub);
    (void)pthread_mutex_unlock(&hub->mutex);
    status = redis_link_send(&hub->link, bytes, sizeof bytes - 1, hub->pinged_ns + STUCK_NS, &err);
    (void)pthread_mutex_lock(&hub->mutex);
    if (status != DLOCK_OK)
        went_down(hub, err.message);
}

/* Nothing has come. */
static void listen_on(struct redis_hub *hub, int64_t deadline_ns)
{
    int64_t due_ns = 0;

    if (now(hub) >= ping_due_ns(hub)) {
        if (hub->pinged_ns != 0)
            went_down(hub, "no answer to a ping");
        else
            ping(hub);
    }
    if (!hub->up)
        return;
    due_ns = ping_due_ns(hub);
    (void)pthread_mutex_unlock(&hub->mutex);
    wait_readable(hub, deadline_ns < due_ns ? deadline_ns : due_ns);
    (void)pthread_mutex_lock(&hub->mutex);
    (void)take_in(hub);
}

void redis_hub_read(struct redis_hub *hub, int64_t deadline_ns)
{
    hub->reading = true;
    if (take_in(hub) == STREAM_TIMEOUT)
        listen_on(hub, deadline_ns);
    hub->reading = false;
}

/* ---- subscribing; without the mutex ---- */

static enum dlock_status subscribe_answer(struct redis_hub *hub, int64_t deadline_ns,
                                          struct dlock_error *err)
{
    redisReply *reply = NULL;
    const redisReply *kind = NULL;
    enum dlock_status status = redis_link_read(&hub->link, deadline_ns, &reply, err);

    if (status != DLOCK_OK)
        return status;
    if (reply->type == REDIS_REPLY_ERROR) {
        status = resp_error_take(hub->place, reply, err);
    } else {
        kind = resp_reply_array(reply, 3) ? resp_reply_text(reply, 0) : NULL;
        if (kind == NULL || strcmp(kind->str, "subscribe") != 0)
            status = resp_error_fail(hub->place, err, DLOCK_PROTOCOL, "not an answer to SUBSCRIBE");
    }
    freeReplyObject(reply);
    return status;
}

static enum dlock_status subscribe(struct redis_hub *hub, int64_t deadline_ns,
                                   struct dlock_error *err)
{
    struct resp_command command;
    size_t len = 0;
    char *bytes = NULL;
    const struct redis_dial dial = {
        .place = hub->place, .tls = hub->tls, .host = hub->host, .wake_fd = hub->wake_fd};
    enum dlock_status status = redis_connect(&hub->link, &dial, deadline_ns, NULL, err);

    if (status != DLOCK_OK)
        return status;
    resp_command_begin(&command);
    resp_command_text(&command, "SUBSCRIBE");
    resp_command_text(&command, hub->channel);
    bytes = resp_command_format(&command, &len);
    if (bytes == NULL)
        return resp_error_fail(hub->place, err, DLOCK_NOMEM, "no memory for a command");
    status = redis_link_send(&hub->link, bytes, len, deadline_ns, err);
    free(bytes);
    return status == DLOCK_OK ? subscribe_answer(hub, deadline_ns, err) : status;
}

/* Takes what was written to wake_fd. With the mutex held. */
static bool interrupts_take(const struct redis_hub *hub)
{
    uint64_t count = 0;

    return read(hub->wake_fd, &count, sizeof count) > 0;
}

static void connect_now(struct redis_hub *hub, int64_t deadline_ns)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    char line[300] = "";
    enum dlock_status status = DLOCK_INTERNAL;

    hub->reading = true;
    (void)interrupts_take(hub); /* of who has gone */
    (void)pthread_mutex_unlock(&hub->mutex);
    status = subscribe(hub, deadline_ns, &err);
    (void)pthread_mutex_lock(&hub->mutex);
    hub->reading = false;
    hub->up = status == DLOCK_OK;
    if (hub->up) {
        hub->round++;
        hub->up_ns = hub->heard_ns = now(hub);
        hub->pinged_ns = 0;
        hub->told = false;
        wake_all(hub);
        return;
    }
    went_down(hub, err.message);
    if (interrupts_take(hub))
        return;
    hub->retry_ns = retry_at(hub);
    if (!hub->told)
        (void)snprintf(line, sizeof line, "waiters have to ask: %s", hub->why);
    hub->told = true;
    if (line[0] == '\0')
        return;
    (void)pthread_mutex_unlock(&hub->mutex);
    hub->host->log(hub->host->ctx, 1, line);
    (void)pthread_mutex_lock(&hub->mutex);
}

void redis_hub_drain(struct redis_hub *hub)
{
    if (hub->reading || !hub->up)
        return;
    hub->reading = true;
    for (int i = 0; i < DRAIN_MOST && hub->up && take_in(hub) == STREAM_OK; i++)
        ;
    hub->reading = false;
    redis_hub_hand_over(hub);
}

bool redis_hub_subscribe(struct redis_hub *hub, int64_t deadline_ns)
{
    if (!hub->up && !hub->reading && now(hub) >= hub->retry_ns)
        connect_now(hub, deadline_ns);
    return hub->up;
}
