/* SPDX-License-Identifier: MIT */
/* entry.h - what one token has of one name: a queue entry, and later the lease. */
#ifndef MEMORY_ENTRY_H
#define MEMORY_ENTRY_H

#include <dlock/plugin.h>

#define MEMORY_LABEL_MAX 255

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

/* An entry with the token, mode, label and data of the request. NULL: no memory. */
struct memory_entry *memory_entry_new(const struct dlock_request *req);

/* Adds it at the end of the list. */
void memory_entry_append(struct memory_entry **list, struct memory_entry *entry);

/* The entry with this token, expired or not; NULL: none. */
struct memory_entry *memory_entry_find(struct memory_entry *list, const unsigned char *token);

/* Takes it out of the list and frees it. */
void memory_entry_remove(struct memory_entry **list, struct memory_entry *entry);

/* Removes the entries that have expired. */
void memory_entry_reap(struct memory_entry **list, int64_t now_ns);

/* Never shortens what was promised [TRY-5] [REN-3]. */
void memory_entry_extend(struct memory_entry *entry, int64_t lease_ms, int64_t now_ns);

/* The time left, rounded up: a sleep of that long is long enough. */
int64_t memory_entry_left_ms(const struct memory_entry *entry, int64_t now_ns);

#endif
