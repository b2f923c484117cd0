/* SPDX-License-Identifier: MIT */
/* What can be asked of one name. In whatever is asked, what ran out is reaped first, and what
 * became free goes to the head of the queue, whoever asked. */
#include "lib/hex.h"
#include "memory.h"

#include <string.h>

static void busy_fill(struct dlock_grant *grant, const struct memory_name *name, int64_t now_ns)
{
    for (const struct memory_claim *c = name->holders; c != NULL; c = c->next) {
        int64_t left_ms = memory_claim_left_ms(c, now_ns);

        if (left_ms > grant->holder_ms)
            grant->holder_ms = left_ms;
    }
    grant->waiters = memory_name_waiters(name, now_ns);
}

/* The place lives on, and the answer says how long. */
static void place_keep(const struct memory_session *session, struct memory_name *name,
                       struct memory_claim *place, int64_t ttl_ms, int64_t now_ns,
                       struct dlock_grant *grant)
{
    int64_t place_ms = session->waiter_lease_ms;

    place->grant_lease_ms = place_ms < ttl_ms ? place_ms : ttl_ms;
    memory_claim_extend(place, place_ms, now_ns);
    busy_fill(grant, name, now_ns);
    for (const struct memory_claim *c = name->queue; c != place; c = c->next)
        grant->queue_position++;
    grant->flags |= DLOCK_GRANT_QUEUED;
    grant->waiters--; /* the others */
    grant->fence = memory_fence_last();
    grant->lease_ms = (place->expires_ns - now_ns) / DL_NS_PER_MS;
}

/* Everybody arrives at the end of the queue. Who does not want to wait leaves again; who only wants
 * to keep a place does not arrive. */
static enum dlock_status try_name(const struct memory_session *session,
                                  const struct dlock_request *req, struct memory_name *name,
                                  int64_t now_ns, struct dlock_grant *grant)
{
    int refresh = (req->flags & DLOCK_REQ_REFRESH) != 0;
    int enqueue = !refresh && (req->flags & DLOCK_REQ_ENQUEUE) != 0;
    struct memory_claim *known = NULL, *claim = NULL;

    memory_name_reap(name, now_ns);
    known = claim = memory_claim_find(name, req->token);
    if (known == NULL && !refresh) {
        claim = memory_claim_add(name, req);
        if (claim == NULL)
            return DLOCK_NOMEM;
    }
    memory_name_grant(name, now_ns);
    if (claim != NULL && claim->fence != 0) {
        memory_claim_extend(claim, req->ttl_ms, now_ns);
        memory_grant_fill(grant, name, claim, req->ttl_ms, now_ns);
        return DLOCK_OK;
    }
    if (claim != NULL && (refresh || enqueue)) {
        place_keep(session, name, claim, req->ttl_ms, now_ns, grant);
        return DLOCK_BUSY;
    }
    if (claim != known)
        memory_claim_remove(name, claim);
    busy_fill(grant, name, now_ns);
    return DLOCK_BUSY;
}

enum dlock_status memory_lease_try(const struct memory_session *session,
                                   const struct dlock_request *req, struct dlock_grant *grant)
{
    struct memory_store *store = session->store;
    struct memory_name *name = memory_name_get(store, req->name, req->name_len);
    struct memory_waiter *waiter = req->attempt;
    enum dlock_status status = DLOCK_NOMEM;

    if (name == NULL)
        return DLOCK_NOMEM;
    if ((req->flags & DLOCK_REQ_ENQUEUE) != 0)
        waiter->enqueued = 1;
    grant->holder_ms = -1;
    status = try_name(session, req, name, memory_store_now(store, session->host), grant);
    memory_name_tidy(store, name);
    return status;
}

enum dlock_status memory_lease_renew(const struct memory_session *session,
                                     struct dlock_lease_op *op)
{
    const struct dlock_request *req = op->req;
    struct memory_store *store = session->store;
    struct memory_name *name = memory_name_find(store, req->name, req->name_len);
    int64_t now_ns = memory_store_now(store, session->host);
    struct memory_claim *claim = NULL;

    if (name == NULL)
        return DLOCK_LOST;
    memory_name_reap(name, now_ns);
    claim = memory_claim_find(name, req->token);
    if (claim == NULL || claim->fence == 0) {
        memory_name_pass_on(store, name, now_ns);
        return DLOCK_LOST;
    }
    memory_claim_extend(claim, req->ttl_ms, now_ns);
    if ((req->flags & DLOCK_REQ_DOWNGRADE) != 0)
        claim->mode = DLOCK_SHARED;
    memory_name_pass_on(store, name, now_ns); /* readers may join it now */
    memory_grant_fill(&op->grant, name, claim, req->ttl_ms, now_ns);
    return DLOCK_OK;
}

int memory_lease_end(const struct memory_session *session, const struct dlock_request *req,
                     int place_too)
{
    struct memory_store *store = session->store;
    struct memory_name *name = memory_name_find(store, req->name, req->name_len);
    int64_t now_ns = memory_store_now(store, session->host);
    struct memory_claim *claim = NULL;
    int mine = 0;

    if (name == NULL)
        return 0;
    memory_name_reap(name, now_ns);
    claim = memory_claim_find(name, req->token);
    mine = claim != NULL && (claim->fence != 0 || place_too);
    if (mine)
        memory_claim_remove(name, claim);
    memory_name_pass_on(store, name, now_ns);
    return mine;
}

const char *memory_lease_break(const struct memory_session *session, const unsigned char *bytes,
                               uint32_t len, const char *owner)
{
    struct memory_store *store = session->store;
    struct memory_name *name = memory_name_find(store, bytes, len);
    int64_t now_ns = memory_store_now(store, session->host);
    struct memory_claim *claim = NULL;
    const char *refusal = "the name is free";

    if (name == NULL)
        return refusal;
    memory_name_reap(name, now_ns);
    if (name->holders != NULL)
        refusal = "held by another owner";
    claim = name->holders;
    while (claim != NULL) {
        struct memory_claim *next = claim->next;
        char holder[MEMORY_HEX_SIZE];

        dl_hex_encode(holder, claim->token, DLOCK_TOKEN_SIZE);
        if (owner == NULL || strcmp(owner, holder) == 0) {
            memory_claim_remove(name, claim);
            refusal = NULL;
        }
        claim = next;
    }
    memory_name_pass_on(store, name, now_ns);
    return refusal;
}
