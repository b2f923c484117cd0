/* SPDX-License-Identifier: MIT */
/* slot.h - the slot of a key in a cluster. Pure. */
#ifndef REDIS_SLOT_H
#define REDIS_SLOT_H

#include <stddef.h>

#define REDIS_SLOTS 16384u

/* The slot of a key: of the part in braces, if there is one. */
unsigned redis_slot(const char *key, size_t len);

#endif
