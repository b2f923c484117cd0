/* SPDX-License-Identifier: MIT */
/*
 * The live holders of many names, a page of SCAN at a time: KEYS would block the server. Each
 * exchange may take as long as the caller allowed for the list: the number of names is not known
 * before.
 */
#include "list.h"
#include "inspect.h"
#include "redis/call/call.h"
#include "redis/servers/cluster.h"
#include "resp/error.h"
#include "resp/keys.h"
#include "resp/reply.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#define PAGE             "100"
#define CURSOR_SIZE      24
#define ANSWER_MAX_BYTES ((size_t)1024 * 1024)

/* SCAN may return a key twice, and two keys of one name. */
struct seen {
    uint32_t len;
    unsigned char name[];
};

struct listing {
    struct redis_session *session;
    struct redis_pool *pool; /* of the server whose keys are scanned */
    int64_t timeout_ns;      /* of an exchange */
    dlock_holder_fn *fn;
    void *arg;
    void *seen; /* tsearch(3) tree of struct seen */
    struct redis_inspected inspected;
    struct dlock_holder names[REDIS_INSPECT_MOST]; /* to be inspected; borrowed from seen */
    size_t name_count;
    const unsigned char *prefix; /* of the names that are wanted */
    uint32_t prefix_len;
    size_t pattern_len;
    char pattern[2 * RESP_KEY_MAX];
    char cursor[CURSOR_SIZE];
};

static int seen_compare(const void *a, const void *b)
{
    const struct seen *one = a, *other = b;

    if (one->len != other->len)
        return one->len < other->len ? -1 : 1;
    return memcmp(one->name, other->name, one->len);
}

/* False: no memory. */
static bool name_add(struct listing *listing, const unsigned char *name, uint32_t len)
{
    struct seen *entry = malloc(sizeof *entry + len);
    struct seen **found = NULL;

    if (entry != NULL) {
        entry->len = len;
        memcpy(entry->name, name, len);
        found = tsearch(entry, &listing->seen, seen_compare);
    }
    if (found != NULL && *found == entry)
        listing->names[listing->name_count++] = (struct dlock_holder){
            .struct_size = sizeof(struct dlock_holder), .name = entry->name, .name_len = len};
    else
        free(entry);
    return found != NULL;
}

static int64_t due_ns(const struct listing *listing)
{
    const struct dlock_host *host = listing->session->host;

    return host->now_ns(host->ctx) + listing->timeout_ns;
}

/* With key=raw the scan meets every key: the strings that expire are locks. */
static bool lease_tell(void *arg, const struct dlock_holder *lease)
{
    struct listing *listing = arg;

    if (listing->session->config.raw && (lease->remaining_ms < 0 || strcmp(lease->owner, "-") == 0))
        return 0;
    return listing->fn(listing->arg, lease);
}

/* Reports a name that cannot be taken, with the reason; the other names are listed, too. */
static void foreign_tell(struct listing *listing, const struct dlock_holder *name)
{
    const struct dlock_holder lease = {
        .struct_size = sizeof lease,
        .name = name->name,
        .name_len = name->name_len,
        .mode = DLOCK_EXCLUSIVE,
        .waiters = UINT32_MAX,
        .remaining_ms = -1,
        .held_ms = -1,
        .owner = "-",
        .label = RESP_FOREIGN_LABEL,
    };

    listing->inspected.stopped = listing->fn(listing->arg, &lease) != 0;
}

static enum dlock_status name_tell(struct listing *listing, const struct dlock_holder *name,
                                   struct dlock_error *err)
{
    struct redis_session *session = listing->session;
    enum dlock_status status =
        redis_inspect_name(session, name->name, name->name_len, due_ns(listing), lease_tell,
                           listing, &listing->inspected, err);

    if (session->config.raw) /* the scan meets foreign keys, and keys that the user may not read */
        return status == DLOCK_CONFIG || status == DLOCK_AUTH ? DLOCK_OK : status;
    if (!listing->inspected.foreign)
        return status;
    foreign_tell(listing, name);
    return DLOCK_OK;
}

/* One exchange for all names. One for each name if a key of one is foreign, on a cluster, and with
 * key=raw, where any key may be. */
static enum dlock_status names_tell(struct listing *listing, struct dlock_error *err)
{
    size_t count = listing->name_count;
    bool each = listing->session->config.raw || listing->session->config.all_keys;
    enum dlock_status status = DLOCK_OK;

    listing->name_count = 0;
    if (count > 0 && !each)
        status = redis_inspect_names(listing->session, listing->names, count, due_ns(listing),
                                     lease_tell, listing, &listing->inspected, err);
    if (!each && !listing->inspected.foreign)
        return status;
    status = DLOCK_OK;
    for (size_t i = 0; i < count && status == DLOCK_OK && !listing->inspected.stopped; i++)
        status = name_tell(listing, &listing->names[i], err);
    listing->inspected.foreign = false;
    return status;
}

static enum dlock_status key_take(struct listing *listing, const redisReply *key,
                                  struct dlock_error *err)
{
    const struct resp_config *config = &listing->session->config;
    unsigned char name[RESP_NAME_MAX];
    uint32_t len = 0;

    if (!resp_keys_name(config, key->str, (size_t)key->len, name, &len) ||
        len < listing->prefix_len || memcmp(name, listing->prefix, listing->prefix_len) != 0)
        return DLOCK_OK;
    if (!name_add(listing, name, len))
        return resp_error_fail(config, err, DLOCK_NOMEM, "no memory for a list");
    return listing->name_count == REDIS_INSPECT_MOST ? names_tell(listing, err) : DLOCK_OK;
}

static bool page_validate(const struct redis_call *call, const redisReply *reply)
{
    const redisReply *cursor = resp_reply_array(reply, 2) ? resp_reply_text(reply, 0) : NULL;

    (void)call;
    return cursor != NULL && cursor->len < CURSOR_SIZE &&
           reply->element[1]->type == REDIS_REPLY_ARRAY;
}

static enum dlock_status page_tell(struct listing *listing, const redisReply *reply,
                                   struct dlock_error *err)
{
    const redisReply *keys = reply->element[1];
    enum dlock_status status = DLOCK_OK;

    (void)snprintf(listing->cursor, sizeof listing->cursor, "%s", reply->element[0]->str);
    for (size_t i = 0; i < keys->elements && status == DLOCK_OK && !listing->inspected.stopped;
         i++) {
        const redisReply *key = resp_reply_text(keys, i);

        if (key != NULL)
            status = key_take(listing, key, err);
    }
    return status == DLOCK_OK && !listing->inspected.stopped ? names_tell(listing, err) : status;
}

static enum dlock_status page_next(struct listing *listing, struct dlock_error *err)
{
    struct redis_call call;
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    redis_call_begin_plain(&call, page_validate);
    call.reply_max = ANSWER_MAX_BYTES;
    resp_command_text(&call.command, "SCAN");
    resp_command_text(&call.command, listing->cursor);
    resp_command_text(&call.command, "MATCH");
    resp_command_add(&call.command, listing->pattern, listing->pattern_len);
    resp_command_text(&call.command, "COUNT");
    resp_command_text(&call.command, PAGE);
    status = redis_call_run(listing->pool, &call, due_ns(listing), &reply, err);
    if (status == DLOCK_OK)
        status = page_tell(listing, reply, err);
    freeReplyObject(reply);
    return status;
}

static enum dlock_status server_scan(struct listing *listing, struct redis_pool *pool,
                                     struct dlock_error *err)
{
    enum dlock_status status = DLOCK_OK;

    listing->pool = pool;
    (void)snprintf(listing->cursor, sizeof listing->cursor, "0");
    do
        status = page_next(listing, err);
    while (status == DLOCK_OK && !listing->inspected.stopped && strcmp(listing->cursor, "0") != 0);
    return status;
}

/* A server of a cluster that fails hides its names: the list fails. */
static enum dlock_status cluster_scan(struct listing *listing, struct dlock_error *err)
{
    struct redis_cluster *cluster = listing->session->cluster;
    struct redis_shard *shard = NULL;
    enum dlock_status status = DLOCK_OK;

    redis_cluster_refresh(cluster, due_ns(listing));
    for (unsigned i = 0; status == DLOCK_OK && !listing->inspected.stopped &&
                         (shard = redis_cluster_master(cluster, i)) != NULL;
         i++) {
        status = server_scan(listing, &shard->pool, err);
        redis_cluster_put(cluster, shard);
    }
    if (status != DLOCK_OK)
        redis_cluster_suspect(cluster);
    return status;
}

enum dlock_status redis_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                             int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                             struct dlock_error *err)
{
    struct redis_session *session = self;
    struct listing listing = {
        .session = session,
        .timeout_ns = deadline_ns - session->host->now_ns(session->host->ctx),
        .fn = fn,
        .arg = arg,
        .prefix = prefix,
        .prefix_len = prefix_len,
    };
    enum dlock_status status = DLOCK_OK;

    if (prefix_len > RESP_NAME_MAX)
        return DLOCK_OK; /* longer than any name */
    listing.pattern_len = resp_keys_pattern(listing.pattern, &session->config, prefix, prefix_len);
    status = session->cluster != NULL ? cluster_scan(&listing, err)
                                      : server_scan(&listing, &session->pool, err);
    tdestroy(listing.seen, free);
    return status;
}
