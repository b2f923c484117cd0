/* SPDX-License-Identifier: MIT */
/* registry.h - the stores of this process. */
#ifndef MEMORY_REGISTRY_H
#define MEMORY_REGISTRY_H

#include "store.h"

/* Remembers this process: a forked child does not share its stores. */
void memory_registry_init(void);

/* True: this is a child of the process that called memory_registry_init. */
bool memory_registry_is_child(void);

/* The store with this id, made if it is missing. NULL: no memory. */
struct memory_store *memory_registry_ref(const char *id, const struct dlock_host *host);

/* The store ends with its last lease or its last session, whichever is later [TRY-2]. */
void memory_registry_unref(struct memory_store *store, const struct dlock_host *host);

#endif
