/* SPDX-License-Identifier: MIT */
/* The functions that tests call: clock, faults, counts. */
#include "lib/time.h"
#include "memory_hooked.h"
#include "store.h"

#include <search.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER; /* of those that add one */
static _Atomic(struct memory_hooks *) all;

static struct memory_hooks *hooks_new(const char *id)
{
    struct memory_hooks *hooks = calloc(1, sizeof *hooks);

    /* A test without memory has nothing better to do than to end. */
    if (hooks == NULL || pthread_mutex_init(&hooks->mutex, NULL) != 0 ||
        dl_deadline_cond_init(&hooks->moved) != 0)
        abort();
    (void)snprintf(hooks->id, sizeof hooks->id, "%s", id);
    return hooks;
}

static struct memory_hooks *hooks_find(const char *id)
{
    struct memory_hooks *hooks = atomic_load(&all);

    while (hooks != NULL && strcmp(hooks->id, id) != 0)
        hooks = hooks->next;
    return hooks;
}

/* Without a mutex in most calls: each reading of a store's clock comes here. A mutex would order
 * threads that the plugin does not order, and a forked child might inherit it locked. */
struct memory_hooks *memory_hooks_of(const char *id)
{
    struct memory_hooks *hooks = hooks_find(id);

    if (hooks != NULL)
        return hooks;
    (void)pthread_mutex_lock(&all_mutex);
    hooks = hooks_find(id);
    if (hooks == NULL) {
        hooks = hooks_new(id);
        hooks->next = atomic_load(&all);
        atomic_store(&all, hooks);
    }
    (void)pthread_mutex_unlock(&all_mutex);
    return hooks;
}

static struct memory_hooks *hooks_lock(const char *id)
{
    struct memory_hooks *hooks = memory_hooks_of(id);

    (void)pthread_mutex_lock(&hooks->mutex);
    return hooks;
}

static void hooks_unlock(struct memory_hooks *hooks)
{
    (void)pthread_cond_broadcast(&hooks->moved);
    (void)pthread_mutex_unlock(&hooks->mutex);
}

void memory_hooks_nap(struct memory_hooks *hooks, int64_t ns)
{
    dl_deadline_cond_wait(&hooks->moved, &hooks->mutex, ns);
}

int64_t __real_memory_store_now(const struct memory_store *store, const struct dlock_host *host);
int64_t __wrap_memory_store_now(const struct memory_store *store, const struct dlock_host *host);
int64_t __wrap_memory_store_now(const struct memory_store *store, const struct dlock_host *host)
{
    struct memory_hooks *hooks = memory_hooks_of(store->id);

    return atomic_load(&hooks->has_clock) ? atomic_load(&hooks->now_ns)
                                          : __real_memory_store_now(store, host);
}

static void wake_visit(const void *node, VISIT which, void *arg)
{
    struct memory_waiter *waiter = (*(struct memory_name *const *)node)->waiters;

    (void)arg;
    if (which != postorder && which != leaf)
        return;
    for (; waiter != NULL; waiter = waiter->next)
        (void)pthread_cond_signal(&waiter->wake);
}

/* Wakes all waiters of the store, which read the clocks again. */
static void stores_touch(struct memory_hooks *hooks)
{
    for (struct hooked_session *s = hooks->sessions; s != NULL; s = s->next) {
        (void)pthread_mutex_lock(&s->inner.store->mutex);
        twalk_r(s->inner.store->names, wake_visit, NULL);
        (void)pthread_mutex_unlock(&s->inner.store->mutex);
    }
}

void memory_hooks_reset(const char *store)
{
    struct memory_hooks *hooks = hooks_lock(store);

    memset(hooks->calls, 0, sizeof hooks->calls);
    memset(hooks->last, 0, sizeof hooks->last);
    memset(hooks->fault_count, 0, sizeof hooks->fault_count);
    while (hooks->late != NULL) {
        struct hooked_late *late = hooks->late;

        hooks->late = late->next;
        free(late);
    }
    hooks->go++;
    hooks->has_clock = 0;
    stores_touch(hooks);
    hooks_unlock(hooks);
}

void memory_hooks_clock_set(const char *store, int64_t now_ns)
{
    struct memory_hooks *hooks = hooks_lock(store);

    atomic_store(&hooks->now_ns, now_ns);
    hooks->has_clock = 1;
    stores_touch(hooks);
    hooks_unlock(hooks);
}

void memory_hooks_clock_advance(const char *store, int64_t ms)
{
    struct memory_hooks *hooks = hooks_lock(store);

    (void)atomic_fetch_add(&hooks->now_ns, ms * DL_NS_PER_MS);
    hooks->has_clock = 1;
    stores_touch(hooks);
    hooks_unlock(hooks);
}

void memory_hooks_wake(const char *store)
{
    struct memory_hooks *hooks = hooks_lock(store);

    stores_touch(hooks);
    hooks_unlock(hooks);
}

int memory_hooks_fault(const char *store, enum memory_slot slot, const struct memory_fault *fault)
{
    struct memory_hooks *hooks = hooks_lock(store);
    int rc = -1;

    if (hooks->fault_count[slot] < HOOKED_FAULTS_MAX) {
        struct memory_fault *added = &hooks->faults[slot][hooks->fault_count[slot]++];

        *added = *fault;
        if (added->times == 0)
            added->times = 1;
        rc = 0;
    }
    hooks_unlock(hooks);
    return rc;
}

void memory_hooks_heal(const char *store, enum memory_slot slot)
{
    struct memory_hooks *hooks = hooks_lock(store);

    hooks->fault_count[slot] = 0;
    hooks_unlock(hooks);
}

unsigned memory_hooks_calls(const char *store, enum memory_slot slot)
{
    struct memory_hooks *hooks = hooks_lock(store);
    unsigned calls = hooks->calls[slot];

    hooks_unlock(hooks);
    return calls;
}

int memory_hooks_await(const char *store, enum memory_slot slot, unsigned count, int64_t timeout_ms)
{
    struct memory_hooks *hooks = hooks_lock(store);
    int64_t deadline_ns = dl_time_now_ns(CLOCK_MONOTONIC) + timeout_ms * DL_NS_PER_MS;
    int64_t left = timeout_ms * DL_NS_PER_MS;
    int rc = -1;

    while (hooks->calls[slot] < count && left > 0) {
        memory_hooks_nap(hooks, left);
        left = deadline_ns - dl_time_now_ns(CLOCK_MONOTONIC);
    }
    rc = hooks->calls[slot] < count ? -1 : 0;
    hooks_unlock(hooks);
    return rc;
}

int memory_hooks_last(const char *store, enum memory_slot slot, struct memory_seen *seen)
{
    struct memory_hooks *hooks = hooks_lock(store);
    int called = hooks->calls[slot] > 0;

    if (called)
        *seen = hooks->last[slot];
    hooks_unlock(hooks);
    return called;
}

unsigned memory_hooks_held(const char *store)
{
    struct memory_hooks *hooks = hooks_lock(store);
    unsigned held = hooks->held;

    hooks_unlock(hooks);
    return held;
}

void memory_hooks_go(const char *store)
{
    struct memory_hooks *hooks = hooks_lock(store);

    hooks->go++;
    hooks_unlock(hooks);
}

static enum dlock_status late_execute(struct hooked_late *late, struct memory_session *session)
{
    const struct dlock_backend_ops *ops = dlock_plugin_memory()->ops;
    struct dlock_lease_op renewal = {.req = &late->req, .status = DLOCK_INTERNAL};
    struct dlock_lease_op *const each[] = {&renewal};
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_grant grant = {0};

    switch (late->slot) {
    case MEMORY_TRYLOCK:
        return ops->trylock(session, &late->req, &grant, &err);
    case MEMORY_UNLOCK:
        return ops->unlock(session, &late->req, &err);
    case MEMORY_LEAVE:
        return ops->dequeue(session, &late->req, &err);
    case MEMORY_RENEW:
        (void)ops->renew(session, each, 1, INT64_MAX, &err);
        return renewal.status;
    default:
        return DLOCK_UNSUPPORTED;
    }
}

unsigned memory_hooks_deliver(const char *store, enum dlock_status *last)
{
    struct memory_hooks *hooks = hooks_lock(store);
    unsigned count = 0;

    while (hooks->late != NULL) {
        struct hooked_late *late = hooks->late;
        struct memory_session session = {
            .host = late->host,
            .store = memory_store_ref(store, late->host),
            .config = late->config,
        };

        if (session.store == NULL)
            abort();
        *last = late_execute(late, &session);
        memory_store_unref(session.store, late->host);
        hooks->late = late->next;
        free(late);
        count++;
    }
    hooks_unlock(hooks);
    return count;
}

void memory_hooks_kill_sessions(const char *store)
{
    struct memory_hooks *hooks = hooks_lock(store);

    for (struct hooked_session *s = hooks->sessions; s != NULL; s = s->next)
        s->dead = 1;
    stores_touch(hooks);
    hooks_unlock(hooks);
}

void memory_hooks_revive(const char *store)
{
    struct memory_hooks *hooks = hooks_lock(store);

    for (struct hooked_session *s = hooks->sessions; s != NULL; s = s->next)
        s->dead = 0;
    hooks_unlock(hooks);
}
