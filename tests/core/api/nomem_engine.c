/* SPDX-License-Identifier: MIT */
/* Tests: core/api/api.c core/api/client.c core/api/handle.c */
/*
 * Does the engine survive the n-th allocation that fails? From open to close, for every n: no
 * crash, no leak (AddressSanitizer watches), and no OK without something behind it.
 */
#include "drop.h"
#include "engine.h"
#include "tap.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

/* The linker puts __wrap_x in front of x in everything that is linked statically. */
static _Atomic bool armed;
static _Atomic unsigned countdown, seen;

static bool fails(void)
{
    if (!armed)
        return false;
    seen++;
    return countdown > 0 && --countdown == 0;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
void *__real_tsearch(const void *key, void **root, int (*compare)(const void *, const void *));
void *__wrap_tsearch(const void *key, void **root, int (*compare)(const void *, const void *));
int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);
int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
                          void *arg);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *block, size_t size)
{
    return fails() ? NULL : __real_realloc(block, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

/* It allocates inside the C library, where the linker does not see it. */
void *__wrap_tsearch(const void *key, void **root, int (*compare)(const void *, const void *))
{
    return fails() ? NULL : __real_tsearch(key, root, compare);
}

int __wrap_eventfd(unsigned count, int flags)
{
    return fails() ? -1 : __real_eventfd(count, flags);
}

int __wrap_timerfd_create(int clock, int flags)
{
    return fails() ? -1 : __real_timerfd_create(clock, flags);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
                          void *arg)
{
    return fails() ? EAGAIN : __real_pthread_create(thread, attr, body, arg);
}

static struct dlt_engine engine;

/* The first thing that was not right; NULL: all was. */
static const char *lock_and_renew(struct dlock_handle *lock)
{
    enum dlock_status status = dlock_lock(lock, NULL);
    char hex[DLOCK_TOKEN_CHARS];

    if (status != DLOCK_OK)
        return status == DLOCK_NOMEM && dlock_state(lock) == DLOCK_STATE_FREE ? NULL
                                                                              : "lock failed oddly";
    if (dlock_state(lock) != DLOCK_STATE_HELD || dlock_fence(lock) == 0)
        return "OK without a lease";
    armed = false; /* the look itself may not fail */
    if (strcmp(dlt_owner(&engine, "a", hex), "") == 0)
        return "OK without anything in the store";
    armed = true;
    status = dlock_renew(lock, 0, NULL);
    if (status != DLOCK_OK && status != DLOCK_NOMEM)
        return "renew failed oddly";
    status = dlock_unlock(lock, NULL);
    return status == DLOCK_OK ? NULL : "unlock failed";
}

static bool ran_short(enum dlock_status status, enum dlock_status wanted)
{
    return status == wanted || status == DLOCK_NOMEM;
}

/* Behind another client's lock, in the store's queue; then in either mode. */
static const char *wait_and_share(struct dlock_handle *lock)
{
    struct dlock_client *rival;
    struct dlock_handle *held;
    char hex[DLOCK_TOKEN_CHARS];
    bool right;

    armed = false;
    rival = dlt_engine_rival(&engine);
    held = dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE);
    armed = true;
    right = ran_short(dlock_timedlock(lock, 5, NULL), DLOCK_TIMEOUT);
    armed = false;
    dlock_free(held);
    dlock_client_close(rival);
    if (!right)
        return "a wait failed oddly";
    if (strcmp(dlt_owner(&engine, "a", hex), "") != 0)
        return "a wait left a lease behind";
    armed = true;
    if (dlock_trylock(lock, NULL) == DLOCK_OK && dlock_downgrade(lock, NULL) == DLOCK_OK &&
        dlock_unlock(lock, NULL) != DLOCK_OK)
        return "a reader could not unlock";
    armed = false;
    dlt_drop(dlock_unlock(lock, NULL));
    armed = true;
    right = ran_short(dlock_rdlock(lock, NULL), DLOCK_OK);
    return right ? NULL : "rdlock failed oddly";
}

static const char *walk(const struct dlt_setup *setup, const char *(*use)(struct dlock_handle *))
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .label = "mine"};
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *lock = NULL;
    enum dlock_status status = dlt_engine_try_open(&engine, "nomem", setup, &err);
    const char *wrong = NULL;

    if (status != DLOCK_OK)
        return status == DLOCK_NOMEM ? NULL : "open failed oddly";
    status = dlock_new(engine.client, "a", 1, &options, &lock, &err);
    if (status == DLOCK_OK)
        wrong = use(lock);
    else if (status != DLOCK_NOMEM || lock != NULL)
        wrong = "new failed oddly";
    dlock_free(lock);
    dlt_engine_close(&engine);
    return wrong;
}

static void sweep(const char *what, const struct dlt_setup *setup,
                  const char *(*use)(struct dlock_handle *))
{
    const char *wrong = NULL;
    unsigned n = 0, total;

    memory_hooks_reset("nomem"); /* made before anything may fail */
    armed = false;
    (void)walk(setup, use);
    do {
        n++;
        countdown = n;
        seen = 0;
        armed = true;
        wrong = walk(setup, use);
        armed = false;
        total = seen;
    } while (wrong == NULL && countdown == 0 && n < 1000);
    if (!dlt_ok(wrong == NULL && n > 10, "%s: each of %u allocations failed once", what, n - 1))
        printf("# allocation %u of %u: %s\n", n, total, wrong == NULL ? "none failed" : wrong);
}

int main(void)
{
    sweep("losses by descriptor", &(struct dlt_setup){.runs = 1}, lock_and_renew);
    sweep("losses by callback", &(struct dlt_setup){.runs = 1, .callback = 1}, lock_and_renew);
    sweep("with options", &(struct dlt_setup){.runs = 1, .options = "ttl=5s&label=x&fence=on"},
          lock_and_renew);
    sweep("waiting and sharing", &(struct dlt_setup){.runs = 1}, wait_and_share);
    return dlt_done();
}
