/* SPDX-License-Identifier: MIT */
#include "redis/servers/sentinel.h"
#include "lib/text_file.h"
#include "resp/command.h"
#include "resp/error.h"
#include "resp/reply.h"

#include <stdlib.h>
#include <string.h>

#define REPLIES         3 /* SENTINEL MASTER, GET-MASTER-ADDR-BY-NAME, SENTINELS */
#define REPLY_MAX_BYTES ((size_t)256 * 1024)

static struct redis_sentinel *of(struct resp_connection *connection)
{
    return (struct redis_sentinel *)connection;
}

static enum dlock_status read_secret(struct resp_connection *connection, char **secret,
                                     struct dlock_error *err)
{
    const struct redis_service *service = of(connection)->service;
    enum dl_exposure ignored = DL_EXPOSED_TO_NOBODY;

    *secret = NULL;
    return service->pass_file == NULL
               ? DLOCK_OK
               : dl_text_file_read(service->pass_file, REDIS_SENTINEL_PASS_FILE, secret, &ignored,
                                   err);
}

/* ---- asking ---- */

static bool ask(struct redis_sentinel *sentinel, const char *what)
{
    struct resp_command command;
    size_t len = 0;
    char *bytes = NULL;
    bool added = false;

    resp_command_begin(&command);
    resp_command_text(&command, "SENTINEL");
    resp_command_text(&command, what);
    resp_command_text(&command, sentinel->service->name);
    bytes = resp_command_format(&command, &len);
    added = bytes != NULL && resp_connection_add(&sentinel->connection, bytes, len);
    free(bytes);
    return added;
}

static void on_ready(struct resp_connection *connection)
{
    struct redis_sentinel *sentinel = of(connection);

    if (ask(sentinel, "MASTER") && ask(sentinel, "GET-MASTER-ADDR-BY-NAME") &&
        ask(sentinel, "SENTINELS"))
        (void)resp_connection_flush(connection);
    else
        resp_connection_drop(connection, DLOCK_NOMEM, "no memory for a command");
}

static void on_end(struct resp_connection *connection)
{
    struct redis_sentinel *sentinel = of(connection);

    if (sentinel->replies < REPLIES && sentinel->status == DLOCK_OK)
        sentinel->status = connection->status;
}

/* ---- the answers ---- */

/* The value of a name in an array of names and values; NULL: there is none. */
static const char *field(const redisReply *reply, const char *name)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
        const redisReply *key = resp_reply_text(reply, i), *value = resp_reply_text(reply, i + 1);

        if (key != NULL && value != NULL && strcmp(key->str, name) == 0)
            return value->str;
    }
    return NULL;
}

static bool number_read(const char *text, int64_t most, int64_t *out)
{
    char *end = NULL;

    if (text == NULL || *text < '0' || *text > '9' || strlen(text) > 18)
        return false;
    *out = strtoll(text, &end, 10);
    return *end == '\0' && *out <= most;
}

static bool address_read(const char *host, const char *port_text, struct address *out)
{
    int64_t port = 0;

    if (host == NULL || *host == '\0' || strlen(host) > ADDRESS_HOST_MAX ||
        !number_read(port_text, UINT16_MAX, &port) || port == 0)
        return false;
    (void)snprintf(out->host, sizeof out->host, "%s", host);
    out->port = (uint16_t)port;
    return true;
}

/* A server that knows no SENTINEL, or no such service. */
static void refused(struct redis_sentinel *sentinel, const redisReply *reply)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = resp_error_take(&sentinel->config, reply, &err);

    resp_connection_drop_with(&sentinel->connection, &err);
    sentinel->status = status == DLOCK_UNKNOWN ? DLOCK_CONFIG : status;
}

static void nonsense(struct redis_sentinel *sentinel)
{
    resp_connection_drop(&sentinel->connection, DLOCK_PROTOCOL, "not the answer of a Sentinel");
}

/* The address beside it is that of before while the sentinel leads a failover. */
static void epoch_take(struct redis_sentinel *sentinel, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        refused(sentinel, reply);
    else if (!number_read(field(reply, "config-epoch"), INT64_MAX, &sentinel->vote.epoch))
        nonsense(sentinel);
}

static void master_take(struct redis_sentinel *sentinel, const redisReply *reply)
{
    const redisReply *host = resp_reply_text(reply, 0), *port = resp_reply_text(reply, 1);

    if (reply->type == REDIS_REPLY_ERROR)
        refused(sentinel, reply);
    else if (host != NULL && port != NULL &&
             address_read(host->str, port->str, &sentinel->vote.master))
        sentinel->vote.given = true;
    else
        nonsense(sentinel);
}

static void others_take(struct redis_sentinel *sentinel, const redisReply *reply)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements &&
                       sentinel->other_count < REDIS_SENTINELS_MOST;
         i++)
        if (address_read(field(reply->element[i], "ip"), field(reply->element[i], "port"),
                         &sentinel->others[sentinel->other_count]))
            sentinel->other_count++;
}

static void on_reply(struct resp_connection *connection, const redisReply *reply)
{
    struct redis_sentinel *sentinel = of(connection);

    switch (sentinel->replies++) {
    case 0:
        epoch_take(sentinel, reply);
        break;
    case 1:
        master_take(sentinel, reply);
        break;
    case 2:
        others_take(sentinel, reply);
        break;
    default:
        resp_connection_drop(connection, DLOCK_PROTOCOL, "more answers than requests");
    }
}

/* ---- the begin and the end ---- */

void redis_sentinel_init(struct redis_sentinel *sentinel, const struct redis_service *service,
                         const struct address *address, const struct tls *tls,
                         const struct dlock_host *host)
{
    static const struct resp_connection_user user = {
        .read_secret = read_secret,
        .on_ready = on_ready,
        .on_reply = on_reply,
        .on_end = on_end,
        .reply_max = REPLY_MAX_BYTES,
    };

    sentinel->service = service;
    sentinel->config = service->sentinel;
    sentinel->config.address = *address;
    address_format(address, sentinel->config.endpoint, sizeof sentinel->config.endpoint);
    resp_connection_init(&sentinel->connection, &sentinel->config, tls, host, &user);
}

void redis_sentinel_fini(struct redis_sentinel *sentinel)
{
    resp_connection_close(&sentinel->connection);
}

bool redis_sentinel_is_done(const struct redis_sentinel *sentinel)
{
    return sentinel->status != DLOCK_OK || sentinel->replies >= REPLIES;
}

const char *redis_sentinel_why(const struct redis_sentinel *sentinel)
{
    return sentinel->status != DLOCK_OK ? sentinel->connection.why : "no answer in time";
}
