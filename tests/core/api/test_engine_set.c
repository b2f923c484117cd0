/* SPDX-License-Identifier: MIT */
/* Tests: core/api/set.c core/api/check.c */
/* Does a set keep C18 when the store does not answer, and when a lease ends meanwhile? Virtual
 * time. */
#include "engine.h"

#include <criterion/criterion.h>
#include <dlock/dlock.h>
#include <string.h>

#define TTL_MS 1000

static struct dlt_engine engine;
static struct dlock_client *rival;
static struct dlock_set *set;
static int64_t ttl_ms = TTL_MS, keep_ms;

static void set_up(void)
{
    dlt_engine_open(&engine, "set", NULL);
    rival = dlt_engine_rival(&engine);
}

static void tear_down(void)
{
    dlock_set_free(set);
    dlock_client_close(rival);
    dlt_engine_close(&engine);
}

TestSuite(set, .init = set_up, .fini = tear_down);

static void set_make(const char *const *names, size_t count, enum dlock_tri renew)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = ttl_ms,
                                    .op_timeout_ms = 250,
                                    .renew = renew,
                                    .keep_ms = keep_ms};

    cr_assert_eq(dlock_set_new(engine.client, names, NULL, count, &options, &set, NULL), DLOCK_OK);
}

/* A call on the set, in a thread of its own. */
struct work {
    bool unlocks;
    int64_t timeout_ms;
    enum dlock_status status;
    struct dlock_error err;
    _Atomic bool done;
    pthread_t thread;
};

static void *work_main(void *arg)
{
    struct work *work = arg;

    work->err = (struct dlock_error)DLOCK_ERROR_INIT;
    work->status = work->unlocks
                       ? dlock_set_unlock(set, &work->err)
                       : dlock_set_acquire(set, DLOCK_EXCLUSIVE, work->timeout_ms, &work->err);
    atomic_store(&work->done, true);
    return NULL;
}

static void work_start(struct work *work)
{
    cr_assert_eq(pthread_create(&work->thread, NULL, work_main, work), 0);
    dlt_settle();
}

/* Runs the clock until the call has ended. Returns how long that took. */
static int64_t work_finish(struct work *work, int64_t most_ms)
{
    int64_t start_ms = dlt_engine_ms(&engine);

    while (!atomic_load(&work->done) && dlt_engine_ms(&engine) < start_ms + most_ms)
        dlt_engine_run(&engine, 1);
    cr_assert(atomic_load(&work->done), "the call did not end in %lld ms", (long long)most_ms);
    (void)pthread_join(work->thread, NULL);
    return dlt_engine_ms(&engine) - start_ms;
}

static void is_free(const char *name)
{
    char hex[DLOCK_TOKEN_CHARS];

    cr_assert_str_empty(dlt_owner(&engine, name, hex), "%s is still held", name);
}

Test(set, C18_C4_a_member_without_an_answer_makes_the_set_unknown)
{
    static const char *const names[] = {"b", "a"};
    struct work work = {.timeout_ms = 400};

    set_make(names, 2, DLOCK_DEFAULT);
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_LOST_REPLY,
              (struct memory_fault){.skip = 1, .times = 1000});
    work_start(&work);
    (void)work_finish(&work, 5000);
    cr_assert_eq(work.status, DLOCK_UNKNOWN);
    cr_assert(strncmp(work.err.message, "b: ", 3) == 0, "%s", work.err.message);
    is_free("a");
    is_free("b"); /* withdrawn by its token */
    cr_assert_eq(dlock_set_state(set), DLOCK_STATE_FREE);
}

Test(set, C18_C4_what_could_not_be_given_back_is_told)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    struct dlock_handle *held = dlt_rival_hold(rival, "d", DLOCK_EXCLUSIVE);
    struct work work = {.timeout_ms = 0};
    struct memory_seen last;

    set_make(names, 4, DLOCK_DEFAULT);
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_LOST_REQUEST,
              (struct memory_fault){.ms = 250, .times = 1000});
    work_start(&work);
    cr_assert_leq(work_finish(&work, 5000), 300);
    cr_assert_eq(work.status, DLOCK_UNKNOWN);
    cr_assert(strstr(work.err.message, "c: ") != NULL, "%s", work.err.message);
    cr_assert_eq(memory_hooks_last(engine.store, MEMORY_UNLOCK, &last), 1);
    cr_assert_eq(last.name[0], 'c', "C18: the store is not asked for the rest");
    memory_hooks_heal(engine.store, MEMORY_UNLOCK);
    dlt_engine_run(&engine, TTL_MS + 100);
    is_free("a");
    dlock_free(held);
}

/* How a set of a and b ends if the store refuses b so, and then the unlock of a. */
static void refused_ends(enum dlock_status of_b, enum dlock_status of_undo,
                         enum dlock_status wanted)
{
    struct work work = {.timeout_ms = 0};
    unsigned undone = dlt_calls(&engine, MEMORY_UNLOCK);

    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_REFUSE,
              (struct memory_fault){.status = of_b, .skip = 1, .times = 1000});
    if (of_undo != DLOCK_OK)
        dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_REFUSE,
                  (struct memory_fault){.status = of_undo, .times = 100000});
    work_start(&work);
    (void)work_finish(&work, 5000);
    memory_hooks_heal(engine.store, MEMORY_TRYLOCK);
    memory_hooks_heal(engine.store, MEMORY_UNLOCK);
    cr_assert_eq(work.status, wanted, "%s, then %s: %s", dlock_status_name((int)of_b),
                 dlock_status_name((int)of_undo), work.err.message);
    cr_assert_gt(dlt_calls(&engine, MEMORY_UNLOCK), undone);
    if (wanted == DLOCK_UNKNOWN) {
        cr_assert_not_null(strstr(work.err.message, dlock_status_name((int)of_b)), "the cause");
        cr_assert_not_null(strstr(work.err.message, "a: "), "%s", work.err.message);
    }
    dlt_engine_run(&engine, TTL_MS + 100);
    is_free("a");
}

Test(set, C18_C4_unknown_whatever_the_reason_if_a_name_was_not_given_back)
{
    static const char *const names[] = {"a", "b"};
    static const enum dlock_status failures[] = {DLOCK_UNAVAILABLE, DLOCK_NO_QUORUM, DLOCK_AUTH,
                                                 DLOCK_CONFIG, DLOCK_PROTOCOL};

    set_make(names, 2, DLOCK_DEFAULT);
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        refused_ends(failures[i], DLOCK_OK, failures[i]);
        refused_ends(failures[i], DLOCK_LOST, failures[i]);
        refused_ends(failures[i], DLOCK_UNAVAILABLE, DLOCK_UNKNOWN);
        refused_ends(DLOCK_BUSY, failures[i], DLOCK_UNKNOWN);
    }
}

/* b is lost while the set waits for c; a cannot be given back. */
Test(set, C18_C4_unknown_where_one_was_lost_and_another_was_not_given_back)
{
    static const char *const names[] = {"a", "b", "c"};
    struct dlock_handle *held = dlt_rival_hold(rival, "c", DLOCK_EXCLUSIVE);
    struct work work = {.timeout_ms = 400};

    set_make(names, 3, DLOCK_DEFAULT);
    work_start(&work);
    dlt_engine_run(&engine, 50);
    cr_assert_eq(dlock_client_break(rival, "b", 1, NULL, NULL), DLOCK_OK);
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_REFUSE,
              (struct memory_fault){.status = DLOCK_UNAVAILABLE, .times = 100000});
    (void)work_finish(&work, 5000);
    memory_hooks_heal(engine.store, MEMORY_UNLOCK);
    cr_assert_eq(work.status, DLOCK_UNKNOWN, "%s: %s", dlock_status_name((int)work.status),
                 work.err.message);
    cr_assert_not_null(strstr(work.err.message, "a: "), "%s", work.err.message);
    dlock_free(held);
}

/* A set of a and b waits for b, which the rival has, and the client is shut down or closed. */
static void closed_ends(bool closes, enum dlock_status of_undo, enum dlock_status wanted)
{
    static const char *const names[] = {"a", "b"};
    struct dlock_handle *held = dlt_rival_hold(rival, "b", DLOCK_EXCLUSIVE);
    struct work work = {.timeout_ms = DLOCK_FOREVER};
    struct dlt_call close;

    set_make(names, 2, DLOCK_DEFAULT);
    work_start(&work);
    dlt_engine_run(&engine, 50);
    if (of_undo != DLOCK_OK)
        dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_REFUSE,
                  (struct memory_fault){.status = of_undo, .times = 100000});
    if (closes)
        dlt_call_start(&close, &engine, DLT_CLOSE, NULL, 0);
    else
        dlock_client_shutdown(engine.client);
    (void)work_finish(&work, 20000);
    if (closes)
        cr_assert_eq(dlt_call_finish(&close, 20000), DLOCK_OK);
    memory_hooks_heal(engine.store, MEMORY_UNLOCK);
    cr_assert_eq(work.status, wanted, "%s: %s", dlock_status_name((int)work.status),
                 work.err.message);
    if (wanted == DLOCK_CLOSED)
        dlock_free(dlt_rival_hold(rival, "a", DLOCK_EXCLUSIVE)); /* it is free */
    dlock_free(held);
}

Test(set, C18_C4_unknown_if_a_shutdown_left_a_name_taken)
{
    closed_ends(false, DLOCK_UNAVAILABLE, DLOCK_UNKNOWN);
}

Test(set, C18_C4_unknown_if_the_close_of_the_client_left_a_name_taken)
{
    closed_ends(true, DLOCK_UNAVAILABLE, DLOCK_UNKNOWN);
}

/* The close repeats nothing: it gives a member up. */
Test(set, C18_C22_unknown_if_the_close_of_the_client_left_a_name_taken_that_a_release_keeps)
{
    keep_ms = 60000;
    closed_ends(true, DLOCK_UNAVAILABLE, DLOCK_UNKNOWN);
}

Test(set, C18_C22_a_set_that_was_never_whole_keeps_nothing_when_the_client_closes)
{
    keep_ms = 60000;
    closed_ends(true, DLOCK_OK, DLOCK_CLOSED);
}

Test(set, C18_C22_a_set_that_is_whole_keeps_its_names)
{
    static const char *const names[] = {"a", "b"};
    struct dlock_handle *other = NULL;

    keep_ms = 60000;
    set_make(names, 2, DLOCK_DEFAULT);
    cr_assert_eq(dlock_set_acquire(set, DLOCK_EXCLUSIVE, 0, NULL), DLOCK_OK);
    cr_assert_eq(dlock_set_unlock(set, NULL), DLOCK_OK);
    cr_assert_eq(dlock_new(rival, "a", 1, NULL, &other, NULL), DLOCK_OK);
    cr_assert_eq(dlock_trylock(other, NULL), DLOCK_BUSY);
    dlock_free(other);
}

Test(set, C18_closed_if_all_names_were_given_back)
{
    closed_ends(false, DLOCK_OK, DLOCK_CLOSED);
}

Test(set, C18_closed_if_the_client_gave_all_names_back)
{
    closed_ends(true, DLOCK_OK, DLOCK_CLOSED);
}

Test(set, C3_C18_a_lease_that_ends_during_the_wait_is_taken_again)
{
    static const char *const names[] = {"a", "b"};
    struct dlock_handle *held = dlt_rival_hold(rival, "b", DLOCK_EXCLUSIVE);
    struct work work = {.timeout_ms = 20000};

    set_make(names, 2, DLOCK_OFF);
    work_start(&work);
    dlt_engine_run(&engine, 3 * TTL_MS);
    cr_assert_not(atomic_load(&work.done));
    is_free("a");
    cr_assert_eq(dlock_unlock(held, NULL), DLOCK_OK);
    (void)work_finish(&work, 5000);
    cr_assert_eq(work.status, DLOCK_OK);
    cr_assert_eq(dlock_set_state(set), DLOCK_STATE_HELD);
    cr_assert_geq(dlock_set_remaining_ms(set), TTL_MS / 10);
    dlock_free(held);
}

/* A tenth of the ttl is more than what the queue of the store grants. */
Test(set, C3_C18_a_short_lease_of_the_queue_is_enough)
{
    static const char *const names[] = {"a", "b"};
    struct dlock_handle *held = dlt_rival_hold(rival, "b", DLOCK_EXCLUSIVE);
    struct work work = {.timeout_ms = 20000};

    ttl_ms = 60000;
    set_make(names, 2, DLOCK_DEFAULT);
    work_start(&work);
    dlt_engine_run(&engine, 200);
    cr_assert_eq(dlock_unlock(held, NULL), DLOCK_OK);
    (void)work_finish(&work, 2000);
    cr_assert_eq(work.status, DLOCK_OK);
    cr_assert_eq(dlt_calls(&engine, MEMORY_UNLOCK), 1, "the rival's alone: nothing was given back");
    dlock_free(held);
}

Test(set, C3_C18_one_try_is_not_repeated)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    struct work work = {.timeout_ms = 0};

    set_make(names, 6, DLOCK_OFF);
    dlt_fault(&engine, MEMORY_TRYLOCK, MEMORY_SLOW, (struct memory_fault){.ms = 200, .times = 6});
    work_start(&work);
    (void)work_finish(&work, 5000);
    cr_assert_eq(work.status, DLOCK_TIMEOUT, "the lease of a had ended");
    cr_assert_eq(dlt_calls(&engine, MEMORY_TRYLOCK), 6);
    for (size_t i = 2; i < 6; i++) /* the first two were lost, and end by themselves */
        is_free(names[i]);
}

Test(set, C18_C4_an_unlock_without_an_answer_asks_once_and_may_be_repeated)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct work take = {.timeout_ms = 1000}, drop = {.unlocks = true}, again = {.unlocks = true};
    struct work last = {.unlocks = true};

    set_make(names, 5, DLOCK_DEFAULT);
    work_start(&take);
    (void)work_finish(&take, 1000);
    cr_assert_eq(take.status, DLOCK_OK);
    dlt_fault(&engine, MEMORY_UNLOCK, MEMORY_LOST_REPLY,
              (struct memory_fault){.ms = 250, .times = 1000});
    work_start(&drop);
    cr_assert_eq(dlock_set_state(set), DLOCK_STATE_FREE, "the claim ends at entry");
    cr_assert_leq(work_finish(&drop, 5000), 300);
    cr_assert_eq(drop.status, DLOCK_UNKNOWN);
    memory_hooks_heal(engine.store, MEMORY_UNLOCK);
    work_start(&again);
    (void)work_finish(&again, 1000);
    cr_assert_eq(again.status, DLOCK_OK);
    for (size_t i = 0; i < 5; i++)
        is_free(names[i]);
    work_start(&last);
    (void)work_finish(&last, 1000);
    cr_assert_eq(last.status, DLOCK_NOT_HELD);
}
