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

/* With a queue entry, too. */
static inline void want_limits_differ(struct dlt_session *session, struct dlt_request *request,
                                      const char *numbers)
{
    for (uint32_t flags = 0; flags <= DLOCK_REQ_ENQUEUE; flags += DLOCK_REQ_ENQUEUE) {
        cr_assert_eq(try_with(session, request, flags), DLOCK_CONFIG, "%s", session->err.message);
        cr_assert_not_null(strstr(session->err.message, numbers), "%s", session->err.message);
    }
}

#endif
