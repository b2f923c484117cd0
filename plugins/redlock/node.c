/* SPDX-License-Identifier: MIT */
#include "lib/time.h"
#include "node_private.h"
#include "redlock.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STUCK_NS       (2 * DL_NS_PER_S) /* without an answer */
#define PING_NS        (5 * DL_NS_PER_S) /* a subscriber that hears nothing for so long asks */
#define RETRY_FIRST_NS (DL_NS_PER_S / 20)
#define RETRY_MOST_NS  DL_NS_PER_S
#define RETRY_DOUBLED  5                   /* times at most */
#define RESOLVING_NS   (DL_NS_PER_S / 200) /* between two looks whether a name is known */
#define CHUNK          4096
#define OUT_MAX        ((size_t)1024 * 1024) /* bytes that a node does not take */

void redlock_node_init(struct redlock_node *node, const struct redlock_place *all, unsigned index,
                       const struct tls *tls, const struct dlock_host *host,
                       redlock_deliver_fn *deliver, void *owner)
{
    *node = (struct redlock_node){
        .all = all,
        .place = &all->nodes[index],
        .index = index,
        .tls = tls,
        .host = host,
        .deliver = deliver,
        .owner = owner,
        .status = DLOCK_UNAVAILABLE,
    };
    (void)snprintf(node->why, sizeof node->why, "not connected");
    stream_init(&node->stream, host);
}

static void connection_end(struct redlock_node *node)
{
    resolve_abandon(node->job);
    node->job = NULL;
    if (node->addresses != NULL)
        freeaddrinfo(node->addresses);
    node->addresses = node->at = NULL;
    redlock_node_set_up_end(node);
    stream_close(&node->stream);
    resp_reader_fini(&node->reader);
    node->out_len = 0;
    node->state = NODE_DOWN;
}

static void out_free(struct redlock_node *node)
{
    if (node->out != NULL)
        explicit_bzero(node->out, node->out_room); /* passwords */
    free(node->out);
    node->out = NULL;
}

void redlock_node_close(struct redlock_node *node)
{
    connection_end(node);
    node->count = 0;
    out_free(node);
    node->out_room = 0;
}

/* OpenSSL may hold a lock that another thread of the parent took. */
void redlock_node_leave(struct redlock_node *node)
{
    if (node->stream.fd >= 0)
        (void)close(node->stream.fd);
    node->stream.fd = -1;
}

/* One that was fine until now is tried again at once; then ever more seldom. */
static int64_t retry_delay(struct redlock_node *node)
{
    unsigned doubled = node->failures < RETRY_DOUBLED ? node->failures : RETRY_DOUBLED;
    int64_t delay_ns = RETRY_FIRST_NS << doubled;
    uint32_t chance = 0;

    if (node->failures++ == 0 && node->life > 0)
        return 0;
    if (delay_ns > RETRY_MOST_NS)
        delay_ns = RETRY_MOST_NS;
    (void)node->host->random(node->host->ctx, &chance, sizeof chance);
    return delay_ns - chance % (delay_ns / 2);
}

/* The oldest request without an answer. */
static struct redlock_ask ask_next(struct redlock_node *node)
{
    unsigned at = node->first;

    node->first = (at + 1) % NODE_ASKS_MAX;
    node->count--;
    return node->asks[at];
}

void redlock_node_drop(struct redlock_node *node, enum dlock_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(node->why, sizeof node->why, format, args);
    va_end(args);
    node->status = status;
    connection_end(node);
    while (node->count > 0) {
        struct redlock_ask ask = ask_next(node);

        node->deliver(node, &ask, NULL);
    }
    node->retry_ns = node->host->now_ns(node->host->ctx) + retry_delay(node);
}

/* "<endpoint>: why" without the endpoint, which stands beside it. */
void redlock_node_drop_with(struct redlock_node *node, const struct dlock_error *err)
{
    const char *text = strstr(err->message, ": ");

    redlock_node_drop(node, err->status, "%s", text != NULL ? text + 2 : err->message);
}

void redlock_node_drop_stream(struct redlock_node *node, enum stream_result result, const char *why)
{
    char text[NODE_WHY_SIZE];

    (void)snprintf(text, sizeof text, "%.95s", why);
    redlock_node_drop(node, resp_error_connect_status(result), "%s", text);
}

/* ---- sending ---- */

/* False: it is dropped. */
bool redlock_node_flush(struct redlock_node *node)
{
    size_t sent = 0;

    while (sent < node->out_len) {
        struct stream_step step;
        enum stream_result result =
            stream_try_send(&node->stream, node->out + sent, node->out_len - sent, &step);

        if (result == STREAM_TIMEOUT) {
            node->events = step.events;
            break;
        }
        if (result != STREAM_OK) {
            redlock_node_drop_stream(node, result, step.why);
            return false;
        }
        sent += step.done;
    }
    memmove(node->out, node->out + sent, node->out_len - sent);
    node->out_len -= sent;
    return true;
}

bool redlock_node_add(struct redlock_node *node, const char *bytes, size_t len)
{
    if (node->out_len + len > node->out_room) {
        size_t room = 2 * (node->out_len + len);
        char *out = room <= OUT_MAX ? malloc(room) : NULL;

        if (out == NULL)
            return false;
        if (node->out_len > 0)
            memcpy(out, node->out, node->out_len);
        out_free(node);
        node->out = out;
        node->out_room = room;
    }
    memcpy(node->out + node->out_len, bytes, len);
    node->out_len += len;
    return true;
}

bool redlock_node_send(struct redlock_node *node, const char *bytes, size_t len,
                       const struct redlock_ask *ask)
{
    if (node->state != NODE_READY)
        return false;
    if (node->count == NODE_ASKS_MAX || !redlock_node_add(node, bytes, len)) {
        (void)snprintf(node->why, sizeof node->why, "too many requests without an answer");
        return false;
    }
    node->asks[(node->first + node->count++) % NODE_ASKS_MAX] = *ask;
    (void)redlock_node_flush(node); /* if it fails, a part may have left */
    return true;
}

int64_t redlock_node_waiting_since(const struct redlock_node *node)
{
    return node->count > 0 ? node->asks[node->first].sent_ns : 0;
}

/* ---- becoming ready ---- */

static bool subscribe(struct redlock_node *node)
{
    struct resp_command command;
    size_t len = 0;
    char *bytes = NULL;
    bool fine = false;

    resp_command_begin(&command);
    resp_command_text(&command, "SUBSCRIBE");
    resp_command_text(&command, node->channel);
    bytes = resp_command_format(&command, &len);
    fine = bytes != NULL && redlock_node_add(node, bytes, len);
    free(bytes);
    return fine && redlock_node_flush(node);
}

/* Whether the server may have a vote. A server without a run_id may be two of the nodes. */
static bool is_fit(struct redlock_node *node)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    uint32_t caps = 0;

    if (resp_info_judge(&node->facts, node->place, &caps, &err) != DLOCK_OK)
        redlock_node_drop_with(node, &err);
    else if (node->facts.run_id[0] == '\0')
        redlock_node_drop(node, DLOCK_CONFIG,
                          "INFO has no run_id: the server cannot be told apart from other nodes");
    else
        return true;
    return false;
}

/* The clock is read after the server said for how long it has been up. */
static void become_ready(struct redlock_node *node)
{
    int64_t now_ns = node->host->now_ns(node->host->ctx);

    redlock_node_set_up_end(node);
    if (node->channel == NULL && !is_fit(node))
        return;
    node->state = NODE_READY;
    node->heard_ns = now_ns;
    node->failures = 0;
    node->life++;
    node->knows_release = false;
    node->votes_ns =
        now_ns +
        resp_guard_left_ms(node->place->restart_guard_ms, node->facts.uptime_s) * DL_NS_PER_MS;
    if (node->channel != NULL && !subscribe(node) && node->state == NODE_READY)
        redlock_node_drop(node, DLOCK_NOMEM, "no memory for a command");
}

/* ---- answers ---- */

/* A password that was changed meanwhile is tried at once [SEC-1]. */
static void set_up_failed(struct redlock_node *node, const struct dlock_error *err)
{
    bool rotated = err->status == DLOCK_AUTH && redlock_node_is_rotated(node);

    redlock_node_drop_with(node, err);
    if (rotated) {
        node->failures = 0;
        node->retry_ns = 0;
    }
}

static void set_up_take(struct redlock_node *node, const redisReply *reply)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    if (resp_setup_take(&node->setup, reply, &err) != DLOCK_OK)
        set_up_failed(node, &err);
    else if (resp_setup_done(&node->setup))
        become_ready(node);
}

/* Of a subscriber: a server that refuses the ping is alive, too. */
static bool is_pong(const struct redlock_node *node, const redisReply *reply)
{
    const redisReply *kind = resp_reply_array(reply, 2) ? resp_reply_text(reply, 0) : NULL;

    return node->count > 0 &&
           (reply->type == REDIS_REPLY_ERROR || (kind != NULL && strcmp(kind->str, "pong") == 0));
}

static void message_take(struct redlock_node *node, const redisReply *reply)
{
    node->heard_ns = node->host->now_ns(node->host->ctx);
    if (is_pong(node, reply))
        (void)ask_next(node);
    else
        node->deliver(node, NULL, reply);
}

static void answer_take(struct redlock_node *node, const redisReply *reply)
{
    struct redlock_ask ask;

    if (node->state == NODE_SETTING_UP) {
        set_up_take(node, reply);
    } else if (node->channel != NULL) {
        message_take(node, reply);
    } else if (node->count == 0) {
        redlock_node_drop(node, DLOCK_PROTOCOL, "an answer that nobody asked for");
    } else {
        ask = ask_next(node);
        node->deliver(node, &ask, reply);
    }
}

static void answers_take(struct redlock_node *node)
{
    while (node->state >= NODE_SETTING_UP) {
        redisReply *reply = NULL;

        if (!resp_reader_next(&node->reader, &reply)) {
            redlock_node_drop(node, DLOCK_PROTOCOL, "an answer that makes no sense: %.55s",
                              node->reader.why);
            return;
        }
        if (reply == NULL)
            return;
        answer_take(node, reply);
        freeReplyObject(reply);
    }
}

static void receive(struct redlock_node *node)
{
    REDLOCK_NOT_ZEROED char chunk[CHUNK];

    while (node->state >= NODE_SETTING_UP) {
        struct stream_step step;
        enum stream_result result = stream_try_receive(&node->stream, chunk, sizeof chunk, &step);

        if (result == STREAM_TIMEOUT)
            return;
        if (result != STREAM_OK) {
            redlock_node_drop_stream(node, result, step.why);
            return;
        }
        if (!resp_reader_feed(&node->reader, chunk, step.done)) {
            redlock_node_drop(node, DLOCK_PROTOCOL, "%s", node->reader.why);
            return;
        }
        answers_take(node);
        if (step.done < sizeof chunk && node->stream.ssl == NULL)
            return;
    }
}

static bool is_stuck(const struct redlock_node *node, int64_t now_ns)
{
    int64_t since_ns = redlock_node_waiting_since(node);

    return node->state == NODE_READY && since_ns != 0 && now_ns - since_ns >= STUCK_NS;
}

int64_t redlock_node_due_ns(const struct redlock_node *node, int64_t now_ns)
{
    int64_t since_ns = redlock_node_waiting_since(node);

    switch (node->state) {
    case NODE_DOWN:
        return node->retry_ns;
    case NODE_RESOLVING:
        return now_ns + RESOLVING_NS;
    case NODE_READY:
        if (since_ns != 0)
            return since_ns + STUCK_NS;
        return node->channel != NULL ? node->heard_ns + PING_NS : INT64_MAX;
    default:
        return node->limit_ns;
    }
}

bool redlock_node_restless(const struct redlock_node *node, int64_t now_ns)
{
    return node->state != NODE_READY || is_stuck(node, now_ns);
}

static bool is_silent(const struct redlock_node *node, int64_t now_ns)
{
    return node->channel != NULL && node->state == NODE_READY && node->count == 0 &&
           now_ns - node->heard_ns >= PING_NS;
}

static void exchange(struct redlock_node *node, int64_t now_ns)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    int64_t since_ns = redlock_node_waiting_since(node);

    if (node->out_len > 0 && !redlock_node_flush(node))
        return;
    receive(node);
    if (is_stuck(node, now_ns) && redlock_node_waiting_since(node) == since_ns)
        redlock_node_drop(node, DLOCK_UNAVAILABLE, "no answer for %lld ms",
                          (long long)((now_ns - since_ns) / DL_NS_PER_MS));
    if (is_silent(node, now_ns))
        (void)redlock_node_send(node, ping, sizeof ping - 1,
                                &(struct redlock_ask){.sent_ns = now_ns});
}

void redlock_node_advance(struct redlock_node *node, int64_t now_ns)
{
    enum redlock_node_state before = NODE_READY;

    do {
        before = node->state;
        switch (node->state) {
        case NODE_DOWN:
            if (now_ns >= node->retry_ns)
                redlock_node_begin(node, now_ns);
            break;
        case NODE_RESOLVING:
            redlock_node_resolve_step(node);
            break;
        case NODE_CONNECTING:
            redlock_node_connect_step(node);
            break;
        case NODE_SECURING:
            redlock_node_secure_step(node);
            break;
        case NODE_SETTING_UP:
        case NODE_READY:
            exchange(node, now_ns);
            break;
        }
    } while (node->state != before && node->state != NODE_DOWN);
    if (node->state != NODE_READY && node->state != NODE_DOWN && now_ns >= node->limit_ns)
        redlock_node_drop(node, DLOCK_UNAVAILABLE, "no connection in time");
}

short redlock_node_events(const struct redlock_node *node)
{
    switch (node->state) {
    case NODE_CONNECTING:
    case NODE_SECURING:
        return node->events;
    case NODE_SETTING_UP:
    case NODE_READY:
        return (short)(POLLIN | (node->out_len > 0 ? node->events : 0));
    default:
        return 0;
    }
}

bool redlock_node_coming(const struct redlock_node *node, int64_t now_ns)
{
    return node->state == NODE_DOWN ? now_ns >= node->retry_ns : node->state != NODE_READY;
}
