/* SPDX-License-Identifier: MIT */
#include "admin.h"

#include "txn.h"
#include "value.h"

#include <stdlib.h>
#include <string.h>

#define READERS_MOST 2000 /* of one name, in an answer */
#define MS_PER_S     1000

/* What is read of the names. */
struct reading {
    struct etcd_session *session;
    const struct etcd_admin_name *names;
    size_t n;
    int64_t deadline_ns;
    struct dlock_error *err;
    struct etcd_rpc *ranges;  /* n of them */
    struct etcd_rpc *leases;  /* of the holders, in their order */
    struct etcd_rpc **flight; /* of pointers to either */
    enum dlock_status *statuses;
    size_t holders;
};

void etcd_admin_range(Pb__RangeRequest *range, const struct etcd_keys *keys)
{
    range->key = etcd_txn_bytes(keys->key, keys->dir_len);
    range->range_end = etcd_txn_bytes(keys->end, keys->dir_len);
    range->sort_target = PB__RANGE_REQUEST__TARGET__CREATE;
    range->sort_order = PB__RANGE_REQUEST__ORDER__ASCEND;
    range->limit = READERS_MOST;
}

bool etcd_admin_is_sound(const Pb__RangeResponse *answer, const struct etcd_keys *keys)
{
    for (size_t i = 0; i < answer->n_kvs; i++) {
        const ProtobufCBinaryData *key = &answer->kvs[i]->key;

        if (key->len < keys->dir_len || memcmp(key->data, keys->key, keys->dir_len) != 0)
            return false;
    }
    return true;
}

bool etcd_admin_holds(struct etcd_admin_walk *walk, const Pb__KeyValue *kv)
{
    const bool first = !walk->begun;
    struct etcd_value value;

    etcd_value_parse(&value, kv->value.data, kv->value.len);
    walk->begun = true;
    walk->readers = value.shared && (first || walk->readers);
    return value.limit > 1 ? !value.waits : first || walk->readers;
}

size_t etcd_admin_holders(const Pb__RangeResponse *answer)
{
    struct etcd_admin_walk walk = {.begun = false};
    size_t holders = 0;

    while (holders < answer->n_kvs && etcd_admin_holds(&walk, answer->kvs[holders]))
        holders++;
    return holders;
}

static const Pb__RangeResponse *range_of(const struct reading *reading, size_t i)
{
    return (const Pb__RangeResponse *)(const void *)etcd_rpc_answer(&reading->ranges[i], 0);
}

/* ---- flights ---- */

static enum dlock_status no_memory(struct reading *reading)
{
    return dlock_fail(reading->err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a list");
}

static enum dlock_status ranges_read(struct reading *reading)
{
    reading->ranges = calloc(reading->n, sizeof *reading->ranges);
    reading->flight = calloc(reading->n, sizeof *reading->flight);
    if (reading->ranges == NULL || reading->flight == NULL)
        return no_memory(reading);
    for (size_t i = 0; i < reading->n; i++) {
        Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
        struct etcd_keys keys;

        etcd_keys_make(&keys, &reading->session->config, reading->names[i].bytes,
                       reading->names[i].len, NULL);
        etcd_admin_range(&range, &keys);
        etcd_rpc_init(&reading->ranges[i], ETCD_RANGE, 1);
        reading->flight[i] = &reading->ranges[i];
        if (!etcd_rpc_add(&reading->ranges[i], &range.base))
            return no_memory(reading);
    }
    return etcd_exchange(&reading->session->endpoints, reading->flight, reading->n, false,
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

        etcd_keys_make(&keys, &reading->session->config, reading->names[i].bytes,
                       reading->names[i].len, NULL);
        if (!etcd_admin_is_sound(range_of(reading, i), &keys))
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
        reading->holders += etcd_admin_holders(range_of(reading, i));
    if (reading->holders == 0)
        return DLOCK_OK;
    free(reading->flight);
    reading->flight = calloc(reading->holders, sizeof *reading->flight);
    reading->leases = calloc(reading->holders, sizeof *reading->leases);
    reading->statuses = calloc(reading->holders, sizeof *reading->statuses);
    if (reading->flight == NULL || reading->leases == NULL || reading->statuses == NULL)
        return no_memory(reading);
    for (size_t i = 0; i < reading->n; i++) {
        const Pb__RangeResponse *answer = range_of(reading, i);
        const size_t holders = etcd_admin_holders(answer);

        for (size_t k = 0; k < holders; k++, next++) {
            reading->flight[next] = &reading->leases[next];
            if (!lease_ask(&reading->leases[next], answer->kvs[k]->lease))
                return no_memory(reading);
        }
    }
    for (size_t i = 0; i < next && status == DLOCK_OK; i += ETCD_ADMIN_MOST)
        status = etcd_exchange(&reading->session->endpoints, reading->flight + i,
                               next - i < ETCD_ADMIN_MOST ? next - i : ETCD_ADMIN_MOST, false,
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
    free(reading->flight);
    free(reading->statuses);
}

/* ---- reporting ---- */

static int64_t remaining_ms(const struct reading *reading, size_t holder)
{
    const Pb__LeaseResponse *answer = NULL;

    if (reading->statuses[holder] != DLOCK_OK || reading->leases[holder].count == 0)
        return -1;
    answer = (const Pb__LeaseResponse *)(const void *)etcd_rpc_answer(&reading->leases[holder], 0);
    return answer->ttl >= 0 ? answer->ttl * MS_PER_S : -1;
}

void etcd_admin_owner(char out[ETCD_ADMIN_OWNER_SIZE], const Pb__KeyValue *kv,
                      const struct etcd_keys *keys)
{
    size_t len = kv->key.len - keys->dir_len;

    if (len > ETCD_ADMIN_OWNER_SIZE - 1)
        len = ETCD_ADMIN_OWNER_SIZE - 1;
    memcpy(out, kv->key.data + keys->dir_len, len);
    out[len] = '\0';
}

/* True: the caller wants no more. */
static bool report(const struct reading *reading, size_t i, const Pb__KeyValue *kv,
                   uint32_t waiters, int64_t left_ms, dlock_holder_fn *fn, void *arg)
{
    const uint64_t scale = reading->session->config.fence_scale;
    char owner[ETCD_ADMIN_OWNER_SIZE], label[ETCD_VALUE_SIZE];
    struct etcd_value value;
    struct etcd_keys keys;
    struct dlock_holder holder = {
        .struct_size = sizeof holder,
        .name = reading->names[i].bytes,
        .name_len = reading->names[i].len,
        .waiters = waiters,
        .fence = (uint64_t)kv->create_revision * scale,
        .fence_room = (uint32_t)scale - 1,
        .remaining_ms = left_ms,
        .held_ms = -1,
        .owner = owner,
        .label = label,
    };

    etcd_keys_make(&keys, &reading->session->config, reading->names[i].bytes, reading->names[i].len,
                   NULL);
    etcd_value_parse(&value, kv->value.data, kv->value.len);
    holder.mode = value.shared ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    holder.limit = value.limit > 1 ? value.limit : 0;
    holder.permit = value.permit;
    holder.kept = value.kept;
    etcd_admin_owner(owner, kv, &keys);
    if (value.kept)
        owner[0] = '\0';
    etcd_value_label(label, sizeof label, kv->value.data, kv->value.len);
    etcd_value_data(&holder, &value);
    return fn(arg, &holder);
}

static bool names_report(const struct reading *reading, dlock_holder_fn *fn, void *arg)
{
    size_t next = 0;

    for (size_t i = 0; i < reading->n; i++) {
        const Pb__RangeResponse *answer = range_of(reading, i);
        const size_t holders = etcd_admin_holders(answer);
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

enum dlock_status etcd_admin_names(struct etcd_session *session,
                                   const struct etcd_admin_name *names, size_t n,
                                   int64_t deadline_ns, dlock_holder_fn *fn, void *arg,
                                   bool *stopped, struct dlock_error *err)
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

enum dlock_status etcd_admin_inspect(struct etcd_session *session, const unsigned char *name,
                                     uint32_t name_len, int64_t deadline_ns, dlock_holder_fn *fn,
                                     void *arg, struct dlock_error *err)
{
    struct etcd_admin_name one = {.len = name_len};
    bool stopped = false;

    if (name_len > sizeof one.bytes)
        return DLOCK_OK;
    memcpy(one.bytes, name, name_len);
    return etcd_admin_names(session, &one, 1, deadline_ns, fn, arg, &stopped, err);
}
