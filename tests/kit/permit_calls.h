/* SPDX-License-Identifier: MIT */
/* permit_calls.h - what tests of permits have in common, in stores where clients choose permits
 * themselves. To be included behind a name_kit.h: sessions s, t, u, requests a, b, c for the name
 * "job", open_all. */
#ifndef DLT_PERMIT_CALLS_H
#define DLT_PERMIT_CALLS_H

#include "queue_calls.h"

#include <string.h>

static struct dlt_request d; /* of s */

static inline void open_semaphore(const char *test, uint32_t limit)
{
    open_all(test);
    dlt_request(&s, &d, "job", 'd', a.req.ttl_ms);
    a.req.limit = b.req.limit = c.req.limit = d.req.limit = limit;
}

static inline void want_permit(struct dlt_session *session, struct dlt_request *request,
                               uint32_t permit)
{
    cr_assert_eq(dlt_try(session, request), DLOCK_OK, "%s", session->err.message);
    cr_assert_eq(session->grant.permit, permit, "permit %u, want %u", session->grant.permit,
                 permit);
}

/* LIM-2. d has permit 1 at the end, and c permit 2. */
static inline void want_lowest_permits(void)
{
    uint64_t fence = 0;

    open_semaphore("lowest", 3);
    want_permit(&s, &a, 0);
    fence = s.grant.fence;
    want_permit(&t, &b, 1);
    cr_assert_gt(t.grant.fence, fence);
    want_permit(&u, &c, 2);
    cr_assert_eq(dlt_try(&s, &d), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    want_permit(&s, &d, 1);
    want_permit(&s, &d, 1);
    cr_assert_eq(dlt_renew(&s, &d), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_renew(&u, &c), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
}

/* LIM-1. c has permit 1 at the end, and d permit 0. */
static inline void want_permits_in_order(void)
{
    open_semaphore("order", 2);
    want_permit(&s, &a, 0);
    want_permit(&t, &b, 1);
    queue(&u, &c);
    queue(&s, &d);
    cr_assert_eq(refresh(&s, &d), DLOCK_BUSY);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(refresh(&s, &d), DLOCK_BUSY, "the waiter before it has the right to it");
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "waiters come first");
    cr_assert_eq(dlt_watch(&u, &c, 5000), DLOCK_BUSY, "%s", u.err.message);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(u.grant.permit, 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(refresh(&s, &d), DLOCK_OK);
    cr_assert_eq(s.grant.permit, 0);
}

/* With a queue entry, too. */
static inline void want_limits_differ(struct dlt_session *session, struct dlt_request *request,
                                      const char *numbers)
{
    for (uint32_t flags = 0; flags <= DLOCK_REQ_ENQUEUE; flags += DLOCK_REQ_ENQUEUE) {
        cr_assert_eq(try_with(session, request, flags), DLOCK_CONFIG, "%s", session->err.message);
        cr_assert_not_null(strstr(session->err.message, numbers), "%s", session->err.message);
    }
}

/* LIM-1. c has the name at the end, as a lock. */
static inline void want_one_limit(void)
{
    open_semaphore("number", 3);
    want_permit(&s, &a, 0);
    b.req.limit = 30;
    want_limits_differ(&t, &b, "limit of 3 now, and this user asks for 30;");
    c.req.limit = 1;
    c.req.mode = DLOCK_SHARED;
    want_limits_differ(&u, &c, "limit of 3 now, and this user asks for 1;");
    c.req.mode = DLOCK_EXCLUSIVE;
    want_limits_differ(&u, &c, "limit of 3 now, and this user asks for 1;");
    want_permit(&s, &d, 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &d), DLOCK_OK);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_OK);
    want_limits_differ(&s, &a, "limit of 1 now, and this user asks for 3;");
}

#endif
