/* SPDX-License-Identifier: MIT */
#include "admin.h"

#include "kv.h"
#include "rpc.h"
#include "txn.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MOST 64  /* names at a time */
#define OWNER_SIZE 129 /* foreign keys may have long owners, which are cut */

struct name {
    unsigned char bytes[256];
    uint32_t len;
};

/* True: the key holds the name, or is kept. Called for the keys of a name, the oldest first. */
struct walk {
    bool begun, readers; /* all keys so far are readers' */
};

#define READERS_MOST 2000 /* of one name, in an answer */
#define PAGE_KEYS    500
#define MS_PER_S     1000

/* What is read of the names. */
struct reading {
    struct etcd_session *session;
    const struct name *names;
    size_t n;
    int64_t deadline_ns;
    struct dlock_error *err;
    struct etcd_rpc *ranges; /* n of them */
    struct etcd_rpc *leases; /* of the holders, in their order */
    struct etcd_rpc **sent;  /* of pointers to either */
    enum dlock_status *statuses;
    size_t holders;
};

/* The keys of a name, the oldest first. */
static void name_range(Pb__RangeRequest *range, const struct etcd_keys *keys)
{
    range->key = etcd_txn_bytes(keys->key, keys->dir_len);
    range->range_end = etcd_txn_bytes(keys->end, keys->dir_len);
    range->sort_target = PB__RANGE_REQUEST__TARGET__CREATE;
    range->sort_order = PB__RANGE_REQUEST__ORDER__ASCEND;
    range->limit = READERS_MOST;
}

/* False: there are keys in the answer that are not of the name. */
static bool is_sound(const Pb__RangeResponse *answer, const struct etcd_keys *keys)
{
    for (size_t i = 0; i < answer->n_kvs; i++) {
        const ProtobufCBinaryData *key = &answer->kvs[i]->key;

        if (key->len < keys->dir_len || memcmp(key->data, keys->key, keys->dir_len) != 0)
            return false;
    }
    return true;
}

static bool holds_name(struct walk *walk, const Pb__KeyValue *kv)
{
    const bool first = !walk->begun;
    struct etcd_value value;

    etcd_kv_parse(&value, kv->value.data, kv->value.len);
    walk->begun = true;
    walk->readers = value.shared && (first || walk->readers);
    return value.limit > 1 ? !value.waits : first || walk->readers;
}

/* How many of them, from the first one on, hold the name. */
static size_t holders_count(const Pb__RangeResponse *answer)
{
    struct walk walk = {.begun = false};
    size_t holders = 0;

    while (holders < answer->n_kvs && holds_name(&walk, answer->kvs[holders]))
        holders++;
    return holders;
}

static const Pb__RangeResponse *range_of(const struct reading *reading, size_t i)
{
    return (const Pb__RangeResponse *)(const void *)etcd_rpc_answer(&reading->ranges[i], 0);
}

/* ---- the holders of several names ---- */

static enum dlock_status no_memory(struct dlock_error *err)
{
    return dlock_fail(err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a list");
}

static enum dlock_status ranges_read(struct reading *reading)
{
    reading->ranges = calloc(reading->n, sizeof *reading->ranges);
    reading->sent = calloc(reading->n, sizeof *reading->sent);
    if (reading->ranges == NULL || reading->sent == NULL)
        return no_memory(reading->err);
    for (size_t i = 0; i < reading->n; i++) {
        Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
        struct etcd_keys keys;

        etcd_kv_keys(&keys, &reading->session->config, reading->names[i].bytes,
                     reading->names[i].len, NULL);
        name_range(&range, &keys);
        etcd_rpc_init(&reading->ranges[i], ETCD_RANGE, 1);
        reading->sent[i] = &reading->ranges[i];
        if (!etcd_rpc_add(&reading->ranges[i], &range.base))
            return no_memory(reading->err);
    }
    return etcd_exchange(&reading->session->endpoints, reading->sent, reading->n, false,
                         reading->deadline_ns, NULL, reading->err);
}

static bool lease_ask(struct etcd_rpc *rpc, int64_t id)
{
    Pb__LeaseRequest request = PB__LEASE_REQUEST__INIT;

    request.id = id;
    etcd_rpc_init(rpc, ETCD_LEASE_TIME_TO_LIVE, 1);
    return etcd_rpc_add(rpc, &request.base);
}

static enum dlock_status ranges_check(const struct reading *reading)
{
    for (size_t i = 0; i < reading->n; i++) {
        struct etcd_keys keys;

        etcd_kv_keys(&keys, &reading->session->config, reading->names[i].bytes,
                     reading->names[i].len, NULL);
        if (!is_sound(range_of(reading, i), &keys))
            return dlock_fail(reading->err, ETCD_ORIGIN, DLOCK_PROTOCOL, 0,
                              "an answer with keys that are not of the name");
    }
    return DLOCK_OK;
}

/* The rest of each lease; a lease that cannot be read has an unknown rest. */
static enum dlock_status leases_read(struct reading *reading)
{
    size_t next = 0;
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 0; i < reading->n; i++)
        reading->holders += holders_count(range_of(reading, i));
    if (reading->holders == 0)
        return DLOCK_OK;
    free(reading->sent);
    reading->sent = calloc(reading->holders, sizeof *reading->sent);
    reading->leases = calloc(reading->holders, sizeof *reading->leases);
    reading->statuses = calloc(reading->holders, sizeof *reading->statuses);
    if (reading->sent == NULL || reading->leases == NULL || reading->statuses == NULL)
        return no_memory(reading->err);
    for (size_t i = 0; i < reading->n; i++) {
        const Pb__RangeResponse *answer = range_of(reading, i);
        const size_t holders = holders_count(answer);

        for (size_t k = 0; k < holders; k++, next++) {
            reading->sent[next] = &reading->leases[next];
            if (!lease_ask(&reading->leases[next], answer->kvs[k]->lease))
                return no_memory(reading->err);
        }
    }
    for (size_t i = 0; i < next && status == DLOCK_OK; i += NAMES_MOST)
        status = etcd_exchange(&reading->session->endpoints, reading->sent + i,
                               next - i < NAMES_MOST ? next - i : NAMES_MOST, false,
                               reading->deadline_ns, reading->statuses + i, reading->err);
    return status == DLOCK_LOST ? DLOCK_OK : status;
}

static void reading_free(struct reading *reading)
{
    for (size_t i = 0; i < reading->n && reading->ranges != NULL; i++)
        etcd_rpc_fini(&reading->ranges[i]);
    for (size_t i = 0; i < reading->holders && reading->leases != NULL; i++)
        etcd_rpc_fini(&reading->leases[i]);
    free(reading->ranges);
    free(reading->leases);
    free(reading->sent);
    free(reading->statuses);
}

static int64_t remaining_ms(const struct reading *reading, size_t holder)
{
    const Pb__LeaseResponse *answer = NULL;

    if (reading->statuses == NULL || reading->statuses[holder] != DLOCK_OK ||
        reading->leases[holder].count == 0)
        return -1;
    answer = (const Pb__LeaseResponse *)(const void *)etcd_rpc_answer(&reading->leases[holder], 0);
    return answer->ttl >= 0 ? answer->ttl * MS_PER_S : -1;
}

/* The owner token in a key of the name, or the foreign text there. */
static void owner_copy(char out[OWNER_SIZE], const Pb__KeyValue *kv, const struct etcd_keys *keys)
{
    size_t len = kv->key.len - keys->dir_len;

    if (len > OWNER_SIZE - 1)
        len = OWNER_SIZE - 1;
    memcpy(out, kv->key.data + keys->dir_len, len);
    out[len] = '\0';
}

/* True: the caller wants no more. */
static bool report(const struct reading *reading, size_t i, const Pb__KeyValue *kv,
                   uint32_t waiters, int64_t left_ms, dlock_holder_fn *fn, void *arg)
{
    const uint64_t scale = reading->session->config.fence_scale;
    char owner[OWNER_SIZE], label[ETCD_VALUE_SIZE];
    struct etcd_value value;
    struct etcd_keys keys;
    struct dlock_holder holder = {
        .struct_size = sizeof holder,
        .name = reading->names[i].bytes,
        .name_len = reading->names[i].len,
        .waiters = waiters,
        .fence = (uint64_t)kv->create_revision * scale,
        .fence_last = (uint64_t)kv->create_revision * scale + scale - 1,
        .remaining_ms = left_ms,
        .held_ms = -1,
        .owner = owner,
        .label = label,
    };

    etcd_kv_keys(&keys, &reading->session->config, reading->names[i].bytes, reading->names[i].len,
                 NULL);
    etcd_kv_parse(&value, kv->value.data, kv->value.len);
    holder.mode = value.shared ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    holder.limit = value.limit > 1 ? value.limit : 0;
    holder.permit = value.permit;
    holder.kept = value.kept;
    owner_copy(owner, kv, &keys);
    if (value.kept)
        owner[0] = '\0';
    etcd_kv_label(label, sizeof label, kv->value.data, kv->value.len);
    etcd_kv_data(&holder, &value);
    return fn(arg, &holder);
}

static bool names_report(const struct reading *reading, dlock_holder_fn *fn, void *arg)
{
    size_t next = 0;

    for (size_t i = 0; i < reading->n; i++) {
        const Pb__RangeResponse *answer = range_of(reading, i);
        const size_t holders = holders_count(answer);
        const bool all = holders < answer->n_kvs || !answer->more;
        const int64_t others = answer->count - (int64_t)holders;
        const uint32_t waiters =
            all && others >= 0 && others < UINT32_MAX ? (uint32_t)others : UINT32_MAX;

        for (size_t k = 0; k < holders; k++, next++)
            if (report(reading, i, answer->kvs[k], waiters, remaining_ms(reading, next), fn, arg))
                return true;
    }
    return false;
}

/* The holders of n names, in two exchanges. *stopped: fn wants no more. */
static enum dlock_status names_inspect(struct etcd_session *session, const struct name *names,
                                       size_t n, int64_t deadline_ns, dlock_holder_fn *fn,
                                       void *arg, bool *stopped, struct dlock_error *err)
{
    struct reading reading = {
        .session = session, .names = names, .n = n, .deadline_ns = deadline_ns, .err = err};
    enum dlock_status status = ranges_read(&reading);

    if (status == DLOCK_OK)
        status = ranges_check(&reading);
    if (status == DLOCK_OK)
        status = leases_read(&reading);
    if (status == DLOCK_OK)
        *stopped = names_report(&reading, fn, arg);
    reading_free(&reading);
    return status;
}

enum dlock_status etcd_admin_inspect(void *self, const unsigned char *name, uint32_t name_len,
                                     int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                     struct dlock_error *err)
{
    struct etcd_session *session = self;
    struct name one = {.len = name_len};
    bool stopped = false;

    if (name_len > sizeof one.bytes)
        return DLOCK_OK;
    memcpy(one.bytes, name, name_len);
    return names_inspect(session, &one, 1, deadline_ns, fn, arg, &stopped, err);
}

/* ---- names, page by page ---- */

/*
 * The keys of a name stand together, so that one pass in the order of keys finds each name once.
 * With key=raw the keys of "a/b" stand among those of "a": names that were listed are remembered.
 */
struct listing {
    struct etcd_session *session;
    int64_t timeout_ns; /* of each exchange */
    dlock_holder_fn *fn;
    void *arg;
    struct dlock_error *err;
    const unsigned char *prefix; /* of the names */
    uint32_t prefix_len;
    unsigned char end[ETCD_KEY_MAX + 1];
    size_t end_len;
    unsigned char *from; /* the first key of the next page; malloced */
    size_t from_len;
    struct name names[NAMES_MOST]; /* found, not yet listed */
    size_t count;
    struct name last; /* the last one that was found */
    void *listed;     /* key=raw: for tsearch */
    bool stopped, more;
};

static int64_t due_ns(const struct listing *listing)
{
    return etcd_lease_pool_now(&listing->session->pool) + listing->timeout_ns;
}

static bool from_set(struct listing *listing, const void *key, size_t len, bool after)
{
    unsigned char *from = malloc(len + 1);

    if (from == NULL)
        return false;
    memcpy(from, key, len);
    from[len] = 0;
    free(listing->from);
    listing->from = from;
    listing->from_len = after ? len + 1 : len;
    return true;
}

/* From the prefix to the first key that does not begin with it; no such key: to the last one. */
static bool range_set(struct listing *listing)
{
    size_t len = etcd_kv_prefix(listing->end, &listing->session->config, listing->prefix,
                                listing->prefix_len);
    bool made =
        len > 0 ? from_set(listing, listing->end, len, false) : from_set(listing, "", 0, true);

    while (len > 0 && listing->end[len - 1] == 0xFF)
        len--;
    if (len > 0)
        listing->end[len - 1]++;
    else
        listing->end[len++] = 0;
    listing->end_len = len;
    return made;
}

static int name_compare(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->len < y->len ? x->len : y->len);

    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

/* False: no memory. */
static bool is_listed(struct listing *listing, const struct name *name, bool *listed)
{
    struct name *copy = NULL;
    void **at = NULL;

    *listed = listing->last.len > 0 && name_compare(name, &listing->last) == 0;
    if (*listed || !listing->session->config.raw)
        return true;
    copy = malloc(sizeof *copy);
    if (copy == NULL)
        return false;
    *copy = *name;
    at = tsearch(copy, &listing->listed, name_compare);
    *listed = at != NULL && *at != copy;
    if (at == NULL || *at != copy)
        free(copy);
    return at != NULL;
}

static enum dlock_status names_list(struct listing *listing)
{
    const size_t count = listing->count;

    listing->count = 0;
    if (count == 0 || listing->stopped)
        return DLOCK_OK;
    return names_inspect(listing->session, listing->names, count, due_ns(listing), listing->fn,
                         listing->arg, &listing->stopped, listing->err);
}

static enum dlock_status key_take(struct listing *listing, const Pb__KeyValue *kv)
{
    struct etcd_key_parts parts;
    struct name name = {.len = 0};
    bool listed = false;

    if (!etcd_kv_parse_key(&parts, &listing->session->config, kv->key.data, kv->key.len) ||
        parts.name_len < listing->prefix_len ||
        memcmp(parts.name, listing->prefix, listing->prefix_len) != 0)
        return DLOCK_OK;
    name.len = (uint32_t)parts.name_len;
    memcpy(name.bytes, parts.name, parts.name_len);
    if (!is_listed(listing, &name, &listed))
        return no_memory(listing->err);
    listing->last = name;
    if (listed)
        return DLOCK_OK;
    listing->names[listing->count++] = name;
    return listing->count == NAMES_MOST ? names_list(listing) : DLOCK_OK;
}

/* A page that does not get on would be read for ever. */
static bool is_further(const struct listing *listing, const ProtobufCBinaryData *key)
{
    const size_t len = key->len < listing->from_len ? key->len : listing->from_len;
    const int order = len > 0 ? memcmp(key->data, listing->from, len) : 0;

    return order > 0 || (order == 0 && key->len >= listing->from_len);
}

static enum dlock_status page_take(struct listing *listing, const Pb__RangeResponse *answer)
{
    enum dlock_status status = DLOCK_OK;

    listing->more = answer->more && answer->n_kvs > 0;
    if (listing->more && !is_further(listing, &answer->kvs[answer->n_kvs - 1]->key))
        return dlock_fail(listing->err, ETCD_ORIGIN, DLOCK_PROTOCOL, 0,
                          "an answer with keys that nobody asked for");
    for (size_t i = 0; i < answer->n_kvs && status == DLOCK_OK && !listing->stopped; i++)
        status = key_take(listing, answer->kvs[i]);
    if (listing->more && status == DLOCK_OK &&
        !from_set(listing, answer->kvs[answer->n_kvs - 1]->key.data,
                  answer->kvs[answer->n_kvs - 1]->key.len, true))
        status = no_memory(listing->err);
    return status;
}

static enum dlock_status page_read(struct listing *listing)
{
    Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
    struct etcd_rpc rpc;
    enum dlock_status status = DLOCK_INTERNAL;

    range.key = etcd_txn_bytes(listing->from, listing->from_len);
    range.range_end = etcd_txn_bytes(listing->end, listing->end_len);
    range.limit = PAGE_KEYS;
    range.keys_only = true;
    etcd_rpc_init(&rpc, ETCD_RANGE, 1);
    status = etcd_exchange_one(&listing->session->endpoints, &rpc, &range.base, false,
                               due_ns(listing), listing->err);
    if (status == DLOCK_OK)
        status =
            page_take(listing, (const Pb__RangeResponse *)(const void *)etcd_rpc_answer(&rpc, 0));
    etcd_rpc_fini(&rpc);
    return status;
}

enum dlock_status etcd_admin_list(void *self, const unsigned char *prefix, uint32_t prefix_len,
                                  int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                  struct dlock_error *err)
{
    struct etcd_session *session = self;
    struct listing *listing = prefix_len <= 255 ? calloc(1, sizeof *listing) : NULL;
    enum dlock_status status = DLOCK_OK;

    if (prefix_len > 255)
        return DLOCK_OK; /* longer than any name */
    if (listing == NULL)
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a list");
    listing->session = session;
    listing->timeout_ns = deadline_ns - etcd_lease_pool_now(&session->pool);
    listing->fn = fn;
    listing->arg = arg;
    listing->err = err;
    listing->prefix = prefix;
    listing->prefix_len = prefix_len;
    if (!range_set(listing))
        status = no_memory(listing->err);
    do
        status = status == DLOCK_OK ? page_read(listing) : status;
    while (status == DLOCK_OK && listing->more && !listing->stopped);
    if (status == DLOCK_OK)
        status = names_list(listing);
    tdestroy(listing->listed, free);
    free(listing->from);
    free(listing);
    return status;
}

/* ---- waiters ---- */

/* A page begins behind the create_revision of the last key of the page before it, and not behind a
 * count: a key that is deleted in between hides no other key. */
struct waiting {
    struct etcd_session *session;
    struct etcd_keys keys;
    dlock_waiter_fn *fn;
    void *arg;
    struct dlock_waiter waiter; /* the next one */
    int64_t from;               /* the least create_revision of the next page */
    struct walk walk;
    bool stopped, more;
};

/* True: the caller wants no more. */
static bool waiter_report(struct waiting *waiting, const Pb__KeyValue *kv)
{
    char owner[OWNER_SIZE], label[ETCD_VALUE_SIZE];
    bool stop = false;

    waiting->from = kv->create_revision + 1;
    if (holds_name(&waiting->walk, kv))
        return false;
    owner_copy(owner, kv, &waiting->keys);
    etcd_kv_label(label, sizeof label, kv->value.data, kv->value.len);
    waiting->waiter.mode =
        etcd_kv_is_shared(kv->value.data, kv->value.len) ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    waiting->waiter.owner = owner;
    waiting->waiter.label = label;
    stop = waiting->fn(waiting->arg, &waiting->waiter);
    waiting->waiter.position++;
    return stop;
}

static enum dlock_status waiters_report(struct waiting *waiting, const Pb__RangeResponse *answer,
                                        struct dlock_error *err)
{
    if (!is_sound(answer, &waiting->keys))
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_PROTOCOL, 0,
                          "an answer with keys that are not of the name");
    for (size_t i = 0; i < answer->n_kvs && !waiting->stopped; i++)
        waiting->stopped = waiter_report(waiting, answer->kvs[i]);
    waiting->more = answer->more && answer->n_kvs > 0;
    return DLOCK_OK;
}

static enum dlock_status waiters_read(struct waiting *waiting, int64_t deadline_ns,
                                      struct dlock_error *err)
{
    Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
    struct etcd_rpc rpc, *sent[] = {&rpc};
    enum dlock_status status = DLOCK_NOMEM;

    name_range(&range, &waiting->keys);
    range.limit = PAGE_KEYS;
    range.min_create_revision = waiting->from;
    etcd_rpc_init(&rpc, ETCD_RANGE, 1);
    if (etcd_rpc_add(&rpc, &range.base))
        status =
            etcd_exchange(&waiting->session->endpoints, sent, 1, false, deadline_ns, NULL, err);
    else
        status = dlock_fail(err, ETCD_ORIGIN, status, 0, "no memory for a list");
    if (status == DLOCK_OK)
        status = waiters_report(
            waiting, (const Pb__RangeResponse *)(const void *)etcd_rpc_answer(&rpc, 0), err);
    etcd_rpc_fini(&rpc);
    return status;
}

enum dlock_status etcd_admin_list_waiters(void *self, const unsigned char *name, uint32_t name_len,
                                          int64_t deadline_ns, dlock_waiter_fn *fn, void *arg,
                                          struct dlock_error *err)
{
    struct etcd_session *session = self;
    struct waiting waiting = {
        .session = session,
        .fn = fn,
        .arg = arg,
        .waiter = {.struct_size = sizeof(struct dlock_waiter), .waited_ms = -1},
    };
    enum dlock_status status = DLOCK_OK;

    etcd_kv_keys(&waiting.keys, &session->config, name, name_len, NULL);
    do
        status = waiters_read(&waiting, deadline_ns, err);
    while (status == DLOCK_OK && waiting.more && !waiting.stopped);
    return status;
}

/* ---- the end of holders ---- */

#define AT_ONCE 64

/* Each key has a transaction of its own. The transaction deletes the key if its create revision is
 * the one that was read. If an owner is named, the name must not be kept. A cluster without space
 * refuses transactions. Nobody can put a key then, and the keys are read again and deleted without
 * conditions. */
struct breaking {
    struct etcd_session *session;
    struct etcd_keys keys; /* of the name */
    const char *owner;
    int64_t deadline_ns;
    struct dlock_error *err;
    struct etcd_rpc rpcs[AT_ONCE], *sent[AT_ONCE];
    size_t count, ended;
    bool below; /* keys of names below it hold the name */
    bool no_space;
};

/* A key of another name has one more slash: with key=raw that of "a/b" is among those of "a", and
 * that of a client with the path "/locks/app" is among those of the name "app" in "/locks". */
static bool is_meant(struct breaking *breaking, const Pb__KeyValue *kv)
{
    const size_t dir_len = breaking->keys.dir_len;
    struct etcd_value value;
    bool below = false;

    if (breaking->owner == NULL) {
        below = memchr(kv->key.data + dir_len, '/', kv->key.len - dir_len) != NULL;
        breaking->below = breaking->below || below;
        return !below;
    }
    etcd_kv_parse(&value, kv->value.data, kv->value.len);
    if (value.kept)
        return false;
    return kv->key.len - dir_len == strlen(breaking->owner) &&
           memcmp(kv->key.data + dir_len, breaking->owner, kv->key.len - dir_len) == 0;
}

static bool transaction_add(const struct breaking *breaking, struct etcd_rpc *rpc,
                            const Pb__KeyValue *kv)
{
    struct etcd_value value;
    struct etcd_txn txn;

    etcd_kv_parse(&value, kv->value.data, kv->value.len);
    etcd_txn_if_created(&txn, kv->key, kv->create_revision);
    if (breaking->owner != NULL && !value.foreign)
        etcd_txn_and_claim(&txn, kv->key, value.limit);
    etcd_txn_delete(&txn.then, kv->key);
    etcd_rpc_init(rpc, ETCD_TXN, 1);
    return etcd_rpc_add(rpc, etcd_txn_request(&txn));
}

static bool delete_add(const struct breaking *breaking, struct etcd_rpc *rpc,
                       const Pb__KeyValue *kv)
{
    Pb__DeleteRequest request = PB__DELETE_REQUEST__INIT;

    if (!breaking->no_space)
        return transaction_add(breaking, rpc, kv);
    request.key = kv->key;
    etcd_rpc_init(rpc, ETCD_DELETE, 1);
    return etcd_rpc_add(rpc, &request.base);
}

static bool was_deleted(const struct breaking *breaking, const struct etcd_rpc *rpc)
{
    const ProtobufCMessage *answer = etcd_rpc_answer(rpc, 0);

    return breaking->no_space ? ((const Pb__DeleteResponse *)(const void *)answer)->deleted > 0
                              : ((const Pb__TxnResponse *)(const void *)answer)->succeeded;
}

static enum dlock_status break_no_memory(struct breaking *breaking)
{
    return dlock_fail(breaking->err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
}

static enum dlock_status break_flush(struct breaking *breaking)
{
    enum dlock_status status = DLOCK_OK;

    if (breaking->count > 0)
        status = etcd_exchange(&breaking->session->endpoints, breaking->sent, breaking->count, true,
                               breaking->deadline_ns, NULL, breaking->err);
    for (size_t i = 0; i < breaking->count; i++) {
        if (status == DLOCK_OK && was_deleted(breaking, &breaking->rpcs[i]))
            breaking->ended++;
        etcd_rpc_fini(&breaking->rpcs[i]);
    }
    breaking->count = 0;
    return status;
}

static enum dlock_status holders_break(struct breaking *breaking, const Pb__RangeResponse *answer)
{
    const size_t holders = holders_count(answer);
    enum dlock_status status = DLOCK_OK;

    if (!is_sound(answer, &breaking->keys))
        return dlock_fail(breaking->err, ETCD_ORIGIN, DLOCK_PROTOCOL, 0,
                          "an answer with keys that are not of the name");
    for (size_t i = 0; i < holders && status == DLOCK_OK; i++) {
        if (!is_meant(breaking, answer->kvs[i]))
            continue;
        breaking->sent[breaking->count] = &breaking->rpcs[breaking->count];
        if (!delete_add(breaking, &breaking->rpcs[breaking->count++], answer->kvs[i]))
            status = break_no_memory(breaking);
        else if (breaking->count == AT_ONCE)
            status = break_flush(breaking);
    }
    if (status == DLOCK_OK)
        return break_flush(breaking);
    while (breaking->count > 0)
        etcd_rpc_fini(&breaking->rpcs[--breaking->count]);
    return status;
}

static enum dlock_status break_run(struct breaking *breaking)
{
    Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
    struct etcd_rpc rpc;
    enum dlock_status status = DLOCK_INTERNAL;

    name_range(&range, &breaking->keys);
    etcd_rpc_init(&rpc, ETCD_RANGE, 1);
    status = etcd_exchange_one(&breaking->session->endpoints, &rpc, &range.base, false,
                               breaking->deadline_ns, breaking->err);
    if (status == DLOCK_OK)
        status = holders_break(breaking,
                               (const Pb__RangeResponse *)(const void *)etcd_rpc_answer(&rpc, 0));
    etcd_rpc_fini(&rpc);
    return status;
}

enum dlock_status etcd_admin_break(void *self, const unsigned char *name, uint32_t name_len,
                                   const char *owner, int64_t deadline_ns, struct dlock_error *err)
{
    struct etcd_session *session = self;
    struct breaking *breaking = calloc(1, sizeof *breaking);
    size_t ended = 0;
    bool doubt = false, below = false;
    enum dlock_status status = DLOCK_NOMEM;

    if (breaking == NULL)
        return dlock_fail(err, ETCD_ORIGIN, status, 0, "no memory for a request");
    breaking->session = session;
    breaking->owner = owner;
    breaking->deadline_ns = deadline_ns;
    breaking->err = err;
    etcd_kv_keys(&breaking->keys, &session->config, name, name_len, NULL);
    status = break_run(breaking);
    breaking->no_space = status == DLOCK_UNKNOWN && etcd_rpc_no_space(err);
    if (breaking->no_space)
        status = break_run(breaking);
    ended = breaking->ended;
    doubt = breaking->no_space && ended == 0;
    below = breaking->below;
    free(breaking);
    if (status == DLOCK_OK && ended == 0 && below)
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_NOT_HELD, 0,
                          "what holds the name is a lock below it, of another path or with "
                          "key=raw: break that one, or this one with its owner");
    if (status == DLOCK_OK && doubt)
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_UNKNOWN, ETCD_NO_SPACE,
                          "the cluster has no space, and the keys have gone meanwhile");
    if (status == DLOCK_OK && ended == 0)
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_NOT_HELD, 0,
                          owner != NULL ? "not held by this owner" : "the name is free");
    return status;
}
