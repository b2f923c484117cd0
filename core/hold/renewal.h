/* SPDX-License-Identifier: MIT */
/*
 * renewal.h - when a lease is renewed, what the answer means for it, and what has come of it when
 * its time has passed. Pure: moments and random numbers are arguments. held.c and renewer.c do what
 * is decided here.
 */
#ifndef DL_RENEWAL_H
#define DL_RENEWAL_H

#include "hold/lease.h"

struct dl_renewal {
    /* set by the handle's owner */
    bool automatic; /* false: only when the application asks for it */

    /* of the present acquisition */
    unsigned failures;     /* in a row */
    int64_t at_ns;         /* the next one; DL_NEVER: none */
    int64_t hold_until_ns; /* end of max_hold, set before dl_renewal_granted; DL_NEVER */
    int64_t lease_ms;      /* what the store counts; it may be less than the ttl */
};

/*
 * A grant, valid until until_ns, of which the store counts lease_ms. soon: that is less than was
 * asked for, and the first renewal is to extend it.
 */
void dl_renewal_granted(struct dl_renewal *renewal, struct dl_lease *lease, int64_t now_ns,
                        int64_t until_ns, int64_t lease_ms, bool soon);

/* When to look at the lease next. */
int64_t dl_renewal_recheck_ns(const struct dl_renewal *renewal, const struct dl_lease *lease);

/* How long an exchange may last for the sake of this lease, its end aside: one for others, and one
 * that renews it. */
int64_t dl_renewal_io_limit_ns(const struct dl_renewal *renewal);
int64_t dl_renewal_exchange_ns(const struct dl_renewal *renewal, int64_t op_timeout_ns);

enum dl_due_step {
    DL_DUE_RENEW,   /* now */
    DL_DUE_LATER,   /* look again at dl_renewal_recheck_ns */
    DL_DUE_BUSY,    /* look again when the handle's phase is over, and at the end of the lease */
    DL_DUE_GONE,    /* not held, and not news */
    DL_DUE_EXPIRED, /* lost: the lease ran out */
    DL_DUE_MAX_HOLD /* lost: as long as allowed */
};

/* So long before its time, a hundredth of it, a lease may be renewed if others are renewed anyway:
 * one exchange for many costs little more than for one. */
int64_t dl_renewal_early_ns(const struct dl_renewal *renewal);

/* Looks at a lease whose time has come, but for early_ns. busy: the handle is in a phase, and may
 * be renewed in it. */
enum dl_due_step dl_renewal_due(const struct dl_renewal *renewal, struct dl_lease *lease,
                                int64_t now_ns, int64_t early_ns, bool busy);

struct dl_renewal_answer {
    int64_t sent_ns, now_ns;
    enum dlock_status status;
    int64_t lease_ms; /* of OK */
    uint64_t random;
};

/*
 * OK: extended. LOST with *gone: the store said so. LOST without: it had run out by now_ns; then
 * *stale says that the store did extend it, and should be told. Anything else: the old validity
 * stands, and the next attempt is set; an answer that came too late to be of use is UNKNOWN (C3).
 */
enum dlock_status dl_renewal_answered(struct dl_renewal *renewal, struct dl_lease *lease,
                                      const struct dl_renewal_answer *answer, bool *gone,
                                      bool *stale);

#endif
