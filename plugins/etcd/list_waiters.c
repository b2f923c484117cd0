/* SPDX-License-Identifier: MIT */
/* A page begins behind the create_revision of the last key of the page before it, and not behind a
 * count: a key that is deleted in between hides no other key. */
#include "list_waiters.h"

#include "admin.h"
#include "txn.h"
#include "value.h"

#define PAGE 500

struct listing {
    struct etcd_session *session;
    struct etcd_keys keys;
    dlock_waiter_fn *fn;
    void *arg;
    struct dlock_waiter waiter; /* the next one */
    int64_t from;               /* the least create_revision of the next page */
    struct etcd_admin_walk walk;
    bool stopped, more;
};

/* True: the caller wants no more. */
static bool key_report(struct listing *listing, const Pb__KeyValue *kv)
{
    char owner[ETCD_ADMIN_OWNER_SIZE], label[ETCD_VALUE_SIZE];
    bool stop = false;

    listing->from = kv->create_revision + 1;
    if (etcd_admin_holds(&listing->walk, kv))
        return false;
    etcd_admin_owner(owner, kv, &listing->keys);
    etcd_value_label(label, sizeof label, kv->value.data, kv->value.len);
    listing->waiter.mode =
        etcd_value_is_shared(kv->value.data, kv->value.len) ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    listing->waiter.owner = owner;
    listing->waiter.label = label;
    stop = listing->fn(listing->arg, &listing->waiter);
    listing->waiter.position++;
    return stop;
}

static enum dlock_status page_report(struct listing *listing, const Pb__RangeResponse *answer,
                                     struct dlock_error *err)
{
    if (!etcd_admin_is_sound(answer, &listing->keys))
        return dlock_fail(err, ETCD_ORIGIN, DLOCK_PROTOCOL, 0,
                          "an answer with keys that are not of the name");
    for (size_t i = 0; i < answer->n_kvs && !listing->stopped; i++)
        listing->stopped = key_report(listing, answer->kvs[i]);
    listing->more = answer->more && answer->n_kvs > 0;
    return DLOCK_OK;
}

static enum dlock_status page_read(struct listing *listing, int64_t deadline_ns,
                                   struct dlock_error *err)
{
    Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
    struct etcd_rpc rpc, *flight[] = {&rpc};
    enum dlock_status status = DLOCK_NOMEM;

    etcd_admin_range(&range, &listing->keys);
    range.limit = PAGE;
    range.min_create_revision = listing->from;
    etcd_rpc_init(&rpc, ETCD_RANGE, 1);
    if (etcd_rpc_add(&rpc, &range.base))
        status =
            etcd_exchange(&listing->session->endpoints, flight, 1, false, deadline_ns, NULL, err);
    else
        status = dlock_fail(err, ETCD_ORIGIN, status, 0, "no memory for a list");
    if (status == DLOCK_OK)
        status = page_report(
            listing, (const Pb__RangeResponse *)(const void *)etcd_rpc_answer(&rpc, 0), err);
    etcd_rpc_fini(&rpc);
    return status;
}

enum dlock_status etcd_admin_list_waiters(struct etcd_session *session, const unsigned char *name,
                                          uint32_t name_len, int64_t deadline_ns,
                                          dlock_waiter_fn *fn, void *arg, struct dlock_error *err)
{
    struct listing listing = {
        .session = session,
        .fn = fn,
        .arg = arg,
        .waiter = {.struct_size = sizeof(struct dlock_waiter), .waited_ms = -1},
    };
    enum dlock_status status = DLOCK_OK;

    etcd_keys_make(&listing.keys, &session->config, name, name_len, NULL);
    do
        status = page_read(&listing, deadline_ns, err);
    while (status == DLOCK_OK && listing.more && !listing.stopped);
    return status;
}
