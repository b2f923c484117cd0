/* SPDX-License-Identifier: MIT */
/* store_options.h - the options of a store: of its URI's query, then of the client's defaults. */
#ifndef DL_STORE_OPTIONS_H
#define DL_STORE_OPTIONS_H

#include "load/store.h"

/* One for each row of plugin->options. */
struct dl_store_value {
    char *text; /* NULL: not given, the fallback applies */
    int64_t number;
};

/*
 * Fills store->values, settings and password (the source) from store->parsed and store->defaults.
 * create: DLOCK_ON or DLOCK_OFF decide the plugin's own option `create`, if it has one. INVALID:
 * the text shows the place.
 */
enum dlock_status dl_store_options_apply(struct dl_store *store, enum dlock_tri create,
                                         struct dlock_error *err);

#endif
