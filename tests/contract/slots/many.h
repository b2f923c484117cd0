/* SPDX-License-Identifier: MIT */
/* many.h - the slots trylock_batch and unlock_batch, for attempts of one client. */
#ifndef DLT_MANY_H
#define DLT_MANY_H

#include "subject.h"

#define DLT_MANY_MOST 150 /* more than any plugin sends at once */

/* It must not move. */
struct dlt_many {
    size_t n;
    struct dlt_attempt attempts[DLT_MANY_MOST];
    struct dlock_error errors[DLT_MANY_MOST];
    struct dlock_batch_op elements[DLT_MANY_MOST], *ops[DLT_MANY_MOST];
};

/* False: the plugin has no such slots, or never gets such a call. */
bool dlt_many_applies(const struct dlt_side *side);

/* n attempts of the side at suffix0, suffix1 ...; only_one: all at suffix. */
void dlt_many_begin(struct dlt_many *many, const struct dlt_run *run, const struct dlt_side *side,
                    size_t n, const char *suffix, bool only_one);
void dlt_many_end(struct dlt_many *many, struct dlt_side *side);

/* One call for all. elements[i].status is that of the call if it says that nothing could be tried.
 */
void dlt_many_try(struct dlt_many *many, struct dlt_side *side);
void dlt_many_unlock(struct dlt_many *many, struct dlt_side *side);

/* The element has to say `want`; `when` is for the message. dlt_many_are: all have to. */
void dlt_many_is(const struct dlt_many *many, size_t i, enum dlock_status want, const char *when);
void dlt_many_are(const struct dlt_many *many, enum dlock_status want, const char *when);

/* How many say it. */
size_t dlt_many_count(const struct dlt_many *many, enum dlock_status status);

#endif
