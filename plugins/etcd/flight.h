/* SPDX-License-Identifier: MIT */
/* flight.h - one call of slot trylock: its leases, and the exchange with its transaction. */
#ifndef ETCD_FLIGHT_H
#define ETCD_FLIGHT_H

#include "slot.h"
#include "txn.h"

struct etcd_take {
    struct etcd_session *session;
    const struct dlock_request *req;
    struct dlock_grant *grant;
    struct dlock_error *err;
    struct etcd_slot *slot;
    struct etcd_keys keys;
    char value[ETCD_VALUE_SIZE]; /* of a lock; of a semaphore as a waiter */
    size_t value_len;
    uint32_t limit; /* 1: a lock */
    bool shared, enqueue;
    struct etcd_lease *full, *brief; /* of the ttl; of a waiter: the same one, if it is as long */
    bool full_lasts, brief_lasts;
    bool again;     /* leases of the stock have ended, or another leader counts their time */
    bool overtaken; /* the readers that it was to join have gone: nothing was put */
    bool put;       /* the key was put, or found: what fails then is UNKNOWN */
    struct etcd_rpc txn, alive;
};

void etcd_flight_begin(struct etcd_take *take, struct etcd_session *session,
                       const struct dlock_request *req, struct dlock_grant *grant,
                       struct dlock_error *err);

/* The leases, from the stock or new ones. OK: they belong to the call. */
enum dlock_status etcd_flight_leases(struct etcd_take *take);
/* No key has them: they go back to the stock. In doubt: they are dropped. */
void etcd_flight_put(struct etcd_take *take);
void etcd_flight_drop(struct etcd_take *take);
/* The key was put with this one; the other one is not used. */
void etcd_flight_keep(struct etcd_take *take, struct etcd_lease *kept);

/* Sends the transaction and keeps the leases alive. LOST: a lease has ended, and so has what may
 * have been put with it. The leases belong to the call with OK only. Always: etcd_flight_end, also
 * before the next one. */
enum dlock_status etcd_flight_send(struct etcd_take *take, struct etcd_txn *txn);
const Pb__TxnResponse *etcd_flight_answer(const struct etcd_take *take);
void etcd_flight_end(struct etcd_take *take);

enum dlock_status etcd_flight_no_memory(struct etcd_take *take);

#endif
