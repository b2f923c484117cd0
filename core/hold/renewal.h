/* SPDX-License-Identifier: MIT */
/*
 * renewal.h - when a lease is renewed, what an answer means for it, and what has become of it when
 * its time has passed. Pure: moments and random numbers are arguments. held.c and renewer.c do
 * what is decided here.
 */
#ifndef DL_RENEWAL_H
#define DL_RENEWAL_H

#include "hold/lease.h"

struct dl_renewal {
    /* set when the handle is made */
    bool automatic; /* false: only when the application asks for it */
    uint8_t margin; /* of the validity, see lease.h */

    /* of the present acquisition */
    unsigned failures;     /* in a row */
    int64_t at_ns;         /* the next renewal; DL_NEVER: none */
    int64_t hold_until_ns; /* end of max_hold, set before dl_renewal_granted; DL_NEVER */
    int64_t lease_ms;      /* the lease as the store counts it; it may be shorter than the ttl */
};

/* Begins with a grant that is valid until until_ns and that the store counts as lease_ms. soon: the
 * lease is shorter than the ttl, and the first renewal has to extend it. */
void dl_renewal_granted(struct dl_renewal *renewal, struct dl_lease *lease, int64_t now_ns,
                        int64_t until_ns, int64_t lease_ms, bool soon);

/* When to check the lease next. */
int64_t dl_renewal_recheck_ns(const struct dl_renewal *renewal, const struct dl_lease *lease);

/* How long an exchange may last so that this lease is renewed in time: an exchange for other
 * leases, and one for this lease. */
int64_t dl_renewal_io_limit_ns(const struct dl_renewal *renewal);
int64_t dl_renewal_exchange_ns(const struct dl_renewal *renewal, int64_t op_timeout_ns);

enum dl_due_step {
    DL_DUE_RENEW,   /* now */
    DL_DUE_LATER,   /* check again at dl_renewal_recheck_ns */
    DL_DUE_BUSY,    /* check again when the handle's phase is over, and at the end of the lease */
    DL_DUE_GONE,    /* not held, and nothing to report */
    DL_DUE_EXPIRED, /* lost: the lease has ended */
    DL_DUE_MAX_HOLD /* lost: max_hold has ended */
};

/* How early a lease may be renewed together with others, a hundredth of the lease: one exchange for
 * many costs little more than for one. */
int64_t dl_renewal_early_ns(const struct dl_renewal *renewal);

/* Checks a lease that is due in early_ns at the latest. busy: the handle is in a phase. */
enum dl_due_step dl_renewal_due(const struct dl_renewal *renewal, struct dl_lease *lease,
                                int64_t now_ns, int64_t early_ns, bool busy);

struct dl_renewal_answer {
    int64_t sent_ns, now_ns;
    enum dlock_status status;
    int64_t lease_ms; /* of OK */
    int64_t least_ns; /* has to be left of it (C3) */
    uint64_t random;
};

/* Returns OK: extended. LOST with *gone: the store has said so. LOST without *gone: the lease had
 * ended by now_ns; *stale: the store did extend it, and the lease has to be given back. Another
 * status: the old validity stays, and the next renewal is set; an answer that came too late to be
 * of use is UNKNOWN (C3). */
enum dlock_status dl_renewal_answered(struct dl_renewal *renewal, struct dl_lease *lease,
                                      const struct dl_renewal_answer *answer, bool *gone,
                                      bool *stale);

#endif
