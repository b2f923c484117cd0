/* SPDX-License-Identifier: MIT */
/*
 * The keys of a name stand together, so that one pass in the order of keys finds each name once.
 * With key=raw the keys of "a/b" stand among those of "a": names that were listed are remembered.
 */
#include "list.h"

#include "txn.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_KEYS 500

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
    struct etcd_admin_name names[ETCD_ADMIN_MOST]; /* found, not yet listed */
    size_t count;
    struct etcd_admin_name last; /* the last one that was found */
    void *listed;                /* key=raw: for tsearch */
    bool stopped, more;
};

static enum dlock_status no_memory(struct listing *listing)
{
    return dlock_fail(listing->err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a list");
}

static int64_t due_ns(const struct listing *listing)
{
    return etcd_stock_now(&listing->session->stock) + listing->timeout_ns;
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
    size_t len = etcd_keys_prefix(listing->end, &listing->session->config, listing->prefix,
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

/* ---- names ---- */

static int name_compare(const void *a, const void *b)
{
    const struct etcd_admin_name *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->len < y->len ? x->len : y->len);

    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

/* False: no memory. */
static bool is_listed(struct listing *listing, const struct etcd_admin_name *name, bool *listed)
{
    struct etcd_admin_name *copy = NULL;
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
    return etcd_admin_names(listing->session, listing->names, count, due_ns(listing), listing->fn,
                            listing->arg, &listing->stopped, listing->err);
}

static enum dlock_status key_take(struct listing *listing, const Pb__KeyValue *kv)
{
    struct etcd_key_parts parts;
    struct etcd_admin_name name = {.len = 0};
    bool listed = false;

    if (!etcd_keys_parse(&parts, &listing->session->config, kv->key.data, kv->key.len) ||
        parts.name_len < listing->prefix_len ||
        memcmp(parts.name, listing->prefix, listing->prefix_len) != 0)
        return DLOCK_OK;
    name.len = (uint32_t)parts.name_len;
    memcpy(name.bytes, parts.name, parts.name_len);
    if (!is_listed(listing, &name, &listed))
        return no_memory(listing);
    listing->last = name;
    if (listed)
        return DLOCK_OK;
    listing->names[listing->count++] = name;
    return listing->count == ETCD_ADMIN_MOST ? names_list(listing) : DLOCK_OK;
}

/* ---- pages ---- */

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
        status = no_memory(listing);
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

enum dlock_status etcd_admin_list(struct etcd_session *session, const unsigned char *prefix,
                                  uint32_t prefix_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                  void *arg, struct dlock_error *err)
{
    struct listing *listing = prefix_len <= 255 ? calloc(1, sizeof *listing) : NULL;
    enum dlock_status status = DLOCK_OK;

    if (prefix_len > 255)
        return DLOCK_OK; /* longer than any name */
    if (listing == NULL)
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a list");
    listing->session = session;
    listing->timeout_ns = deadline_ns - etcd_stock_now(&session->stock);
    listing->fn = fn;
    listing->arg = arg;
    listing->err = err;
    listing->prefix = prefix;
    listing->prefix_len = prefix_len;
    if (!range_set(listing))
        status = no_memory(listing);
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
