/* SPDX-License-Identifier: MIT */
/* batch_kit.h - a batch of a session: names b0, b1, ... with a request each. */
#ifndef DLT_BATCH_KIT_H
#define DLT_BATCH_KIT_H

#include "redis_kit.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 8, MOST = 150 }; /* MOST: more than leave in one write */

static struct dlt_session s; /* of the batch */
static struct dlt_request requests[MOST];
static char names[MOST][24];
static struct dlock_error errors[MOST];
static struct dlock_batch_op elements[MOST], *ops[MOST];

/* The element's request is due in timeout_ms. */
static inline void element_make(size_t i, int64_t timeout_ms)
{
    errors[i] = (struct dlock_error)DLOCK_ERROR_INIT;
    elements[i] = (struct dlock_batch_op){.struct_size = sizeof elements[i],
                                          .status = DLOCK_INTERNAL,
                                          .req = dlt_due(&s, &requests[i], timeout_ms),
                                          .err = &errors[i]};
    elements[i].grant.struct_size = sizeof elements[i].grant;
    elements[i].grant.holder_ms = -1;
    elements[i].grant.waiters = UINT32_MAX;
    ops[i] = &elements[i];
}

static inline void batch_make(size_t n, int64_t timeout_ms)
{
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(names[i], sizeof names[i], "b%zu", i);
        dlt_request(&s, &requests[i], names[i], (unsigned char)(i + 1), 60000);
        element_make(i, timeout_ms);
    }
}

static inline void try_all(size_t n)
{
    cr_assert_eq(s.ops->trylock_batch(s.self, ops, n, &s.err), DLOCK_OK);
}

static inline void unlock_all(size_t n)
{
    cr_assert_eq(s.ops->unlock_batch(s.self, ops, n, &s.err), DLOCK_OK);
}

static inline void each_is(size_t from, size_t to, enum dlock_status status)
{
    for (size_t i = from; i < to; i++)
        cr_assert_eq(elements[i].status, status, "%zu: %s: %s", i,
                     dlock_status_name((int)elements[i].status), errors[i].message);
}

/* Scripts that the server has run since the last reset. */
static inline long scripts_run(struct dlt_redis *server)
{
    const char *at = strstr(dlt_redis_ask(server, "INFO commandstats"), "cmdstat_evalsha:calls=");

    return at == NULL ? 0 : strtol(at + strlen("cmdstat_evalsha:calls="), NULL, 10);
}

static inline void scripts_reset(struct dlt_redis *server)
{
    cr_assert_str_eq(dlt_redis_ask(server, "CONFIG RESETSTAT"), "OK");
}

#endif
