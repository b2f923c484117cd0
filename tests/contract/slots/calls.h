/* SPDX-License-Identifier: MIT */
/*
 * calls.h - calls of some parties, one after another, each of which has to say what it should, and
 * what holds for each answer of that slot.
 *
 * Where locks live in sessions, a session that answered LOST is closed, as core does [SES-1].
 */
#ifndef DLT_CALLS_H
#define DLT_CALLS_H

#include "party.h"

#define DLT_SHORT_MS 400 /* a lease that ends during a case; the store may give no shorter one */

/* n clients with an attempt at "job" each: a, b, c ... */
void dlt_parties_begin(struct dlt_party *parties, size_t n, const struct dlt_run *run);
void dlt_parties_end(struct dlt_party *parties, size_t n);

/* A slot each. `when` is for the message: "trylock by a, of a free name, is ...". */
void dlt_tries(struct dlt_party *party, enum dlock_status want, const char *when);
void dlt_renews(struct dlt_party *party, enum dlock_status want, const char *when);
void dlt_unlocks(struct dlt_party *party, enum dlock_status want, const char *when);

/* A lease ends by its time, not with a session. */
bool dlt_party_is_leased(const struct dlt_party *party);

/* What the store says to another client is left of the lease of a held name; -1: it does not say.
 */
int64_t dlt_party_left_ms(struct dlt_party *asker);

#endif
