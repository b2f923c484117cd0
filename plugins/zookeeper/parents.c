/* SPDX-License-Identifier: MIT */
#include "parents.h"

#include "errmap.h"

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
            return zk_errmap_fail(err, call->rc, "create", call->path);
    }
    return DLOCK_OK;
}

/* Makes the node that ends at each of `ends`, in one flight. *rc: of the last one. */
static enum dlock_status levels_make(struct zk_session *session, const char *path,
                                     const size_t *ends, size_t count, int64_t deadline_ns, int *rc,
                                     struct dlock_error *err)
{
    struct zk_flight *flight = zk_flight_new(session->link, count);
    int64_t session_id = 0;
    enum dlock_status status = flight != NULL ? DLOCK_OK : no_memory(err);

    for (size_t i = 0; i < count && status == DLOCK_OK; i++) {
        char text[ZK_PATH_MAX + 1];
        struct zk_call *call = NULL;

        memcpy(text, path, ends[i]);
        text[ends[i]] = '\0';
        call = zk_flight_add(flight, ZK_CREATE, text);
        if (call == NULL) {
            status = no_memory(err);
            break;
        }
        call->data = "";
        call->flags = ends[i] > session->config.base_len ? ZOO_CONTAINER : ZOO_PERSISTENT;
    }
    if (status == DLOCK_OK)
        status = zk_flight_run(flight, &session_id, deadline_ns, err);
    if (status == DLOCK_OK) {
        *rc = zk_flight_call(flight, count - 1)->rc;
        status = answers_judge(flight, count, err);
    }
    zk_flight_free(flight);
    return status;
}

static enum dlock_status all_make(struct zk_session *session, const char *path, int64_t deadline_ns,
                                  struct dlock_error *err)
{
    const size_t len = strlen(path);
    size_t ends[LEVELS_MOST], count = 0;
    enum dlock_status status = DLOCK_OK;
    int rc = ZOK;

    for (size_t i = 1; i <= len && status == DLOCK_OK; i++) {
        if (i == len || path[i] == '/')
            ends[count++] = i;
        if (count < LEVELS_MOST && i < len)
            continue;
        status = levels_make(session, path, ends, count, deadline_ns, &rc, err);
        count = 0;
    }
    return status;
}

enum dlock_status zk_parents_make(struct zk_session *session, const char *path, int64_t deadline_ns,
                                  struct dlock_error *err)
{
    const size_t len = strlen(path);
    int rc = ZOK;
    enum dlock_status status = levels_make(session, path, &len, 1, deadline_ns, &rc, err);

    if (rc == ZNONODE)
        status = all_make(session, path, deadline_ns, err);
    if (status == DLOCK_UNKNOWN) {
        err->status = DLOCK_UNAVAILABLE;
        status = DLOCK_UNAVAILABLE;
    }
    return status;
}
