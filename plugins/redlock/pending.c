/* SPDX-License-Identifier: MIT */
#include "pending.h"

#include <stdlib.h>
#include <string.h>

#define PENDING_MAX 512 /* releases a node */

struct redlock_pending_release {
    struct redlock_pending_release *next;
    int64_t due_ns;
    struct redlock_sent_request release;
};

void redlock_pending_init(struct redlock_pending *pending)
{
    (void)pthread_mutex_init(&pending->mutex, NULL);
    for (unsigned i = 0; i < DLOCK_NODE_ERRORS_MAX; i++)
        pending->nodes[i] = (struct redlock_pending_list){.due_ns = INT64_MAX};
}

static void entry_remove(struct redlock_pending_list *list, struct redlock_pending_release **at)
{
    struct redlock_pending_release *entry = *at;

    *at = entry->next;
    list->count--;
    free(entry);
}

void redlock_pending_fini(struct redlock_pending *pending)
{
    for (unsigned i = 0; i < DLOCK_NODE_ERRORS_MAX; i++)
        while (pending->nodes[i].first != NULL)
            entry_remove(&pending->nodes[i], &pending->nodes[i].first);
    (void)pthread_mutex_destroy(&pending->mutex);
}

static bool is_same(const struct redlock_sent_request *one,
                    const struct redlock_sent_request *other)
{
    return one->what == other->what && memcmp(one->token, other->token, sizeof one->token) == 0;
}

static void add_locked(struct redlock_pending_list *list,
                       const struct redlock_sent_request *release, int64_t due_ns)
{
    struct redlock_pending_release **at = &list->first;

    while (*at != NULL && !is_same(&(*at)->release, release))
        at = &(*at)->next;
    if (*at != NULL && (*at)->release.round >= release->round)
        return;
    if (*at == NULL) {
        *at = calloc(1, sizeof **at);
        if (*at == NULL)
            return;
        list->count++;
    }
    (*at)->release = *release;
    (*at)->release.round_id = 0; /* its round must not get a second answer */
    (*at)->due_ns = due_ns;
    if (due_ns < list->due_ns)
        list->due_ns = due_ns;
    if (list->count > PENDING_MAX)
        entry_remove(list, &list->first);
}

void redlock_pending_add(struct redlock_pending *pending, unsigned node,
                         const struct redlock_sent_request *release, int64_t due_ns)
{
    (void)pthread_mutex_lock(&pending->mutex);
    add_locked(&pending->nodes[node], release, due_ns);
    (void)pthread_mutex_unlock(&pending->mutex);
}

bool redlock_pending_take(struct redlock_pending *pending, unsigned node, int64_t now_ns,
                          struct redlock_sent_request *release)
{
    struct redlock_pending_list *list = &pending->nodes[node];
    struct redlock_pending_release **at = &list->first;
    int64_t due_ns = INT64_MAX;
    bool taken = false;

    if (list->due_ns > now_ns)
        return false;
    (void)pthread_mutex_lock(&pending->mutex);
    for (; *at != NULL && (*at)->due_ns > now_ns; at = &(*at)->next)
        due_ns = (*at)->due_ns < due_ns ? (*at)->due_ns : due_ns;
    taken = *at != NULL;
    if (taken) {
        *release = (*at)->release;
        entry_remove(list, at);
    } else {
        list->due_ns = due_ns;
    }
    (void)pthread_mutex_unlock(&pending->mutex);
    return taken;
}
