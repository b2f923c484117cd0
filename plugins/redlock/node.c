/* SPDX-License-Identifier: MIT */
#include "node.h"
#include "resp/guard.h"

#include <stddef.h>
#include <string.h>

/* ---- a request: a script with its keys and arguments, or a plain command ---- */

void redlock_node_request_begin(struct redlock_request *request, enum redlock_script_id script,
                                unsigned names)
{
    request->script = &redlock_scripts[script];
    (void)resp_command_number(request->count, names);
    resp_command_begin(&request->command);
    resp_command_text(&request->command, "EVALSHA");
    resp_command_text(&request->command, request->script->sha);
    resp_command_text(&request->command, request->count);
}

void redlock_node_request_name(struct redlock_request *request, const struct resp_keys *keys)
{
    resp_command_add(&request->command, keys->bytes[0], keys->lens[0]);
}

char *redlock_node_request_format(struct redlock_request *request, bool whole, size_t *len)
{
    struct resp_command *command = &request->command;

    if (request->script == NULL)
        return resp_command_format(command, len);
    command->words[0] = whole ? "EVAL" : "EVALSHA";
    command->lens[0] = strlen(command->words[0]);
    command->words[1] = whole ? request->script->body : request->script->sha;
    command->lens[1] = whole ? request->script->len : strlen(request->script->sha);
    return resp_command_format(command, len);
}

/* ---- a connection ---- */

#define STUCK_NS  (2 * DL_NS_PER_S)     /* without an answer */
#define REPLY_MAX ((size_t)1024 * 1024) /* bytes of one answer, as a page of a list */

static int64_t now(const struct redlock_node *node)
{
    return node->connection.host->now_ns(node->connection.host->ctx);
}

/* Takes out the oldest request without an answer. */
static struct redlock_sent_request sent_next(struct redlock_node *node)
{
    unsigned at = node->first;

    node->count--;
    node->first = node->count > 0 ? (at + 1) % REDLOCK_NODE_SENT_MAX : 0; /* a small part is warm */
    return node->sent[at];
}

/* ---- for the connection ---- */

static enum dlock_status read_secret(struct resp_connection *connection, char **secret,
                                     struct dlock_error *err)
{
    const struct redlock_node *node = (const struct redlock_node *)connection;

    return redlock_config_secret(node->config, node->index, node->target, secret, err);
}

/* [restart_guard] The time counts from now, which is after the server read its uptime. A server
 * that was promoted may lack what its master granted, and does not say when that was: its time
 * counts from when this session saw it first. */
static void votes_set(struct redlock_node *node)
{
    const struct resp_info *info = &node->connection.info;
    int64_t guard_ms = node->connection.config->restart_guard_ms;

    node->votes_ns = node->ready_ns + resp_guard_left_ms(guard_ms, info->uptime_s) * DL_NS_PER_MS;
    if (!resp_info_was_promoted(info))
        return;
    if (strcmp(node->promoted, info->replid) != 0) {
        memcpy(node->promoted, info->replid, sizeof node->promoted);
        node->promoted_ns = node->ready_ns;
    }
    if (node->votes_ns < node->promoted_ns + guard_ms * DL_NS_PER_MS)
        node->votes_ns = node->promoted_ns + guard_ms * DL_NS_PER_MS;
}

/* Refuses a server that may have no vote: without a run_id it may be two of the nodes. */
static void on_ready(struct resp_connection *connection)
{
    struct redlock_node *node = (struct redlock_node *)connection;
    struct dlock_error err = DLOCK_ERROR_INIT;
    uint64_t caps = 0;

    if (resp_info_judge(&connection->info, connection->config, &caps, &err) != DLOCK_OK) {
        resp_connection_drop_with(connection, &err);
        return;
    }
    if (connection->info.run_id[0] == '\0') {
        resp_connection_drop(connection, DLOCK_CONFIG,
                             "INFO has no run_id: the server cannot be told apart from other "
                             "nodes");
        return;
    }
    connection->failures = 0;
    node->requests = 0;
    node->unchecked = 0;
    memset(node->texts, 0, sizeof node->texts);
    node->ready_ns = now(node);
    votes_set(node);
}

static void on_reply(struct resp_connection *connection, const redisReply *reply)
{
    struct redlock_node *node = (struct redlock_node *)connection;
    struct redlock_sent_request sent;

    if (node->count == 0) {
        resp_connection_drop(connection, DLOCK_PROTOCOL, "an answer without a request");
        return;
    }
    sent = sent_next(node);
    if (sent.kind == SENT_RECHECK && !resp_info_is_same_master(&connection->info, reply))
        resp_connection_drop(connection, DLOCK_UNAVAILABLE, "not the master that it was");
    else
        node->deliver(node, &sent, reply);
}

static void on_end(struct resp_connection *connection)
{
    struct redlock_node *node = (struct redlock_node *)connection;

    while (node->count > 0) {
        struct redlock_sent_request sent = sent_next(node);

        node->deliver(node, &sent, NULL);
    }
}

void redlock_node_init(struct redlock_node *node, const struct redlock_config *config,
                       unsigned index, const struct tls *tls, const struct dlock_host *host,
                       redlock_deliver_fn *deliver, void *owner)
{
    static const struct resp_connection_user user = {
        .read_secret = read_secret,
        .on_ready = on_ready,
        .on_reply = on_reply,
        .on_end = on_end,
        .reply_max = REPLY_MAX,
        .wants_info = true,
    };

    memset(node, 0, offsetof(struct redlock_node, sent)); /* the ring is large */
    node->config = config;
    node->index = index;
    node->deliver = deliver;
    node->owner = owner;
    resp_connection_init(&node->connection, &config->nodes[index], tls, host, &user);
}

void redlock_node_close(struct redlock_node *node)
{
    resp_connection_close(&node->connection);
    node->count = 0;
}

/* ---- requests ---- */

static bool request_add(struct redlock_node *node, const char *bytes, size_t len,
                        const struct redlock_sent_request *sent)
{
    struct resp_connection *connection = &node->connection;
    struct redlock_sent_request *next = NULL;

    if (connection->state != RESP_READY)
        return false;
    if (node->count == REDLOCK_NODE_SENT_MAX || !resp_connection_add(connection, bytes, len)) {
        (void)snprintf(connection->why, sizeof connection->why,
                       "too many requests without an answer");
        return false;
    }
    next = &node->sent[(node->first + node->count++) % REDLOCK_NODE_SENT_MAX];
    *next = *sent;
    next->number = ++node->requests;
    return true;
}

static void recheck_add(struct redlock_node *node)
{
    static const char bytes[] = "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n";
    const struct redlock_sent_request sent = {.kind = SENT_RECHECK, .sent_ns = now(node)};

    /* Without it the answers do not count. */
    (void)request_add(node, bytes, sizeof bytes - 1, &sent);
    node->unchecked = 0;
}

/* If a part fails, another one may have left. */
static void flush(struct redlock_node *node)
{
    if (node->unchecked > 0)
        recheck_add(node);
    if (node->connection.state == RESP_READY && node->connection.out_len > 0)
        (void)resp_connection_flush(&node->connection);
}

bool redlock_node_send(struct redlock_node *node, const char *bytes, size_t len,
                       const struct redlock_sent_request *sent)
{
    if (!request_add(node, bytes, len, sent))
        return false;
    node->unchecked += sent->rechecks;
    if (node->unchecked == REDLOCK_NODE_RECHECK)
        recheck_add(node);
    if (!node->corked)
        flush(node);
    return true;
}

void redlock_node_cork(struct redlock_node *node)
{
    node->corked = true;
}

void redlock_node_uncork(struct redlock_node *node)
{
    node->corked = false;
    flush(node);
}

void redlock_node_text_sent(struct redlock_node *node, enum redlock_script_id script)
{
    node->texts[script] = node->requests;
}

bool redlock_node_has_text(const struct redlock_node *node, enum redlock_script_id script)
{
    return node->texts[script] != 0;
}

void redlock_node_text_unknown(struct redlock_node *node, enum redlock_script_id script,
                               const struct redlock_sent_request *sent)
{
    if (node->texts[script] <= sent->number)
        node->texts[script] = 0;
}

int64_t redlock_node_waiting_since(const struct redlock_node *node)
{
    return node->count > 0 ? node->sent[node->first].sent_ns : 0;
}

static bool is_stuck(const struct redlock_node *node, int64_t now_ns)
{
    int64_t since_ns = redlock_node_waiting_since(node);

    return node->connection.state == RESP_READY && since_ns != 0 && now_ns - since_ns >= STUCK_NS;
}

int64_t redlock_node_due_ns(const struct redlock_node *node, int64_t now_ns)
{
    int64_t since_ns = redlock_node_waiting_since(node);

    return node->connection.state == RESP_READY && since_ns != 0
               ? since_ns + STUCK_NS
               : resp_connection_due_ns(&node->connection, now_ns);
}

bool redlock_node_has_work(const struct redlock_node *node, int64_t now_ns)
{
    return node->connection.state != RESP_READY || is_stuck(node, now_ns);
}

void redlock_node_advance(struct redlock_node *node, int64_t now_ns)
{
    int64_t since_ns = redlock_node_waiting_since(node);

    resp_connection_advance(&node->connection, now_ns);
    if (is_stuck(node, now_ns) && redlock_node_waiting_since(node) == since_ns)
        resp_connection_drop(&node->connection, DLOCK_UNAVAILABLE, "no answer for %lld ms",
                             (long long)((now_ns - since_ns) / DL_NS_PER_MS));
}
