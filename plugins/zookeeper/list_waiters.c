/* SPDX-License-Identifier: MIT */
/* The names of the nodes are one answer, and so one moment. The labels and the permits are read
 * afterwards, a flight at a time: a waiter whose node has gone since then waits no more. */
#include "list_waiters.h"

#include "admin.h"

#include <stdlib.h>

struct listing {
    struct zk_session *session;
    const char *path;
    const struct zk_queue_waiter *waiters;
    dlock_waiter_fn *fn;
    void *arg;
    uint32_t position; /* of the next one */
    bool stopped;
    struct dlock_error *err;
};

static enum dlock_status no_memory(struct dlock_error *err)
{
    return dlock_fail(err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a list");
}

static void report(struct listing *listing, const struct zk_queue_waiter *item,
                   const struct zk_call *get)
{
    struct zk_admin_texts texts;
    struct dlock_waiter waiter = {
        .struct_size = sizeof waiter,
        .mode = item->node.shared ? DLOCK_SHARED : DLOCK_EXCLUSIVE,
        .waited_ms = -1,
        .owner = texts.owner,
        .label = texts.label,
    };

    zk_admin_texts(&texts, &item->node, get);
    if (get->rc == ZNONODE || (item->may_hold && (get->rc != ZOK || texts.permit >= 0)))
        return; /* gone, or a holder */
    waiter.position = listing->position++;
    listing->stopped = listing->fn(listing->arg, &waiter);
}

/* ZK_FLIGHT_MOST waiters at most, from `first` on. */
static enum dlock_status flight_report(struct listing *listing, size_t first, size_t n,
                                       int64_t timeout_ns)
{
    struct zk_flight *flight = zk_flight_new(listing->session->link, n);
    int64_t session_id = 0;
    enum dlock_status status = flight != NULL ? DLOCK_OK : no_memory(listing->err);

    for (size_t i = 0; i < n && status == DLOCK_OK; i++)
        if (zk_flight_add_child(flight, ZK_GET, listing->path, listing->waiters[first + i].child) ==
            NULL)
            status = no_memory(listing->err);
    if (status == DLOCK_OK)
        status = zk_flight_run(flight, &session_id,
                               zk_link_now(listing->session->link) + timeout_ns, listing->err);
    for (size_t i = 0; i < n && status == DLOCK_OK && !listing->stopped; i++)
        report(listing, &listing->waiters[first + i], zk_flight_call(flight, i));
    zk_flight_free(flight);
    return status;
}

static enum dlock_status waiters_report(struct listing *listing,
                                        const struct String_vector *children, int64_t deadline_ns)
{
    const int64_t timeout_ns = deadline_ns - zk_link_now(listing->session->link);
    struct zk_queue_waiter *waiters = NULL;
    size_t count = 0;
    enum dlock_status status = DLOCK_OK;

    if (!zk_queue_waiters(children, &waiters, &count))
        status = no_memory(listing->err);
    listing->waiters = waiters;
    for (size_t i = 0; i < count && status == DLOCK_OK && !listing->stopped; i += ZK_FLIGHT_MOST)
        status = flight_report(listing, i, count - i < ZK_FLIGHT_MOST ? count - i : ZK_FLIGHT_MOST,
                               timeout_ns);
    free(waiters);
    return status;
}

enum dlock_status zk_admin_list_waiters(struct zk_session *session, const unsigned char *name,
                                        uint32_t name_len, int64_t deadline_ns, dlock_waiter_fn *fn,
                                        void *arg, struct dlock_error *err)
{
    struct zk_path path;
    struct listing listing = {
        .session = session, .path = path.text, .fn = fn, .arg = arg, .err = err};
    struct zk_flight *flight = NULL;
    struct String_vector *children = NULL;
    enum dlock_status status = zk_admin_path(&path, session, name, name_len, err);

    if (status != DLOCK_OK)
        return status;
    status = zk_admin_children(session, path.text, deadline_ns, &flight, &children, err);
    if (status == DLOCK_OK && children != NULL)
        status = waiters_report(&listing, children, deadline_ns);
    zk_flight_free(flight);
    return status;
}
