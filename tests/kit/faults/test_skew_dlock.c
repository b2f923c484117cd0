/* SPDX-License-Identifier: MIT */
/*
 * Does dlock keep its times while the machine's clock is set about, and lose its lock when the
 * machine sleeps? (C2, C5, C8)
 *
 *     test_skew_dlock URI...      {tmp} in a URI: a directory of this run
 *
 * What it measures, it measures by the true clock.
 */
#include "skew.h"
#include "tap.h"
#include "tempdir.h"
#include "under_shim.h"

#include <dlock/dlock.h>

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS INT64_C(1000000)
#define HOUR      (INT64_C(3600) * 1000 * NS_PER_MS)
#define STEP_MS   50
#define TTL_MS    1500
#define LATE_MS   10000 /* beyond a deadline, on a busy machine; a step is an hour */

static struct dlt_skew skew;

/* Steps CLOCK_REALTIME an hour forward, an hour back, and so on. */
struct stepper {
    pthread_t thread;
    _Atomic bool stop;
    _Atomic unsigned steps;
};

static int64_t true_ms(void)
{
    return dlt_skew_true_ns(CLOCK_MONOTONIC) / NS_PER_MS;
}

static void *stepper_run(void *arg)
{
    struct stepper *stepper = arg;

    while (!stepper->stop) {
        dlt_skew_set(&skew, CLOCK_REALTIME, stepper->steps % 2 == 0 ? HOUR : -HOUR);
        stepper->steps++;
        (void)poll(NULL, 0, STEP_MS);
    }
    dlt_skew_set(&skew, CLOCK_REALTIME, 0);
    return NULL;
}

static void stepper_start(struct stepper *stepper)
{
    stepper->stop = false;
    stepper->steps = 0;
    if (pthread_create(&stepper->thread, NULL, stepper_run, stepper) != 0)
        abort();
}

static void stepper_stop(struct stepper *stepper)
{
    stepper->stop = true;
    (void)pthread_join(stepper->thread, NULL);
}

struct store {
    const char *text; /* as it was given */
    char *uri;
};

/* Two handles of one client on one name. */
struct pair {
    const char *uri; /* as it was given */
    struct dlock_client *client;
    struct dlock_handle *a, *b;
};

static bool pair_open(struct pair *pair, const struct store *store, const char *name)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = TTL_MS};
    struct dlock_error err = DLOCK_ERROR_INIT;

    *pair = (struct pair){.uri = store->text};
    return dlt_ok(
        dlock_client_open(store->uri, NULL, &pair->client, &err) == DLOCK_OK &&
            dlock_new(pair->client, name, strlen(name), &options, &pair->a, &err) == DLOCK_OK &&
            dlock_new(pair->client, name, strlen(name), &options, &pair->b, &err) == DLOCK_OK,
        "%s: open: %s", store->text, err.message);
}

static void pair_close(struct pair *pair)
{
    dlock_free(pair->a);
    dlock_free(pair->b);
    dlock_client_close(pair->client);
}

/* C8: the wait of a timed lock on a held name. */
static void check_wait(const struct pair *pair, int64_t timeout_ms)
{
    int64_t began = true_ms(), took;
    enum dlock_status st = dlock_timedlock(pair->b, timeout_ms, NULL);

    took = true_ms() - began;
    dlt_ok(st == DLOCK_TIMEOUT && took >= timeout_ms && took <= timeout_ms + LATE_MS,
           "%s: waited %lld ms in place of %lld: %s", pair->uri, (long long)took,
           (long long)timeout_ms, dlock_status_name((int)st));
}

/* C2, C14: held, renewed and valid for as long as that. */
static void check_hold(const struct pair *pair, int64_t for_ms)
{
    int64_t began = true_ms(), least = TTL_MS, most = 0;
    unsigned wrong = 0;

    while (true_ms() - began < for_ms) {
        int64_t left = dlock_remaining_ms(pair->a);

        wrong += dlock_state(pair->a) != DLOCK_STATE_HELD;
        least = left < least ? left : least;
        most = left > most ? left : most;
        (void)poll(NULL, 0, 1);
    }
    dlt_ok(wrong == 0 && least > 0 && most <= TTL_MS,
           "%s: held for %lld ms, with %lld to %lld ms left (%u times not held)", pair->uri,
           (long long)for_ms, (long long)least, (long long)most, wrong);
}

static void check_realtime(const struct store *store)
{
    const char *uri = store->text;
    struct stepper stepper;
    struct pair pair;
    uint64_t fence;

    if (!pair_open(&pair, store, "realtime"))
        return;
    stepper_start(&stepper);
    for (int round = 0; round < 2; round++) {
        dlt_ok(dlock_lock(pair.a, NULL) == DLOCK_OK, "%s: lock", uri);
        check_wait(&pair, 250);
        check_hold(&pair, TTL_MS * 3 / 2);
        dlt_ok(dlock_renew(pair.a, 0, NULL) == DLOCK_OK, "%s: renew", uri);
        check_wait(&pair, 120);
        fence = dlock_fence(pair.a);
        dlt_ok(dlock_unlock(pair.a, NULL) == DLOCK_OK, "%s: unlock", uri);
        dlt_ok(dlock_trylock(pair.b, NULL) == DLOCK_OK && dlock_fence(pair.b) > fence,
               "%s: the next holder has a greater fence", uri);
        dlt_ok(dlock_unlock(pair.b, NULL) == DLOCK_OK, "%s: unlock again", uri);
    }
    stepper_stop(&stepper);
    dlt_ok(stepper.steps > 20, "%s: %u steps", uri, stepper.steps);
    pair_close(&pair);
}

/* C2: the first look after a suspend says lost, though no thread ran; the store agrees. */
static void check_suspend(const struct store *store)
{
    const char *uri = store->text;
    struct pair pair;
    uint64_t fence;

    if (!pair_open(&pair, store, "suspend"))
        return;
    dlt_ok(dlock_lock(pair.a, NULL) == DLOCK_OK, "%s: lock", uri);
    fence = dlock_fence(pair.a);
    dlt_skew_step(&skew, CLOCK_BOOTTIME, 2 * TTL_MS * NS_PER_MS);
    dlt_ok(dlock_state(pair.a) == DLOCK_STATE_LOST && dlock_remaining_ms(pair.a) == 0,
           "%s: lost by a suspend of 2 ttl", uri);
    dlt_ok(dlock_timedlock(pair.b, 2 * TTL_MS, NULL) == DLOCK_OK && dlock_fence(pair.b) > fence,
           "%s: the next holder gets it", uri);
    dlt_ok(dlock_unlock(pair.a, NULL) == DLOCK_LOST, "%s: the first learns it at unlock", uri);
    dlt_ok(dlock_state(pair.b) == DLOCK_STATE_HELD && dlock_unlock(pair.b, NULL) == DLOCK_OK,
           "%s: which does not touch the next", uri);
    pair_close(&pair);
}

/* A suspend that the lease outlives changes nothing but the time that is left. */
static void check_nap(const struct store *store)
{
    const char *uri = store->text;
    struct pair pair;

    if (!pair_open(&pair, store, "nap"))
        return;
    dlt_ok(dlock_lock(pair.a, NULL) == DLOCK_OK, "%s: lock", uri);
    dlt_skew_step(&skew, CLOCK_BOOTTIME, TTL_MS / 4 * NS_PER_MS);
    check_hold(&pair, TTL_MS * 3 / 2);
    dlt_ok(dlock_unlock(pair.a, NULL) == DLOCK_OK, "%s: unlock", uri);
    pair_close(&pair);
}

static void check_store(const char *text)
{
    char dir[256];
    struct store store = {text, dlt_tempdir_expand(text, dir, sizeof dir)};

    if (!dlt_ok(store.uri != NULL, "%s", text))
        return;
    check_realtime(&store);
    check_suspend(&store);
    check_nap(&store);
    free(store.uri);
    dlt_tempdir_remove(dir);
}

int main(int argc, char **argv)
{
    const char *file = dlt_under_shim(argv, "DLOCK_SKEW_FILE", dlt_skew_preload);

    if (!dlt_ok(argc > 1 && dlt_skew_open(&skew, file), "%s", file))
        return dlt_done();
    dlt_skew_set(&skew, CLOCK_REALTIME, HOUR);
    dlt_ok(time(NULL) > dlt_skew_true_ns(CLOCK_REALTIME) / 1000000000 + 3000,
           "the shim is in place");
    for (int i = 1; i < argc; i++)
        check_store(argv[i]);
    dlt_skew_close(&skew);
    return dlt_done();
}
