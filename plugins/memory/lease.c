/* SPDX-License-Identifier: MIT */
#include "lib/text.h"
#include "lib/time.h"
#include "queue.h"
#include "session.h"

#include <string.h>

/* Each request first removes expired leases and queue entries, and grants a free name to the head
 * of the queue, also when another handle asks. */

#define NO_MEMORY "no memory for one more name or waiter"

static void busy_describe(struct dlock_grant *grant, const struct memory_name *name, int64_t now_ns)
{
    for (const struct memory_entry *e = name->holders; e != NULL; e = e->next) {
        int64_t left_ms = memory_entry_left_ms(e, now_ns);

        if (grant->holder_ms < 0 || (left_ms > grant->holder_ms) == (e->limit == 1))
            grant->holder_ms = left_ms; /* the last of them to end; of permits the first */
    }
    grant->waiters = memory_queue_count(name, now_ns);
}

/* The queue entry lives on, and the answer says how long. */
static void entry_refresh(const struct memory_session *session, const struct memory_name *name,
                          struct memory_entry *entry, int64_t ttl_ms, int64_t now_ns,
                          struct dlock_grant *grant)
{
    int64_t entry_ms = session->config.waiter_ttl_ms;

    entry->grant_ms = entry_ms < ttl_ms ? entry_ms : ttl_ms;
    memory_entry_extend(entry, entry_ms, now_ns);
    busy_describe(grant, name, now_ns);
    for (const struct memory_entry *e = name->queue; e != entry; e = e->next)
        grant->queue_position++;
    grant->flags |= DLOCK_GRANT_QUEUED;
    grant->waiters--; /* the others */
    grant->fence = memory_queue_last_fence();
    grant->lease_ms = (entry->expires_ns - now_ns) / DL_NS_PER_MS;
}

/* Every newcomer joins the queue at its end. One that does not want to wait is taken out again; a
 * refresh keeps an entry and does not add one. */
static enum dlock_status try_name(const struct memory_session *session,
                                  const struct dlock_request *req, struct memory_name *name,
                                  int64_t now_ns, struct dlock_grant *grant)
{
    bool refresh = (req->flags & DLOCK_REQ_REFRESH) != 0;
    bool enqueue = !refresh && (req->flags & DLOCK_REQ_ENQUEUE) != 0;
    struct memory_entry *known = NULL, *entry = NULL;

    memory_store_reap(name, now_ns);
    known = entry = memory_queue_find(name, req->token);
    if (known == NULL && !refresh) {
        entry = memory_entry_new(req);
        if (entry == NULL)
            return DLOCK_NOMEM;
        entry->since_ns = now_ns;
        memory_entry_append(&name->queue, entry);
    }
    memory_queue_grant(name, now_ns);
    if (entry != NULL && entry->fence != 0) {
        memory_entry_extend(entry, req->ttl_ms, now_ns);
        memory_queue_describe(grant, name, entry, req->ttl_ms, now_ns);
        return DLOCK_OK;
    }
    if (entry != NULL && (refresh || enqueue)) {
        entry_refresh(session, name, entry, req->ttl_ms, now_ns, grant);
        return DLOCK_BUSY;
    }
    if (entry != known)
        memory_queue_remove(name, entry);
    busy_describe(grant, name, now_ns);
    return DLOCK_BUSY;
}

enum dlock_status memory_lease_try(struct memory_session *session, const struct dlock_request *req,
                                   struct dlock_grant *grant, struct dlock_error *err)
{
    struct memory_store *store = session->store;
    struct memory_name *name = memory_store_get(store, req->name, req->name_len);
    int64_t now_ns = memory_store_now(store, session->host);
    struct memory_waiter *waiter = req->attempt;
    enum dlock_status status = DLOCK_NOMEM;
    uint32_t other = 0;

    if (name != NULL) {
        memory_store_reap(name, now_ns);
        other = memory_queue_other_limit(name, req->limit);
    }
    if (name == NULL)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_NOMEM, 0, NO_MEMORY);
    if (other != 0)
        return dlock_fail(err, MEMORY_ORIGIN, DLOCK_CONFIG, 0, DLOCK_LIMITS_DIFFER, other,
                          req->limit);
    if ((req->flags & DLOCK_REQ_ENQUEUE) != 0)
        waiter->enqueued = true;
    grant->holder_ms = -1;
    memory_waiter_unlist(waiter, &name->waiters); /* [ANY-2], and it does not wait for itself */
    status = try_name(session, req, name, now_ns, grant);
    if (status == DLOCK_BUSY && req->waiter != 0)
        memory_waiter_list(waiter, &name->waiters, req, &session->pending);
    memory_store_tidy(store, name);
    if (status == DLOCK_NOMEM)
        return dlock_fail(err, MEMORY_ORIGIN, status, 0, NO_MEMORY);
    return status;
}

/* The lease ends, and the name or the permit stays taken. */
static void keep(struct memory_entry *entry, int64_t keep_ms, int64_t now_ns)
{
    memset(entry->token, 0, sizeof entry->token);
    entry->kept = true;
    entry->data_len = 0;
    entry->expires_ns = now_ns + keep_ms * DL_NS_PER_MS;
}

bool memory_lease_end(const struct memory_session *session, const struct dlock_request *req,
                      bool queued_too)
{
    struct memory_store *store = session->store;
    struct memory_name *name = memory_store_find(store, req->name, req->name_len);
    int64_t now_ns = memory_store_now(store, session->host);
    struct memory_entry *entry = NULL;
    bool mine = false;

    if (name == NULL)
        return false;
    memory_store_reap(name, now_ns);
    entry = memory_queue_find(name, req->token);
    mine = entry != NULL && (entry->fence != 0 || queued_too);
    if (mine && entry->fence != 0 && req->keep_ms > 0)
        keep(entry, req->keep_ms, now_ns);
    else if (mine)
        memory_queue_remove(name, entry);
    memory_queue_pass_on(store, name, now_ns);
    return mine;
}

const char *memory_lease_break(const struct memory_session *session, const unsigned char *bytes,
                               uint32_t len, const char *owner)
{
    struct memory_store *store = session->store;
    struct memory_name *name = memory_store_find(store, bytes, len);
    int64_t now_ns = memory_store_now(store, session->host);
    struct memory_entry *entry = NULL;
    const char *refusal = "the name is free";

    if (name == NULL)
        return refusal;
    memory_store_reap(name, now_ns);
    if (name->holders != NULL)
        refusal = "held by another owner";
    entry = name->holders;
    while (entry != NULL) {
        struct memory_entry *next = entry->next;
        char holder[2 * DLOCK_TOKEN_SIZE + 1];

        dl_hex_encode(holder, entry->token, DLOCK_TOKEN_SIZE);
        if (owner == NULL || strcmp(owner, holder) == 0) {
            memory_queue_remove(name, entry);
            refusal = NULL;
        }
        entry = next;
    }
    memory_queue_pass_on(store, name, now_ns);
    return refusal;
}

enum dlock_status memory_lease_renew(const struct memory_session *session,
                                     struct dlock_lease_op *op)
{
    const struct dlock_request *req = op->req;
    struct memory_store *store = session->store;
    struct memory_name *name = memory_store_find(store, req->name, req->name_len);
    int64_t now_ns = memory_store_now(store, session->host);
    struct memory_entry *holder = NULL;

    if (name == NULL)
        return DLOCK_LOST;
    memory_store_reap(name, now_ns);
    holder = memory_entry_find(name->holders, req->token);
    if (holder == NULL) {
        memory_queue_pass_on(store, name, now_ns);
        return DLOCK_LOST;
    }
    memory_entry_extend(holder, req->ttl_ms, now_ns);
    if ((req->flags & DLOCK_REQ_DOWNGRADE) != 0)
        holder->mode = DLOCK_SHARED;
    memory_queue_pass_on(store, name, now_ns); /* readers may join it now */
    memory_queue_describe(&op->grant, name, holder, req->ttl_ms, now_ns);
    return DLOCK_OK;
}
