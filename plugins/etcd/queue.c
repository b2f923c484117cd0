/* SPDX-License-Identifier: MIT */
#include "queue.h"

#include "lib/time.h"
#include "txn.h"

#include <stdlib.h>
#include <string.h>

#define WRITER_PAGE 2 /* itself, and the key before it */
#define MANY_PAGE   64
#define MS_PER_S    1000

void etcd_queue_range(Pb__RangeRequest *range, const struct etcd_keys *keys, bool many,
                      int64_t max_revision)
{
    range->key = etcd_txn_bytes(keys->key, keys->dir_len);
    range->range_end = etcd_txn_bytes(keys->end, keys->dir_len);
    range->sort_target = PB__RANGE_REQUEST__TARGET__CREATE;
    range->sort_order = PB__RANGE_REQUEST__ORDER__DESCEND;
    range->limit = many ? MANY_PAGE : WRITER_PAGE;
    range->max_create_revision = max_revision;
}

void etcd_queue_own(Pb__RangeRequest *range, const struct etcd_keys *keys)
{
    range->key = etcd_txn_bytes(keys->key, keys->key_len);
}

const Pb__KeyValue *etcd_queue_find(const Pb__RangeResponse *answer, const struct etcd_keys *keys)
{
    for (size_t i = 0; i < answer->n_kvs; i++) {
        const Pb__KeyValue *kv = answer->kvs[i];

        if (kv->key.len == keys->key_len && memcmp(kv->key.data, keys->key, keys->key_len) == 0)
            return kv;
    }
    return NULL;
}

static bool is_semaphore(const struct etcd_position *position)
{
    return position->limit > 1;
}

bool etcd_queue_has_room(const struct etcd_position *position)
{
    return is_semaphore(position) && position->front && position->further == 0 &&
           position->older < position->limit;
}

uint32_t etcd_queue_permit(const struct etcd_position *position)
{
    uint32_t permit = 0;

    while (permit < ETCD_LIMIT_MOST && (position->taken[permit / 8] >> permit % 8 & 1) != 0)
        permit++;
    return permit;
}

/* False: its value says all. */
static bool own_note(struct etcd_position *position, const Pb__KeyValue *own)
{
    struct etcd_value value;

    etcd_kv_parse(&value, own->value.data, own->value.len);
    position->create_revision = own->create_revision;
    position->mod_revision = own->mod_revision;
    position->lease_id = own->lease;
    position->limit = value.limit;
    position->permit = value.permit;
    position->kept = value.kept;
    position->holds = value.limit > 1 && !value.waits && !value.kept;
    return !position->holds && !position->kept;
}

/* Of the first key that has another limit; 0: none has. */
static uint32_t other_limit_find(const Pb__RangeResponse *keys, uint32_t limit)
{
    struct etcd_value value;

    for (size_t i = 0; i < keys->n_kvs; i++) {
        etcd_kv_parse(&value, keys->kvs[i]->value.data, keys->kvs[i]->value.len);
        if (value.limit != limit)
            return value.limit;
    }
    return 0;
}

/* Keys of a semaphore that are older than `below`. */
static void permits_judge(struct etcd_position *position, int64_t below,
                          const Pb__RangeResponse *others)
{
    position->further = 0;
    for (size_t i = 0; i < others->n_kvs && position->older < position->limit; i++) {
        const Pb__KeyValue *kv = others->kvs[i];
        struct etcd_value value;

        if (kv->create_revision >= below)
            continue;
        below = kv->create_revision;
        etcd_kv_parse(&value, kv->value.data, kv->value.len);
        if (value.waits || value.limit != position->limit) {
            position->predecessor = kv;
            return;
        }
        position->older++;
        position->taken[value.permit / 8] |= (unsigned char)(1u << value.permit % 8);
    }
    if (others->more && position->older < position->limit)
        position->further = below;
    else
        position->front = true;
}

/* Keys that are older than `below`. */
static void older_judge(struct etcd_position *position, int64_t below,
                        const Pb__RangeResponse *others, bool shared)
{
    if (is_semaphore(position)) {
        permits_judge(position, below, others);
        return;
    }
    position->further = 0;
    for (size_t i = 0; i < others->n_kvs; i++) {
        const Pb__KeyValue *kv = others->kvs[i];

        if (kv->create_revision >= below)
            continue;
        below = kv->create_revision;
        if (shared && etcd_kv_is_shared(kv->value.data, kv->value.len))
            continue;
        position->predecessor = kv;
        position->predecessor_is_first = !others->more && i + 1 == others->n_kvs;
        return;
    }
    if (others->more)
        position->further = below;
    else
        position->holds = position->create_revision != 0;
}

void etcd_queue_judge(struct etcd_position *position, const Pb__KeyValue *own,
                      const Pb__RangeResponse *others, bool shared)
{
    const int64_t revision = position->revision;
    const uint32_t limit = position->limit;

    *position = (struct etcd_position){.revision = revision, .limit = limit};
    position->keys = others->count < UINT32_MAX ? (uint32_t)others->count : UINT32_MAX - 1;
    if (own != NULL && !own_note(position, own))
        return;
    if (own == NULL)
        position->other_limit = other_limit_find(others, is_semaphore(position) ? limit : 1);
    older_judge(position, own != NULL ? own->create_revision : INT64_MAX, others, shared);
}

/* ---- asking ---- */

static enum dlock_status no_memory(struct dlock_error *err)
{
    return dlock_fail(err, ETCD_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
}

/* One exchange: a Range, and a KeepAlive if there is a lease. */
static enum dlock_status fly(struct etcd_session *session, struct etcd_question *question,
                             const Pb__RangeRequest *range, const struct etcd_lease *lease,
                             int64_t deadline_ns, struct dlock_error *err)
{
    struct etcd_rpc *rpcs[] = {&question->range, &question->alive};
    Pb__LeaseRequest alive = PB__LEASE_REQUEST__INIT;

    etcd_queue_end(question);
    if (!etcd_rpc_add(&question->range, &range->base))
        return no_memory(err);
    if (lease != NULL) {
        alive.id = lease->id;
        if (!etcd_rpc_add(&question->alive, &alive.base))
            return no_memory(err);
    }
    return etcd_exchange(&session->endpoints, rpcs, lease != NULL ? 2 : 1, false, deadline_ns, NULL,
                         err);
}

static const Pb__RangeResponse *answer_of(const struct etcd_question *question)
{
    return (const Pb__RangeResponse *)(const void *)etcd_rpc_answer(&question->range, 0);
}

static int64_t revision_of(const Pb__RangeResponse *answer)
{
    return answer->header != NULL ? answer->header->revision : 0;
}

static void alive_note(struct etcd_question *question, struct etcd_lease *lease, int64_t sent_ns)
{
    const Pb__LeaseResponse *answer =
        (const Pb__LeaseResponse *)(const void *)etcd_rpc_answer(&question->alive, 0);

    question->alive_ms = answer->ttl > 0 ? answer->ttl * MS_PER_S : 0;
    if (answer->ttl <= 0)
        return;
    etcd_lease_alive(lease, &question->alive, sent_ns);
    lease->ttl_ms = question->alive_ms;
}

/* The create_revision of a key of which only the token is known; 0: it is not there. */
static enum dlock_status own_find(struct etcd_session *session, struct etcd_question *question,
                                  const struct etcd_keys *keys, int64_t *create_revision,
                                  int64_t deadline_ns, struct dlock_error *err)
{
    Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
    const Pb__KeyValue *own = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    etcd_queue_own(&range, keys);
    status = fly(session, question, &range, NULL, deadline_ns, err);
    if (status != DLOCK_OK)
        return status;
    own = etcd_queue_find(answer_of(question), keys);
    *create_revision = own != NULL ? own->create_revision : 0;
    question->position.revision = revision_of(answer_of(question));
    return DLOCK_OK;
}

enum dlock_status etcd_queue_older(struct etcd_session *session, struct etcd_question *question,
                                   const struct etcd_keys *keys, bool shared, int64_t deadline_ns,
                                   struct dlock_error *err)
{
    const bool many = shared || is_semaphore(&question->position);
    enum dlock_status status = DLOCK_OK;

    while (status == DLOCK_OK && question->position.further != 0) {
        Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
        const int64_t below = question->position.further;

        etcd_queue_range(&range, keys, many, below - 1);
        if (is_semaphore(&question->position))
            range.limit = question->position.limit; /* there are no more permits */
        status = fly(session, question, &range, NULL, deadline_ns, err);
        if (status == DLOCK_OK)
            older_judge(&question->position, below, answer_of(question), shared);
    }
    return status;
}

enum dlock_status etcd_queue_ask(struct etcd_session *session, struct etcd_question *question,
                                 const struct etcd_keys *keys, bool shared, int64_t create_revision,
                                 struct etcd_lease *lease, int64_t deadline_ns,
                                 struct dlock_error *err)
{
    Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
    const int64_t sent_ns = etcd_lease_pool_now(&session->pool);
    enum dlock_status status = DLOCK_OK;

    memset(question, 0, sizeof *question);
    etcd_queue_end(question);
    if (create_revision == 0)
        status = own_find(session, question, keys, &create_revision, deadline_ns, err);
    if (status != DLOCK_OK || create_revision == 0)
        return status;
    etcd_queue_range(&range, keys, shared, create_revision);
    status = fly(session, question, &range, lease, deadline_ns, err);
    if (status != DLOCK_OK)
        return status;
    question->position.revision = revision_of(answer_of(question));
    etcd_queue_judge(&question->position, etcd_queue_find(answer_of(question), keys),
                     answer_of(question), shared);
    if (lease != NULL)
        alive_note(question, lease, sent_ns);
    return question->position.create_revision == create_revision
               ? etcd_queue_older(session, question, keys, shared, deadline_ns, err)
               : DLOCK_OK;
}

enum dlock_status etcd_queue_other_limit(struct etcd_session *session, const struct etcd_keys *keys,
                                         uint32_t limit, uint32_t *other, int64_t deadline_ns,
                                         struct dlock_error *err)
{
    struct etcd_question question = {.alive_ms = 0};
    int64_t from = 0;
    bool more = true;
    enum dlock_status status = DLOCK_OK;

    *other = 0;
    etcd_queue_end(&question);
    while (status == DLOCK_OK && more && *other == 0) {
        Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
        const Pb__RangeResponse *answer = NULL;

        etcd_queue_range(&range, keys, true, 0);
        range.sort_order = PB__RANGE_REQUEST__ORDER__ASCEND;
        range.min_create_revision = from;
        status = fly(session, &question, &range, NULL, deadline_ns, err);
        if (status != DLOCK_OK)
            break;
        answer = answer_of(&question);
        *other = other_limit_find(answer, limit);
        more = answer->more && answer->n_kvs > 0;
        if (more)
            from = answer->kvs[answer->n_kvs - 1]->create_revision + 1;
    }
    etcd_queue_end(&question);
    return status;
}

void etcd_queue_end(struct etcd_question *question)
{
    etcd_rpc_fini(&question->range);
    etcd_rpc_fini(&question->alive);
    etcd_rpc_init(&question->range, ETCD_RANGE, 1);
    etcd_rpc_init(&question->alive, ETCD_LEASE_KEEP_ALIVE, 1);
}

/* ---- what the client knows of the key of an attempt ---- */

static void predecessor_set(struct etcd_slot *slot, const Pb__KeyValue *predecessor)
{
    free(slot->predecessor);
    slot->predecessor = NULL;
    slot->predecessor_len = 0;
    if (predecessor == NULL)
        return;
    slot->predecessor = malloc(predecessor->key.len + 1); /* without memory: watch says so */
    if (slot->predecessor == NULL)
        return;
    memcpy(slot->predecessor, predecessor->key.data, predecessor->key.len);
    slot->predecessor_len = predecessor->key.len;
}

void etcd_queue_note(struct etcd_slot *slot, struct etcd_lease *lease,
                     const struct etcd_position *position)
{
    slot->lease = lease;
    slot->create_revision = position->create_revision;
    slot->mod_revision = position->mod_revision;
    slot->read_revision = position->revision;
    slot->holds = position->holds;
    slot->front = position->front;
    slot->permit = position->permit;
    predecessor_set(slot, position->predecessor);
}

void etcd_queue_hold(struct etcd_slot *slot, struct etcd_lease *lease, int64_t revision,
                     uint32_t permit)
{
    slot->lease = lease;
    slot->create_revision = revision;
    slot->mod_revision = revision;
    slot->holds = true;
    slot->front = false;
    slot->permit = permit;
    predecessor_set(slot, NULL);
}

struct etcd_lease *etcd_queue_clear(struct etcd_slot *slot)
{
    struct etcd_lease *lease = slot->lease;

    slot->lease = NULL;
    slot->create_revision = 0;
    slot->mod_revision = 0;
    slot->read_revision = 0;
    slot->holds = false;
    slot->front = false;
    slot->permit = 0;
    predecessor_set(slot, NULL);
    return lease;
}

void etcd_queue_drop(struct etcd_slot *slot)
{
    etcd_lease_drop(etcd_queue_clear(slot));
}

void etcd_queue_doubt(struct etcd_slot *slot)
{
    etcd_lease_drop(slot->lease);
    slot->lease = NULL;
    slot->mod_revision = 0;
}

int64_t etcd_queue_lease_ms(const struct etcd_slot *slot, int64_t ttl_ms)
{
    return slot->lease->ttl_ms < ttl_ms ? slot->lease->ttl_ms : ttl_ms;
}

void etcd_queue_grant(const struct etcd_session *session, const struct etcd_slot *slot,
                      int64_t ttl_ms, struct dlock_grant *grant)
{
    const uint64_t scale = session->config.fence_scale;

    grant->fence = (uint64_t)slot->create_revision * scale;
    grant->fence_room = (uint32_t)scale - 1;
    grant->lease_ms = etcd_queue_lease_ms(slot, ttl_ms);
    grant->permit = slot->permit;
}
