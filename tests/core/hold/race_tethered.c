/* SPDX-License-Identifier: MIT */
/* Tests: core/hold/renewer.c core/hold/unlock.c */
/*
 * A lease that lives in its client's session ends while the application unlocks, renews or frees:
 * is it given back once ([TET-1])? Many times, in real time; for ThreadSanitizer and
 * AddressSanitizer to watch, hence without Criterion.
 */
#include "drop.h"
#include "engine.h"
#include "tap.h"
#include "tethered.h"

#define STORE  "race"
#define ROUNDS 1000

static struct dlt_engine engine;
static int bad; /* answers that nothing explains, in this race */

static void expect(bool good, const char *what, int number)
{
    if (good)
        return;
    bad++;
    printf("# %s: %d\n", what, number);
}

/* A moment of no fixed length, on the processor. */
static void dawdle(unsigned round)
{
    for (volatile unsigned i = 0; i < round * 7919 % 20011; i++)
        continue;
}

/* The lease of a handle that is held ends now. */
static void lease_end(struct dlock_handle *lock)
{
    struct dlock_client *client = engine.client;

    (void)pthread_mutex_lock(&client->mutex);
    if (lock->end.heap_index != 0) {
        dl_lease_grant(&lock->lease, dl_client_now(client));
        dl_renew_schedule_hold_locked(lock);
    }
    (void)pthread_mutex_unlock(&client->mutex);
}

static struct dlock_handle *take_and_end(unsigned round)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .renew = DLOCK_OFF};
    struct dlock_handle *lock = dlt_engine_lock(&engine, "a", &options);
    enum dlock_status status = dlock_trylock(lock, NULL);

    expect(status == DLOCK_OK, "take", (int)status);
    lease_end(lock);
    dawdle(round);
    return lock;
}

/* Every lease so far was given back once. */
static void free_and_count(struct dlock_handle *lock, unsigned round)
{
    unsigned unlocks;

    dlock_free(lock);
    unlocks = dlt_calls(&engine, MEMORY_UNLOCK);
    expect(unlocks == round + 1, "unlocks", (int)unlocks);
}

static void unlock_against_the_end(unsigned round)
{
    struct dlock_handle *lock = take_and_end(round);
    enum dlock_status status = dlock_unlock(lock, NULL);

    expect(status == DLOCK_LOST, "unlock", (int)status);
    free_and_count(lock, round);
}

static void free_against_the_end(unsigned round)
{
    free_and_count(take_and_end(round), round);
}

static void callback_unlocks(struct dlt_engine *e, const struct dlock_notice *event)
{
    (void)e;
    dlt_drop(dlock_unlock(event->lock, NULL));
}

static void renew_against_the_end(unsigned round)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .renew = DLOCK_OFF};
    struct dlock_handle *lock = dlt_engine_lock(&engine, "a", &options);
    enum dlock_status status = dlock_trylock(lock, NULL);
    struct dlt_call renew;

    expect(status == DLOCK_OK, "take", (int)status);
    dlt_call_start(&renew, &engine, DLT_RENEW, lock, 0);
    dawdle(round);
    lease_end(lock);
    status = dlock_unlock(lock, NULL);
    expect(status == DLOCK_OK || status == DLOCK_LOST, "unlock", (int)status);
    (void)dlt_call_finish(&renew, 0);
    expect(renew.status == DLOCK_OK || renew.status == DLOCK_LOST || renew.status == DLOCK_NOT_HELD,
           "renew", (int)renew.status);
    free_and_count(lock, round);
}

static void race(const char *name, void (*round)(unsigned), bool unlocks)
{
    struct dlt_setup setup = {.callback = 1, .runs = 1};

    bad = 0;
    setup.own = unlocks ? callback_unlocks : NULL;
    memory_hooks_reset(STORE);
    setup.plugin = dlt_tethered_plugin(STORE);
    dlt_engine_open(&engine, STORE, &setup);
    for (unsigned i = 0; i < ROUNDS && bad == 0; i++)
        round(i);
    dlt_engine_close(&engine);
    (void)dlt_ok(bad == 0, "%s, %d times", name, ROUNDS);
}

int main(void)
{
    race("unlock against the end of the lease", unlock_against_the_end, false);
    race("free against the end of the lease", free_against_the_end, false);
    race("free against a callback that unlocks", free_against_the_end, true);
    race("renewal against the end of the lease", renew_against_the_end, false);
    return dlt_done();
}
