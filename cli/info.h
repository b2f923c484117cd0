/* SPDX-License-Identifier: MIT */
/* info.h - copies of the holders and of the waiters of a name that outlive the callback, and their
 * texts. */
#ifndef CLI_INFO_H
#define CLI_INFO_H

#include "output.h"

struct info {
    unsigned char name[DLOCK_NAME_MAX];
    size_t name_len;
    enum dlock_mode mode;
    uint32_t waiters; /* UINT32_MAX: unknown */
    uint64_t fence;   /* 0: none */
    bool no_ttl;      /* the lease has no clock; remaining_ms is -1 */
    int64_t remaining_ms;
    int64_t held_ms;   /* -1: unknown */
    int64_t oldest_ms; /* held_ms of the oldest holder of the name; table_sort sets it */
    uint32_t limit;    /* of a semaphore; 0: a lock */
    uint32_t permit;
    bool kept; /* for nobody */
    char *owner;
    char *label;
    unsigned char *data; /* what the holder publishes; NULL: nothing */
    size_t data_len;
};

struct info_list {
    struct info *items;
    size_t count, room;
    bool no_memory; /* the list is incomplete */
};

/* The dlock_holder_fn that fills a struct info_list (its arg). */
bool info_list_add(void *arg, const struct dlock_holder *info);

/* By name, byte by byte; holders of one name by fence. */
void info_list_sort(struct info_list *list);
void info_list_fini(struct info_list *list);

/* owner, mode, label, fence, remaining_ms, held_ms, limit, permit, kept, data, data_hex. Caller
 * frees. NULL: no memory. */
json_t *info_json(const struct info *info);

const char *info_mode(const struct info *info);

/* The data in escapes, as cli_output_printable; "": none. */
const char *info_data(const struct info *info);

/* A holder of the list publishes data. */
bool info_list_has_data(const struct info_list *list);

/* The number of entries that have a holder. A kept name has none. */
size_t info_list_held(const struct info_list *list);

/* Nobody holds the names of the list: all are kept. */
bool info_list_is_kept(const struct info_list *list);

/* "2026-11-24 17:05:30 UTC", which is ms from now. */
void info_time(char out[24], int64_t ms);

/* "29.3s", "2h05m"; "-" for a negative value, which means unknown. */
void info_duration(char out[24], int64_t ms);

/* A number, or "-". */
void info_number(char out[24], uint64_t value, bool known);

struct queue_waiter {
    enum dlock_mode mode;
    int64_t waited_ms; /* -1: unknown */
    char *owner;
    char *label;
};

/* In their order. */
struct queue {
    struct queue_waiter *items;
    size_t count, room;
    bool no_memory; /* the list is incomplete */
};

/* The dlock_waiter_fn that fills a struct queue (its arg). */
bool queue_add(void *arg, const struct dlock_waiter *waiter);
void queue_fini(struct queue *queue);

/* An array of owner, mode, label, position, waited_ms. Caller frees. NULL: no memory. */
json_t *queue_json(const struct queue *queue);

/* A line for each. */
void queue_print(const struct queue *queue);

#endif
