/* SPDX-License-Identifier: MIT */
/*
 * acquire_text.h - the words of an acquire: why the store refuses the name although nobody may hold
 * it (plugin.h, [TRY-8]), logged once as a warning and told to the caller at the end; and what is
 * waited for when the store fails.
 */
#ifndef DL_ACQUIRE_TEXT_H
#define DL_ACQUIRE_TEXT_H

#include "sys/log.h"

#include <dlock/plugin.h>
#include <stdbool.h>

struct dl_acquire_text {
    struct dlock_error busy; /* of the last answer, if that was BUSY with a text */
    bool has_busy, warned, failure_warned;
};

/* trylock has answered. grant, err: of that answer. */
void dl_acquire_text_answered(struct dl_acquire_text *text, enum dlock_status status,
                              const struct dlock_grant *grant, const struct dlock_error *err);

/* The acquire waits now: one warning, if the store said why. */
void dl_acquire_text_waits(struct dl_acquire_text *text, const struct dl_log *log);

/* The store fails with err, and the acquire waits for it: one warning. */
void dl_acquire_text_fails(struct dl_acquire_text *text, const struct dlock_error *err,
                           const struct dl_log *log);

/* The acquire ends with status. err: in: the last one; out: what the caller is told. */
void dl_acquire_text_end(const struct dl_acquire_text *text, enum dlock_status status,
                         struct dlock_error *err);

#endif
