/* SPDX-License-Identifier: MIT */
/* owned.h - the slots of a server of a cluster, and since when they are guarded, as one look saw
 * them (owned.lua). Pure. */
#ifndef REDIS_OWNED_H
#define REDIS_OWNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redis_owned_range {
    uint16_t first, last;
    int64_t since_us; /* server's clock; 0: long ago */
};

/* In order, and disjoint. All zero: no slots. */
struct redis_owned {
    struct redis_owned_range *ranges;
    size_t count;
};

/* Reads " first-last@since ...". False: no memory, or it makes no sense; there are no slots then.
 */
bool redis_owned_read(struct redis_owned *owned, const char *text);
void redis_owned_free(struct redis_owned *owned);

/* Since when the slot is there; -1: it is not. */
int64_t redis_owned_since(const struct redis_owned *owned, unsigned slot);

#endif
