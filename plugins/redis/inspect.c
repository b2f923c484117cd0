/* SPDX-License-Identifier: MIT */
#include "inspect.h"
#include "lib/request.h"
#include "redis/call/call.h"
#include "redis/call/route.h"
#include "redis/link/config.h"
#include "redis/servers/cluster.h"
#include "resp/error.h"
#include "resp/keys.h"
#include "resp/reply.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the holders of one name, or of several ---- */

#define INSPECT_MOST     100 /* names in one script; other clients wait while it runs */
#define PAGE             200 /* readers in one answer */
#define FEW              8   /* a name with this number of readers is inspected alone */
#define HOLDER_ELEMENTS  6
#define ANSWER_MAX_BYTES ((size_t)2 * 1024 * 1024) /* FEW holders with data of each name */

struct inspected {
    bool stopped; /* fn returned true */
    bool foreign; /* with CONFIG: a key of the name has another type */
};

/* "x", "s", or the limit and the permit of a semaphore; a limit of 1 is that of a kept lock. */
static bool mode_read(const char *text, struct dlock_holder *lease)
{
    char *end = NULL;
    unsigned long limit = strtoul(text, &end, 10);
    unsigned long permit = limit > 0 && *end == ' ' ? strtoul(end + 1, &end, 10) : 0;

    lease->mode = text[0] == 's' ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    lease->limit = limit > 1 ? (uint32_t)limit : 0;
    lease->permit = (uint32_t)permit;
    if (limit == 0)
        return strcmp(text, "x") == 0 || strcmp(text, "s") == 0;
    return limit <= REDIS_LIMIT_MAX && permit < limit && *end == '\0';
}

/* The i-th holder of an answer of inspect.lua. False: it is malformed. */
static bool holder_read(const redisReply *reply, size_t i, struct dlock_holder *lease)
{
    size_t at = 1 + i * HOLDER_ELEMENTS;
    const redisReply *mode = resp_reply_text(reply, at);
    const redisReply *owner = resp_reply_text(reply, at + 1);
    const redisReply *label = resp_reply_text(reply, at + 5);
    int64_t fence = 0;

    if (mode == NULL || owner == NULL || label == NULL ||
        !resp_reply_int(reply, at + 2, -1, INT64_MAX, &lease->remaining_ms) ||
        !resp_reply_int(reply, at + 3, 0, INT64_MAX, &fence) ||
        !resp_reply_int(reply, at + 4, INT64_MIN, INT64_MAX, &lease->held_ms))
        return false;
    if (!mode_read(mode->str, lease))
        return false;
    lease->kept = mode->str[0] != 'x' && owner->str[0] == 'k';
    lease->owner = lease->kept ? "" : owner->str;
    dl_holder_text_read(lease, label->str, label->len);
    if (lease->kept) { /* C24 */
        lease->data = NULL;
        lease->data_len = 0;
    }
    lease->fence = (uint64_t)fence;
    lease->fence_last = lease->fence + REDIS_FENCE_ROOM;
    if (lease->held_ms < -1) /* the server's clock went back */
        lease->held_ms = 0;
    return true;
}

static size_t holders_count(const redisReply *reply)
{
    return (reply->elements - 1) / HOLDER_ELEMENTS;
}

static bool name_validate(const redisReply *reply)
{
    struct dlock_holder lease;
    int64_t waiters = 0;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
        (reply->elements - 1) % HOLDER_ELEMENTS != 0 ||
        !resp_reply_int(reply, 0, 0, UINT32_MAX - 1, &waiters))
        return false;
    for (size_t i = 0; i < holders_count(reply); i++)
        if (!holder_read(reply, i, &lease))
            return false;
    return true;
}

/* call->expects: the number of names. */
static bool names_validate(const struct redis_call *call, const redisReply *reply)
{
    if (!resp_reply_array(reply, call->expects))
        return false;
    for (size_t i = 0; i < reply->elements; i++)
        if (!name_validate(reply->element[i]))
            return false;
    return true;
}

static void holders_tell(const redisReply *reply, struct dlock_holder *lease, dlock_holder_fn *fn,
                         void *arg, bool *stopped)
{
    lease->waiters = (uint32_t)reply->element[0]->integer;
    for (size_t i = 0; !*stopped && i < holders_count(reply); i++) {
        (void)holder_read(reply, i, lease);
        *stopped = fn(arg, lease) != 0;
    }
}

/* A page of the readers of each name. */
struct page {
    int64_t most, passed;
};

static enum dlock_status page_inspect(struct redis_session *session, const struct resp_keys *keys,
                                      size_t n, struct page page, int64_t deadline_ns,
                                      redisReply **reply, bool *foreign, struct dlock_error *err)
{
    struct redis_call call;
    char most[RESP_DIGITS], from[RESP_DIGITS], names[RESP_DIGITS];
    enum dlock_status status = DLOCK_INTERNAL;

    redis_call_begin(&call, REDIS_SCRIPT_INSPECT, keys, n, names_validate);
    resp_command_text(&call.command, resp_command_number(most, page.most));
    resp_command_text(&call.command, resp_command_number(from, page.passed));
    resp_command_text(&call.command, resp_command_number(names, (int64_t)n));
    call.reply_max = ANSWER_MAX_BYTES;
    call.expects = n;
    status = redis_route_run(session, keys, &call, deadline_ns, reply, err);
    *foreign = call.outcome.foreign;
    return status;
}

static enum dlock_status name_inspect(struct redis_session *session, const unsigned char *name,
                                      uint32_t name_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                      void *arg, struct inspected *inspected,
                                      struct dlock_error *err)
{
    struct dlock_holder lease = {
        .struct_size = sizeof lease, .name = name, .name_len = name_len, .owner = ""};
    struct page page = {.most = PAGE};
    struct resp_keys keys;
    enum dlock_status status = DLOCK_OK;
    size_t count = PAGE;

    resp_keys_make(&keys, &session->config, name, name_len);
    for (; status == DLOCK_OK && !inspected->stopped && count >= PAGE; page.passed += PAGE) {
        redisReply *reply = NULL;

        status =
            page_inspect(session, &keys, 1, page, deadline_ns, &reply, &inspected->foreign, err);
        count = status == DLOCK_OK ? holders_count(reply->element[0]) : 0;
        if (status == DLOCK_OK)
            holders_tell(reply->element[0], &lease, fn, arg, &inspected->stopped);
        freeReplyObject(reply);
    }
    return status;
}

/* In one exchange; reads only name and name_len of `names`. If a key of one name is foreign, fn is
 * called for no name. Not with key=raw. */
static enum dlock_status names_inspect(struct redis_session *session,
                                       const struct dlock_holder *names, size_t n,
                                       int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                       struct inspected *inspected, struct dlock_error *err)
{
    const struct page page = {.most = FEW};
    struct resp_keys *keys = calloc(n, sizeof *keys);
    redisReply *reply = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    if (keys == NULL)
        return resp_error_fail(&session->config, err, DLOCK_NOMEM, "no memory for a list");
    for (size_t i = 0; i < n; i++)
        resp_keys_make(&keys[i], &session->config, names[i].name, names[i].name_len);
    status = page_inspect(session, keys, n, page, deadline_ns, &reply, &inspected->foreign, err);
    free(keys);
    for (size_t i = 0; i < n && status == DLOCK_OK && !inspected->stopped; i++) {
        struct dlock_holder lease = names[i];

        if (holders_count(reply->element[i]) < FEW)
            holders_tell(reply->element[i], &lease, fn, arg, &inspected->stopped);
        else
            status = name_inspect(session, lease.name, lease.name_len, deadline_ns, fn, arg,
                                  inspected, err);
    }
    if (reply != NULL) /* set since then by the inspection of a name alone */
        inspected->foreign = false;
    freeReplyObject(reply);
    return status;
}

enum dlock_status redis_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                struct dlock_error *err)
{
    struct redis_session *session = self;
    struct inspected inspected = {.stopped = false};
    enum dlock_status status = resp_keys_refuse(&session->config, name, name_len, err);

    if (status != DLOCK_OK)
        return status;
    return name_inspect(session, name, name_len, deadline_ns, fn, arg, &inspected, err);
}

/* ---- the live holders of many names ----
 *
 * A page of SCAN at a time: KEYS would block the server. Each exchange may take as long as the
 * caller allowed for the list: the number of names is not known before.
 */

#define SCAN_COUNT     "100"
#define CURSOR_SIZE    24
#define SCAN_MAX_BYTES ((size_t)1024 * 1024)

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
    struct inspected inspected;
    struct dlock_holder names[INSPECT_MOST]; /* to be inspected; borrowed from seen */
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
    enum dlock_status status = name_inspect(session, name->name, name->name_len, due_ns(listing),
                                            lease_tell, listing, &listing->inspected, err);

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
        status = names_inspect(listing->session, listing->names, count, due_ns(listing), lease_tell,
                               listing, &listing->inspected, err);
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
    return listing->name_count == INSPECT_MOST ? names_tell(listing, err) : DLOCK_OK;
}

static bool scan_validate(const struct redis_call *call, const redisReply *reply)
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

    redis_call_begin_plain(&call, scan_validate);
    call.reply_max = SCAN_MAX_BYTES;
    resp_command_text(&call.command, "SCAN");
    resp_command_text(&call.command, listing->cursor);
    resp_command_text(&call.command, "MATCH");
    resp_command_add(&call.command, listing->pattern, listing->pattern_len);
    resp_command_text(&call.command, "COUNT");
    resp_command_text(&call.command, SCAN_COUNT);
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

enum dlock_status redis_inspect_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
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

/* ---- the queue of a name ----
 *
 * A page begins behind the number of the last waiter of the page before it, and not behind a count:
 * a waiter that leaves the queue in between hides no other waiter.
 */

#define WAITERS_PAGE      200 /* waiters in one answer; other clients wait while the script runs */
#define WAITER_ELEMENTS   4
#define WAITERS_MAX_BYTES ((size_t)1024 * 1024)

static size_t waiters_count(const redisReply *reply)
{
    return (reply->elements - 1) / WAITER_ELEMENTS;
}

/* The i-th waiter of an answer of waiters.lua. False: it is malformed. */
static bool waiter_read(const redisReply *reply, size_t i, struct dlock_waiter *waiter)
{
    size_t at = 1 + i * WAITER_ELEMENTS;
    const redisReply *mode = resp_reply_text(reply, at);
    const redisReply *owner = resp_reply_text(reply, at + 1);
    const redisReply *label = resp_reply_text(reply, at + 2);

    if (mode == NULL || owner == NULL || label == NULL || mode->len == 0 ||
        !resp_reply_int(reply, at + 3, -1, INT64_MAX, &waiter->waited_ms))
        return false;
    waiter->mode = mode->str[0] == 's' ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    waiter->owner = owner->str;
    waiter->label = label->str;
    return strchr("xs", mode->str[0]) != NULL ? mode->len == 1 : strtoul(mode->str, NULL, 10) > 1;
}

static bool waiters_validate(const struct redis_call *call, const redisReply *reply)
{
    struct dlock_waiter waiter;

    (void)call;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
        (reply->elements - 1) % WAITER_ELEMENTS != 0)
        return false;
    for (size_t i = 0; i < waiters_count(reply); i++)
        if (!waiter_read(reply, i, &waiter))
            return false;
    return resp_reply_text(reply, 0) != NULL && reply->element[0]->len < RESP_DIGITS;
}

/* after: in and out, what waiters.lua says; "" after the last page. */
static enum dlock_status waiters_read(struct redis_session *session, const struct resp_keys *keys,
                                      char after[RESP_DIGITS], int64_t deadline_ns,
                                      redisReply **reply, struct dlock_error *err)
{
    struct redis_call call;
    char most[RESP_DIGITS];
    enum dlock_status status = DLOCK_INTERNAL;

    redis_call_begin(&call, REDIS_SCRIPT_WAITERS, keys, 1, waiters_validate);
    resp_command_text(&call.command, after);
    resp_command_text(&call.command, resp_command_number(most, WAITERS_PAGE));
    call.reply_max = WAITERS_MAX_BYTES;
    status = redis_route_run(session, keys, &call, deadline_ns, reply, err);
    if (status == DLOCK_OK)
        (void)snprintf(after, RESP_DIGITS, "%s", (*reply)->element[0]->str);
    return status;
}

enum dlock_status redis_inspect_waiters(void *self, const unsigned char *name, uint32_t name_len,
                                        int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                        struct dlock_error *err)
{
    struct redis_session *session = self;
    struct dlock_waiter waiter = {.struct_size = sizeof waiter};
    struct resp_keys keys;
    char after[RESP_DIGITS] = "0";
    bool stopped = false;
    enum dlock_status status = resp_keys_refuse(&session->config, name, name_len, err);

    resp_keys_make(&keys, &session->config, name, name_len);
    while (status == DLOCK_OK && !stopped && after[0] != '\0') {
        redisReply *reply = NULL;

        status = waiters_read(session, &keys, after, deadline_ns, &reply, err);
        for (size_t i = 0; status == DLOCK_OK && i < waiters_count(reply) && !stopped; i++) {
            (void)waiter_read(reply, i, &waiter);
            stopped = fn(arg, &waiter);
            waiter.position++;
        }
        freeReplyObject(reply);
    }
    return status;
}
