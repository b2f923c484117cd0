/* SPDX-License-Identifier: MIT */
/*
 * acquire_text.h - the messages of an acquire: why the store refuses a name although no owner may
 * hold it (plugin.h, [TRY-8]), and what the acquire waits for while the store fails. Each is logged
 * once as a warning; the first is also the error of the call.
 */
#ifndef DL_ACQUIRE_TEXT_H
#define DL_ACQUIRE_TEXT_H

#include "client/name_state.h"
#include "sys/log.h"

#include <dlock/plugin.h>
#include <stdbool.h>

struct dl_acquire_text {
    struct dlock_error *busy; /* of the last answer, if that was BUSY with a text; else NULL */
    bool warned, failure_warned;
};

/* trylock has answered with status, grant and err. */
void dl_acquire_text_answered(struct dl_acquire_text *text, enum dlock_status status,
                              const struct dlock_grant *grant, const struct dlock_error *err);

/* The acquire waits: logs one warning if the store gave a reason. */
void dl_acquire_text_waits(struct dl_acquire_text *text, const struct dl_name_state *name,
                           const struct dl_log *log);

/* The store fails with err and the acquire waits for it: logs one warning. */
void dl_acquire_text_fails(struct dl_acquire_text *text, const struct dlock_error *err,
                           const struct dl_name_state *name, const struct dl_log *log);

/* The acquire ends with status. err: in: the last error; out: the error of the call. */
void dl_acquire_text_end(const struct dl_acquire_text *text, enum dlock_status status,
                         struct dlock_error *err);

void dl_acquire_text_fini(struct dl_acquire_text *text);

#endif
