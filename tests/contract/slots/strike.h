/* SPDX-License-Identifier: MIT */
/*
 * strike.h - one call of a slot while the network fails, and the question whether its answer is the
 * truth: the other client asks the store.
 */
#ifndef DLT_STRIKE_H
#define DLT_STRIKE_H

#include "subject.h"

enum dlt_what { DLT_TRY, DLT_READ, DLT_RENEW, DLT_UNLOCK, DLT_INSPECT, DLT_WHATS };

/* "trylock" ... */
const char *dlt_what_name(enum dlt_what what);

/* False: this store has not that call. */
bool dlt_strike_applies(const struct dlt_subject *subject, enum dlt_what what);

/*
 * The call under `order`, due in call_ms. Checks that it returns by then, that its status is one
 * that is right here, that the store is as it says, that the same token is taken again after an
 * UNKNOWN, and that a new attempt works afterwards on the network that is good again. late: what
 * the proxy kept back reaches its receiver before the store is asked. Returns the status.
 */
enum dlock_status dlt_strike(struct dlt_subject *subject, enum dlt_what what, int64_t call_ms,
                             const char *order, bool late);

/* The network is good again, and the client is as core would have it after a failure: the session
 * is a new one, unless it is CONCURRENT. */
void dlt_strike_recover(struct dlt_subject *subject);

/* After recovery: the connection is there, with all that its first calls set up. */
void dlt_strike_warm_up(struct dlt_subject *subject);

/* The store says that somebody, or nobody, holds the name; `when` is for the message. A session
 * that died may hold it until its server notices. */
void dlt_held(struct dlt_subject *subject, const char *suffix, const char *when);
void dlt_free(struct dlt_subject *subject, const char *suffix, const char *when);

/* How much later than its deadline a call may return on this machine. */
int64_t dlt_strike_slack_ms(const struct dlt_run *run);

/* The deadline of calls that get no answer. */
int64_t dlt_strike_short_ms(void);

#endif
