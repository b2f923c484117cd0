/* SPDX-License-Identifier: MIT */
#include "leftover.h"

#include "exchange.h"
#include "lib/time.h"
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE    64 /* questions under way */
#define ASKS       4  /* in the timeout of a session, while the token is absent */
#define NODES_MOST 8  /* of a token, deleted at once */

struct zk_leftover {
    struct zk_leftover *next;
    struct zk_leftovers *all;
    char parent[ZK_PATH_MAX + 1];
    char token[ZK_TOKEN_HEX + 1];
    int64_t session_id;
    bool asking;       /* an exchange is under way */
    int64_t asked_ns;  /* when the last question left */
    int64_t absent_ns; /* when the token was found absent, and since then; 0: it was not */
};

/* ---- the list, under the mutex ---- */

static void leftover_drop(struct zk_leftover *leftover)
{
    struct zk_leftover **at = &leftover->all->first;

    while (*at != leftover)
        at = &(*at)->next;
    *at = leftover->next;
    free(leftover);
}

static struct zk_leftover *leftover_find(const struct zk_leftovers *leftovers, const char *parent,
                                         const char *token, int64_t session_id)
{
    struct zk_leftover *at = leftovers->first;

    while (at != NULL && (at->session_id != session_id || strcmp(at->token, token) != 0 ||
                          strcmp(at->parent, parent) != 0))
        at = at->next;
    return at;
}

/* ---- deleting ---- */

static void on_deleted_locked(struct zk_exchange *exchange, void *arg)
{
    struct zk_leftover *leftover = arg;

    zk_exchange_free(exchange);
    leftover->asking = false;
}

/* False: the token is absent. */
static bool nodes_delete_locked(struct zk_leftover *leftover, const struct String_vector *children)
{
    struct zk_exchange *exchange = zk_exchange_new(leftover->all->link, NODES_MOST);
    struct zk_node node;
    bool found = false, added = false;

    for (int32_t i = 0; i < children->count; i++) {
        if (!zk_node_parse(&node, children->data[i]) || !zk_node_is(&node, leftover->token))
            continue;
        found = true;
        if (exchange != NULL &&
            zk_exchange_add_child(exchange, ZK_DELETE, leftover->parent, children->data[i]) != NULL)
            added = true;
    }
    leftover->asking = added && zk_exchange_begin(exchange, on_deleted_locked, leftover);
    if (!leftover->asking)
        zk_exchange_free(exchange);
    return found;
}

/* ---- asking ---- */

static int64_t timeout_ns_locked(struct zk_leftover *leftover)
{
    struct zk_session_state state;

    zk_link_state_locked(leftover->all->link, &state);
    return state.timeout_ms * DL_NS_PER_MS;
}

static void on_children_locked(struct zk_exchange *exchange, void *arg)
{
    struct zk_leftover *leftover = arg;
    const struct zk_call *sync = zk_exchange_call(exchange, 0),
                         *call = zk_exchange_call(exchange, 1);
    const bool answered = sync->rc == ZOK && (call->rc == ZOK || call->rc == ZNONODE);

    leftover->asking = false;
    if (answered && nodes_delete_locked(leftover, &call->children)) {
        leftover->absent_ns = 0;
    } else if (answered && leftover->absent_ns == 0) {
        leftover->absent_ns = zk_link_now(leftover->all->link);
    } else if (answered &&
               leftover->asked_ns - leftover->absent_ns >= timeout_ns_locked(leftover)) {
        leftover_drop(leftover);
    }
    zk_exchange_free(exchange);
}

/* False: it could not be sent. */
static bool ask_locked(struct zk_leftover *leftover)
{
    struct zk_link *link = leftover->all->link;
    struct zk_exchange *exchange = zk_exchange_new(link, 2);

    if (exchange == NULL)
        return false;
    leftover->asked_ns = zk_link_now(link);
    leftover->asking = zk_exchange_add(exchange, ZK_SYNC, leftover->parent) != NULL &&
                       zk_exchange_add(exchange, ZK_CHILDREN, leftover->parent) != NULL &&
                       zk_exchange_begin(exchange, on_children_locked, leftover);
    if (!leftover->asking)
        zk_exchange_free(exchange);
    return leftover->asking;
}

/* A token that was absent is asked for less often. */
static bool is_due_locked(struct zk_leftover *leftover, int64_t now_ns)
{
    return leftover->absent_ns == 0 ||
           now_ns - leftover->asked_ns >= timeout_ns_locked(leftover) / ASKS;
}

static void on_beat(struct zk_link *link, void *arg)
{
    struct zk_leftovers *leftovers = arg;
    struct zk_leftover *next = NULL;
    struct zk_session_state state;
    size_t asking = 0;

    zk_link_state_locked(link, &state);
    for (const struct zk_leftover *at = leftovers->first; at != NULL; at = at->next)
        asking += at->asking;
    for (struct zk_leftover *at = leftovers->first; at != NULL; at = next) {
        next = at->next;
        if (at->asking)
            continue;
        if (at->session_id != state.session_id)
            leftover_drop(at);
        else if (asking < AT_ONCE && is_due_locked(at, zk_link_now(link)) && ask_locked(at))
            asking++;
    }
}

/* ---- for the slots ---- */

void zk_leftover_init(struct zk_leftovers *leftovers, struct zk_link *link)
{
    leftovers->link = link;
    leftovers->first = NULL;
    zk_link_on_beat(link, on_beat, leftovers);
}

void zk_leftover_fini(struct zk_leftovers *leftovers)
{
    struct zk_leftover *next = NULL;

    for (struct zk_leftover *at = leftovers->first; at != NULL; at = next) {
        next = at->next;
        free(at);
    }
    leftovers->first = NULL;
}

/* NULL: no memory. */
static struct zk_leftover *leftover_new(struct zk_leftovers *leftovers, const char *parent,
                                        const char *token, int64_t session_id)
{
    struct zk_leftover *leftover = calloc(1, sizeof *leftover);

    if (leftover == NULL)
        return NULL;
    leftover->all = leftovers;
    leftover->session_id = session_id;
    (void)snprintf(leftover->parent, sizeof leftover->parent, "%s", parent);
    (void)snprintf(leftover->token, sizeof leftover->token, "%s", token);
    leftover->next = leftovers->first;
    leftovers->first = leftover;
    return leftover;
}

void zk_leftover_add(struct zk_leftovers *leftovers, const char *parent, const char *token,
                     int64_t session_id)
{
    struct zk_link *link = leftovers->link;
    struct zk_leftover *leftover = NULL;
    struct zk_session_state state;

    zk_link_lock(link);
    zk_link_state_locked(link, &state);
    if (state.session_id == session_id) {
        leftover = leftover_find(leftovers, parent, token, session_id);
        if (leftover == NULL)
            leftover = leftover_new(leftovers, parent, token, session_id);
        if (leftover == NULL)
            zk_link_end(link);
        else
            leftover->absent_ns = 0;
        if (leftover != NULL && !leftover->asking)
            (void)ask_locked(leftover);
    }
    zk_link_unlock(link);
}

size_t zk_leftover_count(struct zk_leftovers *leftovers)
{
    size_t count = 0;

    zk_link_lock(leftovers->link);
    for (const struct zk_leftover *at = leftovers->first; at != NULL; at = at->next)
        count++;
    zk_link_unlock(leftovers->link);
    return count;
}
