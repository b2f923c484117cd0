/* SPDX-License-Identifier: MIT */
/*
 * queue.h - the queue of a name: its keys in the order of their create_revision.
 *
 * A writer waits for the key just before its own, a reader for the newest one before its own that
 * is no reader's. Without such a key, it holds the name. No key can come before one that is there,
 * so that a key that holds the name does so until it is deleted.
 *
 * A key of a semaphore holds the name when its value has a permit. A waiter puts the number into
 * its key when it is at the front: the keys before it, fewer than the limit, have permits all. No
 * younger key can do so before it, and a key without a waiter before it is put with its number only
 * if no key was put since the others were read (take.h). So nobody else takes the same number.
 *
 * A key that is kept takes the name, or the permit, for nobody until its lease ends.
 */
#ifndef ETCD_QUEUE_H
#define ETCD_QUEUE_H

#include "kv.h"
#include "rpc.h"
#include "session.h"

/* What is known of a key in the queue. */
struct etcd_position {
    int64_t revision;                /* of the cluster */
    int64_t create_revision;         /* 0: there is no such key */
    int64_t mod_revision, lease_id;  /* of the key */
    uint32_t keys;                   /* of the name: holders and waiters */
    uint32_t limit;                  /* of a semaphore; 0 or 1: a lock */
    uint32_t other_limit;            /* of the newest key that was read and has not ours; else 0 */
    uint32_t permit;                 /* of the key, if it holds one */
    bool kept;                       /* nobody holds the key */
    bool holds;                      /* the name belongs to the key */
    const Pb__KeyValue *predecessor; /* in the answer that was judged; NULL: none known */
    bool predecessor_is_first;       /* nobody waits before us */
    int64_t further;                 /* the predecessor, if there is one, is an older key
                                        than this create_revision. 0: all is known */
    /* Of a semaphore: */
    bool front;     /* no waiter is before the key */
    uint32_t older; /* permits that are taken before it; no more are counted than the limit */
    unsigned char taken[(ETCD_LIMIT_MOST + 7) / 8]; /* these, a bit each */
};

/* True: a permit is free for the key. etcd_queue_permit: the lowest one. */
bool etcd_queue_has_room(const struct etcd_position *position);
uint32_t etcd_queue_permit(const struct etcd_position *position);

/* The keys of a name up to max_revision (0: all), the newest first, as many as tell the
 * predecessor of a writer; many: that of a reader, or the permits, in most cases. */
void etcd_queue_range(Pb__RangeRequest *range, const struct etcd_keys *keys, bool many,
                      int64_t max_revision);
/* The key alone. */
void etcd_queue_own(Pb__RangeRequest *range, const struct etcd_keys *keys);

/* own: the key, NULL: it is not there, and would be the last one. others: the answer to
 * etcd_queue_range. The revision is the caller's, and so is the limit of a key that is not there.
 */
void etcd_queue_judge(struct etcd_position *position, const Pb__KeyValue *own,
                      const Pb__RangeResponse *others, bool shared);
/* The key of `keys` in an answer; NULL: none. */
const Pb__KeyValue *etcd_queue_find(const Pb__RangeResponse *answer, const struct etcd_keys *keys);

/* A question for the position of a key, and its answers, which position.predecessor is in. */
struct etcd_question {
    struct etcd_position position;
    int64_t alive_ms; /* what the lease has got, from the sending of the question on; 0: it has
                         ended. Only with a lease */
    struct etcd_rpc range, alive;
};

/*
 * Asks where the key stands. create_revision: of the key, 0: not known. lease: kept alive at the
 * same time; NULL: none. OK: position says it, in full. Statuses of etcd_exchange for reads.
 * Always: etcd_queue_end.
 */
enum dlock_status etcd_queue_ask(struct etcd_session *session, struct etcd_question *question,
                                 const struct etcd_keys *keys, bool shared, int64_t create_revision,
                                 struct etcd_lease *lease, int64_t deadline_ns,
                                 struct dlock_error *err);
/* The limit of the oldest key of the name that has another one than this; 0: no key has. */
enum dlock_status etcd_queue_other_limit(struct etcd_session *session, const struct etcd_keys *keys,
                                         uint32_t limit, uint32_t *other, int64_t deadline_ns,
                                         struct dlock_error *err);
/* The rest of what etcd_queue_judge left open (further), for position of the question. */
enum dlock_status etcd_queue_older(struct etcd_session *session, struct etcd_question *question,
                                   const struct etcd_keys *keys, bool shared, int64_t deadline_ns,
                                   struct dlock_error *err);
void etcd_queue_end(struct etcd_question *question);

/* ---- what the client knows of the key of an attempt ---- */

/* What etcd_queue_judge found of the key, which has this lease. */
void etcd_queue_note(struct etcd_slot *slot, struct etcd_lease *lease,
                     const struct etcd_position *position);
/* The key holds the name, or this permit, as it was put with this lease at a revision. */
void etcd_queue_hold(struct etcd_slot *slot, struct etcd_lease *lease, int64_t revision,
                     uint32_t permit);

/* Forgets the key. Returns its lease, which belongs to the caller then; NULL: not known. */
struct etcd_lease *etcd_queue_clear(struct etcd_slot *slot);
/* The same, and drops the lease. Harmless twice. */
void etcd_queue_drop(struct etcd_slot *slot);
/* It is not known any more which lease the key has, or whether it was put. */
void etcd_queue_doubt(struct etcd_slot *slot);

/* What the store promises to a key with this lease, from the last request that kept it alive on. */
int64_t etcd_queue_lease_ms(const struct etcd_slot *slot, int64_t ttl_ms);

/* The grant of a name to the key. */
void etcd_queue_grant(const struct etcd_session *session, const struct etcd_slot *slot,
                      int64_t ttl_ms, struct dlock_grant *grant);

#endif
