/* SPDX-License-Identifier: MIT */
/* batch_kit.h - batches of two clients for the same names, and exchanges that fail. */
#ifndef DLT_BATCH_KIT_H
#define DLT_BATCH_KIT_H

#include "batch_calls.h"
#include "exchange_plan.h"

enum { MANY = 8, MOST = 130 }; /* MOST: more than have room in two exchanges */

static struct dlt_batch all, rival;

/* Elements "b000", "b001" ...: of s, and the same names of t. */
static inline void batches_open(const char *test, size_t n)
{
    open_all(test);
    dlt_batch_init(&all, &s, n, "b");
    dlt_batch_init(&rival, &t, n, "b");
}

static inline void batch_forget(struct dlt_batch *batch, struct dlt_session *session)
{
    for (size_t i = 0; i < batch->n; i++)
        forget(session, &batch->requests[i]);
}

static inline void batches_close(void)
{
    batch_forget(&all, &s);
    batch_forget(&rival, &t);
    leftovers_gone(&s);
    close_all();
}

/* Of a large batch some are looked at. */
static inline void each_has_nodes(int want)
{
    for (size_t i = 0; i < all.n; i += 1 + all.n / 16)
        cr_assert_eq(nodes_count(all.names[i], ""), want, "%s", all.names[i]);
}

static inline void flags_set(struct dlt_batch *batch, uint32_t flags)
{
    for (size_t i = 0; i < batch->n; i++)
        batch->requests[i].req.flags = flags;
}

/* The exchanges that a call takes. */
static inline int exchanges_of(void (*call)(struct dlt_batch *batch, struct dlt_session *session))
{
    at(1000);
    call(&all, &s);
    return 1000 - plan.left;
}

#endif
