/* SPDX-License-Identifier: MIT */
#include "parents.h"

#include "flight.h"

#include <string.h>

#define LEVELS_MOST 64 /* in one flight */

static enum dlock_status no_memory(struct dlock_error *err)
{
    return dlock_fail(err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
}

static bool is_made(const struct zk_call *call)
{
    return call->rc == ZOK || call->rc == ZNODEEXISTS;
}

/* The last node of the flight counts: without the right to make a node, the servers do not say
 * whether it is there. */
static enum dlock_status answers_judge(struct zk_flight *flight, size_t count,
                                       struct dlock_error *err)
{
    for (size_t i = 0; i < count && !is_made(zk_flight_call(flight, count - 1)); i++) {
        const struct zk_call *call = zk_flight_call(flight, i);

        if (call->rc == ZNONODE)
            return dlock_fail(err, ZK_ORIGIN, DLOCK_UNAVAILABLE, ZNONODE,
                              "create %s: a node above it was deleted meanwhile", call->path);
        if (!is_made(call))
            return zk_flight_fail(err, call->rc, "create", call->path);
    }
    return DLOCK_OK;
}

static bool level_add(const struct zk_session *session, struct zk_flight *flight, const char *path,
                      size_t end)
{
    char text[ZK_PATH_MAX + 1];
    struct zk_call *call = NULL;

    memcpy(text, path, end);
    text[end] = '\0';
    call = zk_flight_add(flight, ZK_CREATE, text);
    if (call == NULL)
        return false;
    call->data = "";
    call->flags = end > session->config.base_len ? ZOO_CONTAINER : ZOO_PERSISTENT;
    return true;
}

/* Makes the node that ends at each of `ends`, in one flight. */
static enum dlock_status levels_make(struct zk_session *session, const char *path,
                                     const size_t *ends, size_t count, int64_t deadline_ns,
                                     struct dlock_error *err)
{
    struct zk_flight *flight = zk_flight_new(session->link, count);
    int64_t session_id = 0;
    enum dlock_status status = flight != NULL ? DLOCK_OK : no_memory(err);

    for (size_t i = 0; i < count && status == DLOCK_OK; i++)
        if (!level_add(session, flight, path, ends[i]))
            status = no_memory(err);
    if (status == DLOCK_OK)
        status = zk_flight_run(flight, &session_id, deadline_ns, err);
    if (status == DLOCK_OK)
        status = answers_judge(flight, count, err);
    zk_flight_free(flight);
    return status;
}

static enum dlock_status all_make(struct zk_session *session, const char *path, int64_t deadline_ns,
                                  struct dlock_error *err)
{
    const size_t len = strlen(path);
    size_t ends[LEVELS_MOST], count = 0;
    enum dlock_status status = DLOCK_OK;

    for (size_t i = 1; i <= len && status == DLOCK_OK; i++) {
        if (i == len || path[i] == '/')
            ends[count++] = i;
        if (count < LEVELS_MOST && i < len)
            continue;
        status = levels_make(session, path, ends, count, deadline_ns, err);
        count = 0;
    }
    return status;
}

/* The answer to the create of the last node alone. False: a node above it is missing. */
static bool last_judge(struct zk_parent *parent, const struct zk_call *call)
{
    if (call->rc == ZNONODE)
        return false;
    if (!is_made(call))
        parent->status = zk_flight_fail(parent->err, call->rc, "create", call->path);
    return true;
}

/* Makes the last node of each. Returns how many are left in `parents`: a node above is missing. */
static size_t lasts_make(struct zk_session *session, struct zk_parent **parents, size_t n,
                         int64_t deadline_ns)
{
    struct dlock_error why = DLOCK_ERROR_INIT;
    struct zk_flight *flight = zk_flight_new(session->link, n);
    int64_t session_id = 0;
    enum dlock_status said = DLOCK_OK;
    bool made = flight != NULL;
    size_t left = 0;

    for (size_t i = 0; i < n && made; i++)
        made = level_add(session, flight, parents[i]->path, strlen(parents[i]->path));
    said = made ? zk_flight_run(flight, &session_id, deadline_ns, &why) : no_memory(&why);
    for (size_t i = 0; i < n; i++) {
        struct zk_parent *parent = parents[i];

        parent->status = zk_flight_part(flight, i, 1, said, &why, parent->err);
        if (parent->status == DLOCK_OK && !last_judge(parent, zk_flight_call(flight, i)))
            parents[left++] = parent;
    }
    zk_flight_free(flight);
    return left;
}

void zk_parents_make(struct zk_session *session, struct zk_parent *parents, size_t n,
                     int64_t deadline_ns)
{
    struct zk_parent *some[ZK_FLIGHT_MOST];
    size_t left = 0;

    for (size_t i = 0; i < n; i++)
        some[i] = &parents[i];
    left = lasts_make(session, some, n, deadline_ns);
    for (size_t i = 0; i < left; i++) {
        some[i]->status = all_make(session, some[i]->path, deadline_ns, some[i]->err);
        if (i == 0 && left > 1)
            left = 1 + lasts_make(session, some + 1, left - 1, deadline_ns);
    }
    for (size_t i = 0; i < n; i++)
        if (parents[i].status == DLOCK_UNKNOWN)
            parents[i].status = parents[i].err->status = DLOCK_UNAVAILABLE;
}
