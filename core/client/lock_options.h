/* SPDX-License-Identifier: MIT */
/*
 * lock_options.h - the options of a handle, resolved. Handles that are made one after the other
 * with the same options share them. Constant; the client's mutex guards the count.
 *
 * ttl_ms and op_timeout_ms are what was asked for: what the store makes of them is known only once
 * a session is open (dl_handle_ttl_ms, dl_handle_op_timeout_ms).
 */
#ifndef DL_LOCK_OPTIONS_H
#define DL_LOCK_OPTIONS_H

#include "load/settings.h"

struct dl_lock_options {
    size_t refs;
    int64_t ttl_ms, wait_ms, poll_max_ms, max_hold_ms;
    int64_t op_timeout_ms; /* 0: follows the ttl */
    uint32_t handoff;
    int64_t keep_ms;
    uint32_t limit; /* 1: a lock */
    bool renew, must_fence, recursive, in_queue;
    bool kill; /* DLOCK_EXPIRE_KILL */
    enum dlock_end end;
    const char *label_text; /* the end of label, as the application gave it */
    char *label;            /* "host:pid@space:text" */
    unsigned char *data;    /* what a claim publishes; NULL: nothing */
    uint32_t data_len;
};

/* Returns the options that the settings mean: *last if they are the same, else new ones, which
 * become *last with a reference of its own. NULL: no memory. */
struct dl_lock_options *dl_lock_options_ref(struct dl_lock_options **last,
                                            const struct dl_settings *settings);

/* options may be NULL. */
void dl_lock_options_unref(struct dl_lock_options *options);

#endif
