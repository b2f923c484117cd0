/* SPDX-License-Identifier: MIT */
#include "permit.h"

#include "flight.h"
#include "lib/holder_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TRIES    3 /* an earlier request of ours may have been executed meanwhile */
#define HEAD_MAX 40

/* What was read of the nodes before ours. */
struct permits {
    struct zk_attempt *attempt;
    const char *const *names; /* the nodes, ours last */
    size_t count;
    unsigned char taken[(ZK_LIMIT_MOST + 7) / 8];
    const char *unsettled; /* the last one without a permit; NULL: there is none */
    int64_t own;           /* our permit; -1: none */
    bool gone;             /* our node */
};

int64_t zk_permit_read(const struct zk_call *get, size_t *label)
{
    char head[HEAD_MAX + 1] = {0};
    uint32_t permit = 0, limit = 0;
    int end = 0;

    *label = 0;
    if (get->rc != ZOK || get->text == NULL || get->stat.version == 0)
        return -1;
    memcpy(head, get->text, get->text_len < HEAD_MAX ? get->text_len : HEAD_MAX);
    if (sscanf(head, "permit %" SCNu32 " of %" SCNu32 ": %n", &permit, &limit, &end) != 2 ||
        end == 0 || permit >= limit || limit > ZK_LIMIT_MOST)
        return -1;
    *label = (size_t)end;
    return permit;
}

static enum dlock_status no_memory(const struct zk_attempt *attempt)
{
    return dlock_fail(attempt->err, ZK_ORIGIN, DLOCK_NOMEM, 0, "no memory for a request");
}

/* ---- reading ---- */

static enum dlock_status note(struct permits *permits, size_t i, const struct zk_call *get)
{
    const bool own = i + 1 == permits->count;
    size_t label = 0;
    const int64_t permit = zk_permit_read(get, &label);

    if (get->rc != ZOK && get->rc != ZNONODE)
        return zk_flight_fail(permits->attempt->err, get->rc, "read", get->path);
    if (own) {
        permits->gone = get->rc == ZNONODE;
        permits->own = permit;
    } else if (permit >= 0) {
        permits->taken[permit / 8] |= (unsigned char)(1u << permit % 8);
    } else if (get->rc == ZOK) {
        permits->unsettled = permits->names[i];
    }
    return DLOCK_OK;
}

static enum dlock_status part_read(struct permits *permits, size_t first, size_t n)
{
    struct zk_attempt *attempt = permits->attempt;
    struct zk_flight *flight = zk_flight_new(attempt->session->link, n);
    int64_t session_id = attempt->slot->session_id;
    enum dlock_status status = flight != NULL ? DLOCK_OK : no_memory(attempt);

    for (size_t i = 0; i < n && status == DLOCK_OK; i++)
        if (zk_flight_add_child(flight, ZK_GET, attempt->path.text, permits->names[first + i]) ==
            NULL)
            status = no_memory(attempt);
    if (status == DLOCK_OK)
        status = zk_flight_run(flight, &session_id, attempt->deadline_ns, attempt->err);
    for (size_t i = 0; i < n && status == DLOCK_OK; i++)
        status = note(permits, first + i, zk_flight_call(flight, i));
    zk_flight_free(flight);
    return status;
}

static enum dlock_status all_read(struct permits *permits)
{
    enum dlock_status status = DLOCK_OK;

    memset(permits->taken, 0, sizeof permits->taken);
    permits->unsettled = NULL;
    permits->own = -1;
    permits->gone = false;
    for (size_t i = 0; i < permits->count && status == DLOCK_OK; i += ZK_FLIGHT_MOST)
        status = part_read(
            permits, i, permits->count - i < ZK_FLIGHT_MOST ? permits->count - i : ZK_FLIGHT_MOST);
    return status;
}

enum dlock_status zk_permit_ask(struct zk_attempt *attempt, int64_t session_id, const char *node,
                                bool *has)
{
    struct zk_flight *flight = zk_flight_new(attempt->session->link, 1);
    struct zk_call *get = NULL;
    size_t label = 0;
    enum dlock_status status = DLOCK_OK;

    *has = false;
    if (flight != NULL)
        get = zk_flight_add_child(flight, ZK_GET, attempt->path.text, node);
    if (get != NULL)
        status = zk_flight_run(flight, &session_id, attempt->deadline_ns, attempt->err);
    else
        status = no_memory(attempt);
    if (status == DLOCK_OK && get->rc != ZOK && get->rc != ZNONODE)
        status = zk_flight_fail(attempt->err, get->rc, "read", get->path);
    if (status == DLOCK_OK)
        *has = zk_permit_read(get, &label) >= 0;
    zk_flight_free(flight);
    return status;
}

/* ---- taking ---- */

static uint32_t lowest(const struct permits *permits)
{
    uint32_t permit = 0;

    while (permit < ZK_LIMIT_MOST && (permits->taken[permit / 8] >> permit % 8 & 1) != 0)
        permit++;
    return permit;
}

/* OK: what our node has now is to be read. */
static enum dlock_status write(struct permits *permits, uint32_t limit)
{
    struct zk_attempt *attempt = permits->attempt;
    struct zk_flight *flight = zk_flight_new(attempt->session->link, 1);
    int64_t session_id = attempt->slot->session_id;
    const uint32_t permit = lowest(permits);
    char value[HEAD_MAX + DL_HOLDER_TEXT_MAX];
    const int head = snprintf(value, HEAD_MAX, "permit %u of %u: ", permit, limit);
    struct zk_call *set = NULL;
    enum dlock_status status = DLOCK_NOMEM;

    if (flight != NULL)
        set = zk_flight_add_child(flight, ZK_SET, attempt->path.text, attempt->slot->node);
    if (set != NULL) {
        set->data = value;
        set->data_len = (size_t)head + dl_holder_text_make(value + head, attempt->req);
        set->version = 0;
        status = zk_flight_run(flight, &session_id, attempt->deadline_ns, attempt->err);
    } else {
        status = no_memory(attempt);
    }
    if (status == DLOCK_OK && set->rc == ZOK)
        permits->own = permit;
    else if (status == DLOCK_OK && set->rc == ZNONODE)
        permits->gone = true;
    else if (status == DLOCK_OK && set->rc != ZBADVERSION)
        status = zk_flight_fail(attempt->err, set->rc, "write", set->path);
    zk_flight_free(flight);
    return status;
}

static enum dlock_status run(struct permits *permits, uint32_t limit)
{
    enum dlock_status status = DLOCK_OK;

    for (int i = 0; i < TRIES; i++) {
        status = all_read(permits);
        if (status != DLOCK_OK || permits->gone || permits->own >= 0 ||
            permits->unsettled != NULL || !permits->attempt->claims)
            return status;
        status = write(permits, limit);
        if (status != DLOCK_OK || permits->gone || permits->own >= 0)
            return status;
    }
    return dlock_fail(permits->attempt->err, ZK_ORIGIN, DLOCK_UNAVAILABLE, 0,
                      "the value of the node is not one of ours");
}

enum dlock_status zk_permit_take(struct zk_attempt *attempt, const struct String_vector *children,
                                 struct zk_standing *standing, bool *known)
{
    struct permits permits = {.attempt = attempt};
    const char **names = NULL;
    enum dlock_status status = DLOCK_OK;

    *known = true;
    if (!standing->holds) /* fewer than it needs may have gone */
        return DLOCK_OK;
    if (!zk_queue_before(children, attempt->slot->node, &names, &permits.count)) {
        free(names);
        return no_memory(attempt);
    }
    names[permits.count++] = attempt->slot->node;
    permits.names = names;
    status = run(&permits, standing->limit);
    *known = status == DLOCK_OK && !permits.gone;
    standing->holds = *known && permits.own >= 0;
    standing->permit = standing->holds ? (uint32_t)permits.own : 0;
    standing->room = *known && permits.own < 0 && permits.unsettled == NULL;
    if (permits.unsettled != NULL)
        standing->predecessor = permits.unsettled;
    free(names);
    return status;
}
