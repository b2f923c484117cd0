/* SPDX-License-Identifier: MIT */
/* store.h - a store: a table of the names that somebody holds or waits for. */
#ifndef MEMORY_STORE_H
#define MEMORY_STORE_H

#include "entry.h"
#include "waiter.h"

#define MEMORY_NAME_MAX 255

struct memory_key {
    const unsigned char *bytes;
    uint32_t len;
};

/* A token is in one of the two lists of entries at most. An expired entry stays until the next
 * request for the name. */
struct memory_name {
    struct memory_key key;         /* first: the tree compares keys; of `bytes` below */
    struct memory_entry *holders;  /* one EXCLUSIVE, any number of SHARED, or up to the limit */
    struct memory_entry *queue;    /* in the order of arrival */
    struct memory_waiter *waiters; /* threads in watch, in no order */
    unsigned char bytes[];
};

/* The mutex guards all that follows it, and all names. It is never held during a callback, and no
 * other lock is taken while it is held. */
struct memory_store {
    struct memory_store *next; /* next, refs and id: under the registry's mutex */
    unsigned refs;
    char *id;
    pthread_mutex_t mutex;
    void *names; /* tsearch(3) tree of struct memory_name */
};

/* NULL: no memory. */
struct memory_store *memory_store_new(const char *id);
void memory_store_free(struct memory_store *store);

/* The clock on which entries expire. It is the host's, because client and store are one process. A
 * store on another machine has a clock of its own: never compare the two. */
int64_t memory_store_now(const struct memory_store *store, const struct dlock_host *host);

/* The rest needs the mutex. NULL: not there. */
struct memory_name *memory_store_find(struct memory_store *store, const unsigned char *bytes,
                                      uint32_t len);

/* Adds the name if it is not there. NULL: no memory. */
struct memory_name *memory_store_get(struct memory_store *store, const unsigned char *bytes,
                                     uint32_t len);

/* Removes the entries of the name that have expired. */
void memory_store_reap(struct memory_name *name, int64_t now_ns);

/* Removes a name that has no entries and no waiters; it must not be used afterwards. */
void memory_store_tidy(struct memory_store *store, struct memory_name *name);

#endif
