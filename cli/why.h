/* SPDX-License-Identifier: MIT */
/* why.h - why a name cannot be had: its holders, what they wait for, and so on; and whether that
 * ends where it began. */
#ifndef CLI_WHY_H
#define CLI_WHY_H

#include "snapshot.h"

struct why {
    struct snapshot snapshot;
    size_t first;    /* the lock that was asked for; snapshot.count: it is free */
    size_t *cycle;   /* edges of the snapshot: a deadlock that keeps the lock; malloced */
    size_t length;   /* 0: there is none */
    bool *is_linked; /* the lock, or a lock that its holders wait for; malloced */
};

/* Finds the deadlock and the links in a snapshot. False: no memory. Always: why_fini. */
bool why_find(struct why *why, const struct cli_name *name);
void why_fini(struct why *why);

/* True: the same holders wait for each other in both. */
bool why_is_same_deadlock(const struct why *a, const struct why *b);

/* uris: of the stores, to be shown if there are several. */
void why_print(const struct why *why, const struct cli_name *name, const char *const *uris);
/* Caller frees. */
json_t *why_json(const struct why *why, const struct cli_name *name, const char *const *uris);

#endif
