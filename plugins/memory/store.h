/* SPDX-License-Identifier: MIT */
/*
 * store.h - the stores of this process. A store is a table of the names that somebody holds or
 * waits for; a name has entries, which are queue entries and leases, and threads that sleep.
 *
 * "Mutex" is that of the store.
 */
#ifndef MEMORY_STORE_H
#define MEMORY_STORE_H

#include <dlock/plugin.h>
#include <pthread.h>
#include <stdbool.h>

#define MEMORY_LABEL_MAX 255

/* What one token has of one name: a queue entry, and later the lease. */
struct memory_entry {
    struct memory_entry *next;
    unsigned char token[DLOCK_TOKEN_SIZE];
    uint32_t mode;       /* enum dlock_mode */
    uint32_t limit;      /* of the semaphore; 1: a lock */
    uint32_t permit;     /* of a holder, below the limit */
    bool kept;           /* among the holders, but nobody's: its token is all zero [KEP-1] */
    uint64_t fence;      /* of a holder; 0: this is a queue entry */
    int64_t since_ns;    /* when it became a holder, or was queued */
    int64_t expires_ns;  /* of the queue entry or the lease, on memory_store_now; 0 at first */
    int64_t grant_ms;    /* of a queue entry: how long its grant lasts */
    unsigned char *data; /* what the holder publishes; behind the label; NULL: nothing */
    uint32_t data_len;
    char label[];
};

/*
 * A thread that sleeps in watch. Each has a condition variable of its own, so that a grant or an
 * interrupt wakes that thread alone. An attempt that core waits for by wait_any has no thread: it
 * stays in the list, and what happens to it is an event that is pending for its client.
 */

/* What happened to the attempts of a client that have no thread. */
struct memory_pending {
    pthread_cond_t wake; /* of the thread in wait_any */
    struct memory_waiter *first;
    bool interrupted;
};

/* dlock_request.attempt: zeroed by core at the start of the attempt. */
struct memory_waiter {
    pthread_cond_t wake; /* exists from the first watch to the end of the attempt */
    bool has_wake;
    bool enqueued;            /* asked for a queue entry: watch may bring the grant [WAT-1] */
    bool interrupted;         /* sticky [INT-2] */
    uint64_t interrupt_fence; /* a grant up to this number came before the interrupt */
    bool sleeping;            /* a thread is in watch, and the waiter in a list */
    bool listed;              /* is in a list without a thread */
    uint32_t number;          /* of wait_any */
    struct memory_pending *pending;
    bool is_pending;
    struct memory_waiter *next_pending;
    unsigned char token[DLOCK_TOKEN_SIZE];
    struct memory_waiter *next;
};

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
    struct memory_store *next; /* next, refs and id: under the mutex of store.c */
    unsigned refs;
    char *id;
    pthread_mutex_t mutex;
    void *names; /* tsearch(3) tree of struct memory_name */
};

/* ---- stores ---- */

/* Remembers this process: a forked child does not share its stores. */
void memory_store_init(void);

/* True: this is a child of the process that called memory_store_init. */
bool memory_store_is_child(void);

/* The store with this id, made if it is missing. NULL: no memory. */
struct memory_store *memory_store_ref(const char *id, const struct dlock_host *host);

/* The store ends with its last lease or its last session, whichever is later [TRY-2]. */
void memory_store_unref(struct memory_store *store, const struct dlock_host *host);

/* The clock on which entries expire. It is the host's, because client and store are one process. A
 * store on another machine has a clock of its own: never compare the two. */
int64_t memory_store_now(const struct memory_store *store, const struct dlock_host *host);

/* ---- names: the mutex is held ---- */

/* NULL: not there. */
struct memory_name *memory_store_find(struct memory_store *store, const unsigned char *bytes,
                                      uint32_t len);

/* Adds the name if it is not there. NULL: no memory. */
struct memory_name *memory_store_get(struct memory_store *store, const unsigned char *bytes,
                                     uint32_t len);

/* Removes the entries of the name that have expired. */
void memory_store_reap(struct memory_name *name, int64_t now_ns);

/* Removes a name that has no entries and no waiters; it must not be used afterwards. */
void memory_store_tidy(struct memory_store *store, struct memory_name *name);

/* ---- entries ---- */

/* An entry with the token, mode, label and data of the request. NULL: no memory. */
struct memory_entry *memory_entry_new(const struct dlock_request *req);

/* Adds it at the end of the list. */
void memory_entry_append(struct memory_entry **list, struct memory_entry *entry);

/* The entry with this token, expired or not; NULL: none. */
struct memory_entry *memory_entry_find(struct memory_entry *list, const unsigned char *token);

/* Takes it out of the list and frees it. */
void memory_entry_remove(struct memory_entry **list, struct memory_entry *entry);

/* Never shortens what was promised [TRY-5] [REN-3]. */
void memory_entry_extend(struct memory_entry *entry, int64_t lease_ms, int64_t now_ns);

/* The time left, rounded up: a sleep of that long is long enough. */
int64_t memory_entry_left_ms(const struct memory_entry *entry, int64_t now_ns);

/* ---- waiters: the mutex is held, but for fini ---- */

/* Adds the waiter of an attempt without a thread to the list. May be repeated. */
void memory_waiter_list(struct memory_waiter *waiter, struct memory_waiter **list,
                        const struct dlock_request *req, struct memory_pending *pending);
void memory_waiter_unlist(struct memory_waiter *waiter, struct memory_waiter **list);

/* Takes up to `room` numbers of attempts with a pending event. */
size_t memory_waiter_pending_take(struct memory_pending *pending, uint32_t *numbers, size_t room);

/* Sleeps in the list until a wake-up, for ns, or for a second: the caller reads its clocks and
 * sleeps again. Gives the mutex up while it sleeps. False: the system has no resources for it. */
bool memory_waiter_sleep(struct memory_waiter *waiter, struct memory_waiter **list,
                         const unsigned char *token, pthread_mutex_t *mutex, int64_t ns);

/* Wakes the waiter with this token, if there is one. */
void memory_waiter_wake(struct memory_waiter *list, const unsigned char *token);

/* Wakes the waiters that never asked for a queue entry: each has to try by itself. */
void memory_waiter_wake_unqueued(struct memory_waiter *list);

/* last_fence: of the grants that came before. */
void memory_waiter_interrupt(struct memory_waiter *waiter, uint64_t last_fence);

/* The attempt is over. May be repeated. */
void memory_waiter_fini(struct memory_waiter *waiter);

#endif
