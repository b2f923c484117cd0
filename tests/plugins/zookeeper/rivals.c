/* SPDX-License-Identifier: MIT */
#include "rivals.h"
#include "drop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAKE_MS 20000
#define WAIT_MS 60000

int64_t rivals_now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

void rivals_sleep_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS},
                    NULL);
}

/* On the client's renewer thread. */
static void lost(void *arg, const struct dlock_notice *notice)
{
    struct holder *holder = arg;

    (void)notice;
    atomic_store(&holder->told_ns, rivals_now_ns());
}

static void look(struct holder *holder)
{
    int64_t now_ns = rivals_now_ns(), left_ms = dlock_remaining_ms(holder->lock);

    if (left_ms <= 0)
        return;
    atomic_store(&holder->claimed_ns, now_ns);
    atomic_store(&holder->until_ns, now_ns + left_ms * NS_PER_MS);
}

static void *watch(void *arg)
{
    struct holder *holder = arg;

    while (!atomic_load(&holder->over)) {
        look(holder);
        rivals_sleep_ms(1);
    }
    return NULL;
}

static struct dlock_client *client_open(const char *uri, const struct dlock_client_options *options)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;

    if (dlock_client_open(uri, options, &client, &err) != DLOCK_OK) {
        printf("Bail out! %s: %s\n", uri, err.message);
        exit(1);
    }
    return client;
}

static struct dlock_handle *lock_new(struct dlock_client *client, const char *name)
{
    struct dlock_handle *lock = NULL;

    if (dlock_new(client, name, strlen(name), NULL, &lock, NULL) != DLOCK_OK)
        abort();
    return lock;
}

void holder_begin(struct holder *holder, const char *uri, const char *name)
{
    const struct dlock_client_options options = {
        .struct_size = sizeof options, .on_lost = lost, .on_lost_arg = holder};
    struct dlock_error err = DLOCK_ERROR_INIT;

    *holder = (struct holder){.client = client_open(uri, &options)};
    holder->lock = lock_new(holder->client, name);
    if (dlock_timedlock(holder->lock, TAKE_MS, &err) != DLOCK_OK) {
        printf("Bail out! %s: %s\n", uri, err.message);
        exit(1);
    }
    holder->fence = dlock_fence(holder->lock);
    look(holder);
    if (pthread_create(&holder->thread, NULL, watch, holder) != 0)
        abort();
}

bool holder_claims(const struct holder *holder)
{
    return dlock_remaining_ms(holder->lock) > 0;
}

void holder_end(struct holder *holder)
{
    atomic_store(&holder->over, true);
    (void)pthread_join(holder->thread, NULL);
    if (dlock_state(holder->lock) != DLOCK_STATE_FREE)
        dlt_drop(dlock_unlock(holder->lock, NULL));
    dlock_free(holder->lock);
    dlock_client_close(holder->client);
}

static void *rival_wait(void *arg)
{
    struct rival *rival = arg;
    struct dlock_error err = DLOCK_ERROR_INIT;
    int64_t until_ns = rivals_now_ns() + WAIT_MS * NS_PER_MS;

    do {
        rival->status = dlock_timedlock(rival->lock, WAIT_MS, &err);
        if (rival->status == DLOCK_OK)
            atomic_store(&rival->granted_ns, rivals_now_ns());
        /* Servers without a leader are a reason to fail, for a while. */
    } while ((rival->status == DLOCK_UNAVAILABLE || rival->status == DLOCK_UNKNOWN) &&
             rivals_now_ns() < until_ns);
    if (rival->status != DLOCK_OK)
        (void)snprintf(rival->message, sizeof rival->message, "%s", err.message);
    return NULL;
}

void rival_begin(struct rival *rival, const char *uri, const char *name)
{
    *rival = (struct rival){.client = client_open(uri, NULL), .status = DLOCK_INTERNAL};
    rival->lock = lock_new(rival->client, name);
    if (pthread_create(&rival->thread, NULL, rival_wait, rival) != 0)
        abort();
}

bool rival_granted(const struct rival *rival, int64_t ms)
{
    int64_t until_ns = rivals_now_ns() + ms * NS_PER_MS;

    while (atomic_load(&rival->granted_ns) == 0 && rivals_now_ns() < until_ns)
        rivals_sleep_ms(1);
    return atomic_load(&rival->granted_ns) != 0;
}

uint64_t rival_end(struct rival *rival)
{
    uint64_t fence = 0;

    if (atomic_load(&rival->granted_ns) == 0)
        dlock_client_shutdown(rival->client);
    (void)pthread_join(rival->thread, NULL);
    if (rival->status == DLOCK_OK) {
        fence = dlock_fence(rival->lock);
        dlt_drop(dlock_unlock(rival->lock, NULL));
    }
    dlock_free(rival->lock);
    dlock_client_close(rival->client);
    return fence;
}
