/* SPDX-License-Identifier: MIT */
/*
 * lease.h - what a handle knows of its lease: a state and the moment until which it holds, in one
 * 64-bit word, so that no thread ever sees the state of one lease with the end of another. Pure.
 *
 * Reading is async-signal-safe and needs no thread of dlock: a lease whose time has passed reads as
 * lost (C2). The first reader that sees it writes it down, so that no later extension can bring the
 * lease back (C5). All other writers hold the client's mutex.
 */
#ifndef DL_LEASE_H
#define DL_LEASE_H

#include <dlock/dlock.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct dl_lease {
    _Atomic uint64_t word; /* until_ns << 2 | enum dlock_state */
};

/* The state at now_ns. */
enum dlock_state dl_lease_state(struct dl_lease *lease, int64_t now_ns);

/* The time that is left at now_ns; 0 unless held. */
int64_t dl_lease_left_ns(struct dl_lease *lease, int64_t now_ns);

/* The end of the present or last lease. */
int64_t dl_lease_until_ns(const struct dl_lease *lease);

/* Begins a new lease. */
void dl_lease_grant(struct dl_lease *lease, int64_t until_ns);

/* Extends the lease to until_ns, unless it ends later already, and makes it held. false: it was
 * lost by now_ns. */
bool dl_lease_extend(struct dl_lease *lease, int64_t now_ns, int64_t until_ns);

/* Makes the lease doubtful after a renewal failed; the end stays. false: it was lost by now_ns. */
bool dl_lease_doubt(struct dl_lease *lease, int64_t now_ns);

void dl_lease_lose(struct dl_lease *lease);
void dl_lease_free(struct dl_lease *lease); /* released, or its loss acknowledged */

/*
 * How long a lease may be believed: its validity.
 *
 * The store counts a lease from the moment at which it executes the request. The client counts from
 * a moment before the request was sent, and subtracts a margin for clocks that run at different
 * rates or are set, so that the client always stops believing first. (The rule of the Redlock
 * description: ttl less elapsed less drift.) margin: in percent, the option clock_margin.
 */

/* A lease of DLOCK_TTL_NONE, or what is believed of it. Its end does not come, and fits in all
 * sums.
 */
static inline bool dl_lease_is_endless(int64_t lease_ms)
{
    return lease_ms > DLOCK_TTL_NONE / 4;
}

/* margin of the lease, and at least 10 ms. */
int64_t dl_lease_margin_ns(int64_t lease_ms, unsigned margin);

/* base_ns + lease - margin; base_ns: a moment before the first byte of the request was sent (C1).
 */
int64_t dl_lease_valid_until_ns(int64_t base_ns, int64_t lease_ms, unsigned margin);

/* C3: the time that must be left of the validity so that a grant is of use: max(10 ms, lease/10).
 */
int64_t dl_lease_least_ns(int64_t lease_ms);

/* Whether more than that is left. */
bool dl_lease_is_enough(int64_t now_ns, int64_t until_ns, int64_t lease_ms);

#endif
