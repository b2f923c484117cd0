/* SPDX-License-Identifier: MIT */
#include "watcher.h"
#include "connection.h"
#include "lib/deadline_cond.h"

#include <stdlib.h>
#include <string.h>

struct zk_watcher *zk_watcher_new(struct zk_link *link)
{
    struct zk_watcher *watcher = calloc(1, sizeof *watcher);

    if (watcher == NULL)
        return NULL;
    zk_connection_lock(link);
    watcher->next = link->watchers;
    watcher->link = &link->watchers;
    if (watcher->next != NULL)
        watcher->next->link = &watcher->next;
    link->watchers = watcher;
    zk_connection_unlock(link);
    return watcher;
}

static void drop(struct zk_watcher *watcher)
{
    *watcher->link = watcher->next;
    if (watcher->next != NULL)
        watcher->next->link = watcher->link;
    free(watcher->path);
    free(watcher);
}

/* Asks no server. The library may be about to call it; then it does not find it. */
static void library_remove(const struct zk_link *link, struct zk_watcher *watcher)
{
    if (watcher->kept && watcher->path != NULL && link->handle != NULL &&
        zoo_aremove_watches(link->handle, watcher->path,
                            watcher->children ? ZWATCHTYPE_CHILD : ZWATCHTYPE_DATA, zk_watcher_hear,
                            watcher, 1, NULL, NULL) == ZOK)
        watcher->pending = false;
}

void zk_watcher_free(struct zk_link *link, struct zk_watcher *watcher)
{
    if (watcher == NULL)
        return;
    zk_connection_lock(link);
    watcher->unused = true;
    library_remove(link, watcher);
    if (!watcher->pending)
        drop(watcher);
    zk_connection_unlock(link);
}

static void fire(struct zk_watcher *watcher)
{
    watcher->fired = true;
    if (watcher->wait != NULL)
        zk_connection_signal(watcher->wait->link, &watcher->wait->cond);
}

static void end(struct zk_watcher *watcher)
{
    watcher->pending = false;
    if (watcher->unused)
        drop(watcher);
}

void zk_watcher_hear(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)state;
    (void)path;
    if (type == ZOO_SESSION_EVENT) /* no change of the node */
        return;
    fire(context);
    end(context);
}

void zk_watcher_begin(struct zk_watcher *watcher, const char *path, bool children)
{
    free(watcher->path);
    watcher->path = strdup(path);
    watcher->children = children;
    watcher->kept = false;
    watcher->pending = true;
}

void zk_watcher_answer(struct zk_link *link, struct zk_watcher *watcher, bool kept)
{
    watcher->kept = kept;
    if (kept && watcher->unused)
        library_remove(link, watcher);
    if (!kept || !watcher->pending)
        end(watcher);
}

void zk_watcher_fire_all(struct zk_link *link)
{
    for (struct zk_watcher *at = link->watchers; at != NULL; at = at->next) {
        if (at->pending)
            fire(at);
    }
}

void zk_watcher_forget_all(struct zk_link *link)
{
    struct zk_watcher *next = NULL;

    zk_watcher_fire_all(link);
    for (struct zk_watcher *at = link->watchers; at != NULL; at = next) {
        next = at->next;
        end(at);
    }
}

enum dlock_status zk_watcher_await(struct zk_link *link, struct zk_watcher *watcher,
                                   struct zk_wait **where, const bool *interrupted,
                                   int64_t deadline_ns)
{
    struct zk_wait wait = {.link = link};
    enum dlock_status status = DLOCK_TIMEOUT;

    (void)dl_deadline_cond_init(&wait.cond);
    zk_connection_lock(link);
    watcher->wait = &wait;
    *where = &wait;
    link->waits++;
    while (!watcher->fired && !wait.interrupted && !*interrupted) {
        const int64_t left_ns = deadline_ns - zk_connection_now(link);

        if (left_ns <= 0)
            break;
        zk_connection_sleep(link, &wait.cond, left_ns);
    }
    link->waits--;
    if (watcher->fired)
        status = DLOCK_OK;
    else if (wait.interrupted || *interrupted)
        status = DLOCK_CANCELED;
    watcher->wait = NULL;
    *where = NULL;
    zk_connection_hand_over(link);
    zk_connection_unlock(link);
    (void)pthread_cond_destroy(&wait.cond);
    return status;
}

void zk_watcher_interrupt(struct zk_wait *wait)
{
    wait->interrupted = true;
    zk_connection_signal(wait->link, &wait->cond);
}
