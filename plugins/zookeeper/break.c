/* SPDX-License-Identifier: MIT */
#include "break.h"

#include "admin.h"
#include "flight.h"

#include <stdlib.h>
#include <string.h>

struct breaking {
    struct zk_session *session;
    struct zk_path path; /* of the name */
    const char *owner;
    int64_t deadline_ns;
    struct dlock_error *err;
    size_t ended;
};

static enum dlock_status no_memory(struct breaking *breaking)
{
    return dlock_fail(breaking->err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
}

static bool is_meant(const struct breaking *breaking, const struct zk_node *node)
{
    return breaking->owner == NULL || (strlen(breaking->owner) == node->owner_len &&
                                       memcmp(breaking->owner, node->owner, node->owner_len) == 0);
}

/* A holder that has gone meanwhile is not counted. */
static enum dlock_status answers_count(struct breaking *breaking, struct zk_flight *flight,
                                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct zk_call *call = zk_flight_call(flight, i);

        if (call->rc == ZOK)
            breaking->ended++;
        else if (call->rc != ZNONODE)
            return zk_flight_fail(breaking->err, call->rc, "delete", call->path);
    }
    return DLOCK_OK;
}

/* Deletes the nodes, ZK_FLIGHT_MOST at most. */
static enum dlock_status nodes_delete(struct breaking *breaking,
                                      const struct zk_admin_holder *items, size_t n)
{
    struct zk_flight *flight = zk_flight_new(breaking->session->link, n);
    int64_t session_id = 0;
    enum dlock_status status = flight != NULL ? DLOCK_OK : no_memory(breaking);

    for (size_t i = 0; i < n && status == DLOCK_OK; i++)
        if (zk_flight_add_child(flight, ZK_DELETE, breaking->path.text, items[i].child) == NULL)
            status = no_memory(breaking);
    if (status == DLOCK_OK)
        status = zk_flight_run(flight, &session_id, breaking->deadline_ns, breaking->err);
    if (status == DLOCK_OK)
        status = answers_count(breaking, flight, n);
    zk_flight_free(flight);
    return status;
}

static enum dlock_status holders_break(struct breaking *breaking,
                                       const struct String_vector *children)
{
    struct zk_admin_holders holders = {.count = 0};
    size_t meant = 0;
    enum dlock_status status = zk_admin_add(&holders, children) ? DLOCK_OK : no_memory(breaking);

    for (size_t i = 0; i < holders.count; i++)
        if (is_meant(breaking, &holders.items[i].node))
            holders.items[meant++] = holders.items[i];
    for (size_t i = 0; i < meant && status == DLOCK_OK; i += ZK_FLIGHT_MOST)
        status = nodes_delete(breaking, holders.items + i,
                              meant - i < ZK_FLIGHT_MOST ? meant - i : ZK_FLIGHT_MOST);
    free(holders.items);
    return status;
}

enum dlock_status zk_admin_break(struct zk_session *session, const unsigned char *name,
                                 uint32_t name_len, const char *owner, int64_t deadline_ns,
                                 struct dlock_error *err)
{
    struct breaking breaking = {
        .session = session, .owner = owner, .deadline_ns = deadline_ns, .err = err};
    struct zk_flight *flight = NULL;
    struct String_vector *children = NULL;
    enum dlock_status status = zk_admin_path(&breaking.path, session, name, name_len, err);

    if (status == DLOCK_OK)
        status =
            zk_admin_children(session, breaking.path.text, deadline_ns, &flight, &children, err);
    if (status == DLOCK_OK && children != NULL)
        status = holders_break(&breaking, children);
    zk_flight_free(flight);
    if (status == DLOCK_OK && breaking.ended == 0)
        return dlock_fail(err, ZK_ORIGIN, DLOCK_NOT_HELD, 0,
                          owner != NULL ? "not held by this owner" : "the name is free");
    return status;
}
