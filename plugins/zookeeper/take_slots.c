/* SPDX-License-Identifier: MIT */
#include "take_slots.h"

#include "lib/time.h"
#include "take.h"

#include <string.h>

#define PATIENCE_NS (143 * DL_NS_PER_MS)

enum dlock_status zk_take(struct zk_session *session, const struct dlock_request *req,
                          struct dlock_grant *grant, struct dlock_error *err)
{
    int64_t patience_ns = PATIENCE_NS;

    return zk_take_one(session, req, grant, &patience_ns, err);
}

/* ---- a batch ---- */

/* What the steps are made together for: a lock, and no answer was lost. */
static bool is_sociable(const struct dlock_request *req)
{
    const struct zk_slot *slot = req->attempt;

    return dlock_request_limit(req) == 1 && slot->doubts == 0;
}

static bool is_same_name(const struct dlock_request *a, const struct dlock_request *b)
{
    return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

/* Its node may be refused, and a reader behind it may not. */
static bool is_in_the_way(struct dlock_batch_op *const *ops, size_t n, size_t i)
{
    const struct dlock_request *req = ops[i]->req;

    if (req->mode == DLOCK_SHARED || (req->flags & (DLOCK_REQ_ENQUEUE | DLOCK_REQ_REFRESH)) != 0)
        return false;
    for (size_t j = i + 1; j < n; j++)
        if (ops[j]->req->mode == DLOCK_SHARED && is_same_name(ops[j]->req, req))
            return true;
    return false;
}

/* How many of `ops` are sociable: they are first in `ordered`, and the others follow. */
static size_t order(struct dlock_batch_op *const *ops, size_t n, struct dlock_batch_op **ordered)
{
    struct dlock_batch_op *last[ZK_TAKE_MOST], *alone[ZK_TAKE_MOST];
    size_t first = 0, behind = 0, rest = 0;

    for (size_t i = 0; i < n; i++)
        if (!is_sociable(ops[i]->req))
            alone[rest++] = ops[i];
        else if (is_in_the_way(ops, n, i))
            last[behind++] = ops[i];
        else
            ordered[first++] = ops[i];
    memcpy(ordered + first, last, behind * sizeof(struct dlock_batch_op *));
    memcpy(ordered + first + behind, alone, rest * sizeof(struct dlock_batch_op *));
    return first + behind;
}

static void some_take(struct zk_session *session, struct dlock_batch_op *const *ops, size_t n,
                      int64_t *patience_ns)
{
    struct dlock_batch_op *ordered[ZK_TAKE_MOST];
    size_t sociable = order(ops, n, ordered);

    if (sociable > 0 && !zk_take_together(session, ordered, sociable, patience_ns))
        sociable = 0;
    for (size_t i = sociable; i < n; i++)
        ordered[i]->status =
            zk_take_one(session, ordered[i]->req, &ordered[i]->grant, patience_ns, ordered[i]->err);
}

void zk_take_batch(struct zk_session *session, struct dlock_batch_op *const *ops, size_t n)
{
    int64_t patience_ns = PATIENCE_NS;

    for (size_t i = 0; i < n; i += ZK_TAKE_MOST)
        some_take(session, ops + i, n - i < ZK_TAKE_MOST ? n - i : ZK_TAKE_MOST, &patience_ns);
}
