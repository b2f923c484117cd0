/* SPDX-License-Identifier: MIT */
#include "redis/servers/topology.h"
#include "resp/error.h"
#include "resp/reply.h"

#include <string.h>

#define ANSWER_MAX_BYTES ((size_t)16 * 1024 * 1024) /* each slot by itself, with two replicas */

/* ---- the answer ---- */

/* A server: [host, port, id, ...]. No host: that of the server that was asked. */
static bool server_read(struct address *out, const redisReply *reply, const struct address *asked)
{
    const char *host = NULL;
    int64_t port = 0;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        !resp_reply_int(reply, 1, 1, UINT16_MAX, &port))
        return false;
    host = reply->element[0]->type == REDIS_REPLY_STRING ? reply->element[0]->str : "";
    if (*host == '\0')
        host = asked->host;
    if (strlen(host) > ADDRESS_HOST_MAX)
        return false;
    (void)snprintf(out->host, sizeof out->host, "%s", host);
    out->port = (uint16_t)port;
    return true;
}

/* The index of a master, which is added. REDIS_NOBODY: too many. */
static unsigned master_add(struct redis_topology *topology, const struct address *master)
{
    for (unsigned i = 0; i < topology->count; i++)
        if (topology->masters[i].port == master->port &&
            strcmp(topology->masters[i].host, master->host) == 0)
            return i;
    if (topology->count == REDIS_MASTERS_MOST)
        return REDIS_NOBODY;
    topology->masters[topology->count] = *master;
    return topology->count++;
}

/* [first, last, master, replicas...] */
static bool range_read(struct redis_topology *topology, const redisReply *range,
                       const struct address *asked)
{
    struct address master;
    int64_t first = 0, last = 0;
    unsigned index = REDIS_NOBODY;

    if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
        !resp_reply_int(range, 0, 0, REDIS_SLOTS - 1, &first) ||
        !resp_reply_int(range, 1, first, REDIS_SLOTS - 1, &last) ||
        !server_read(&master, range->element[2], asked))
        return false;
    index = master_add(topology, &master);
    memset(topology->owners + first, (int)index, (size_t)(last - first) + 1);
    return index != REDIS_NOBODY;
}

bool redis_topology_read(struct redis_topology *topology, const redisReply *reply,
                         const struct address *asked)
{
    topology->count = 0;
    memset(topology->owners, (int)REDIS_NOBODY, sizeof topology->owners);
    if (reply->type != REDIS_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < reply->elements; i++)
        if (!range_read(topology, reply->element[i], asked))
            return false;
    return true;
}

/* ---- asking ---- */

static enum dlock_status refused(const struct resp_config *config, const redisReply *reply,
                                 struct dlock_error *err)
{
    enum dlock_status status = resp_error_take(config, reply, err);

    return status == DLOCK_UNKNOWN ? (err->status = DLOCK_CONFIG) : status;
}

enum dlock_status redis_topology_ask(struct redis_topology *topology,
                                     const struct redis_connect_args *args, int64_t deadline_ns,
                                     struct dlock_error *err)
{
    static const char command[] = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
    struct redis_connection connection = {.config = NULL};
    redisReply *reply = NULL;
    enum dlock_status status = redis_connection_open(&connection, args, deadline_ns, NULL, err);

    connection.reader.reply_max = ANSWER_MAX_BYTES;
    connection.reader.elements_max = REDIS_SLOTS;
    if (status == DLOCK_OK)
        status = redis_connection_send(&connection, command, sizeof command - 1, deadline_ns, err);
    if (status == DLOCK_OK)
        status = redis_connection_read(&connection, deadline_ns, &reply, err);
    if (status == DLOCK_UNKNOWN) /* the question changes nothing */
        status = err->status = DLOCK_UNAVAILABLE;
    if (status == DLOCK_OK && reply->type == REDIS_REPLY_ERROR)
        status = refused(args->config, reply, err);
    else if (status == DLOCK_OK && !redis_topology_read(topology, reply, &args->config->address))
        status = resp_error_fail(args->config, err, DLOCK_PROTOCOL,
                                 "the answer to CLUSTER SLOTS makes no sense");
    freeReplyObject(reply);
    redis_connection_close(&connection);
    return status;
}
