/* SPDX-License-Identifier: MIT */
#include "queue.h"
#include "session.h"

enum dlock_status memory_renew_lease(const struct memory_session *session,
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
