/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/watch.c plugins/sqlite/wake_file.c */
/* Does one thread hear of the releases and grants of all attempts of a client? (C19, ANY, INT-4) */
#include "store_kit.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define MANY 200 /* more than there are groups of buckets, and more than one call tells */

static char directory[64], path[64];
static struct dlt_store s, t; /* of two clients; t waits */
static struct dlt_request holder, a, b;

static void set_up(void)
{
    struct dlock_error err = DLOCK_ERROR_INIT;

    dlt_store_directory(directory, path);
    cr_assert_eq(dlock_plugin_sqlite()->init(NULL, &err), DLOCK_OK);
    cr_assert_eq(dlt_store_start(&s, path), DLOCK_OK);
    cr_assert_eq(dlt_store_start(&t, path), DLOCK_OK);
    dlt_store_request(&s, &holder, "job", 'h', 60000);
    dlt_store_request(&t, &a, "job", 'a', 60000);
    dlt_store_request(&t, &b, "other", 'b', 60000);
    a.req.waiter = 7;
    b.req.waiter = 8;
}

static void tear_down(void)
{
    t.ops->forget(t.self, &a.req);
    t.ops->forget(t.self, &b.req);
    dlt_store_close(&t);
    dlt_store_close(&s);
    dlt_store_remove(directory);
}

TestSuite(any, .init = set_up, .fini = tear_down, .timeout = 60);

/* As dlt_store_watch, for all. Returns the numbers as bits; 0: *status is not OK. */
static unsigned wait_any(int64_t ms, enum dlock_status *status)
{
    uint32_t numbers[4];
    size_t count = 4;
    unsigned bits = 0;

    *status = t.ops->wait_any(t.self, numbers, &count, dlt_host_in(&t.host, ms), &t.err);
    for (size_t i = 0; *status == DLOCK_OK && i < count; i++)
        bits |= 1u << numbers[i];
    return bits;
}

#define WANT(ms, want_status, want_bits)                                                \
    do {                                                                                \
        enum dlock_status status_ = DLOCK_INTERNAL;                                     \
        unsigned bits_ = wait_any(ms, &status_);                                        \
        cr_assert_eq(status_, want_status, "%d: %s", (int)status_, t.err.message);      \
        cr_assert_eq(bits_, (unsigned)(want_bits), "attempts with the bits %x", bits_); \
    } while (0)

/* a is in the queue for "job", and b, without a queue entry, waits for "other". */
static void both_wait(void)
{
    struct dlt_request other;

    dlt_store_request(&s, &other, "other", 'o', 60000);
    cr_assert_eq(dlt_store_try(&s, &holder), DLOCK_OK);
    cr_assert_eq(dlt_store_try(&s, &other), DLOCK_OK);
    cr_assert_eq(dlt_store_enqueue(&t, &a), DLOCK_BUSY);
    cr_assert_eq(t.grant.flags, DLOCK_GRANT_QUEUED);
    cr_assert_eq(dlt_store_try(&t, &b), DLOCK_BUSY);
    cr_assert_eq(t.grant.flags, 0);
    WANT(20, DLOCK_TIMEOUT, 0);
}

static void other_unlock(void)
{
    struct dlt_request other;

    dlt_store_request(&s, &other, "other", 'o', 60000);
    cr_assert_eq(dlt_store_unlock(&s, &other), DLOCK_OK);
}

Test(any, ANY_1_an_attempt_that_was_refused_again_is_told_once)
{
    both_wait();
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_BUSY);
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_BUSY);
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    WANT(10000, DLOCK_OK, 1u << 7);
    WANT(20, DLOCK_TIMEOUT, 0);
}

/* The name was free for a moment. An attempt that came later does not hide that from the other. */
Test(any, ANY_2_an_attempt_is_told_what_one_of_its_bucket_came_too_late_for)
{
    struct dlt_request again, late;

    both_wait();
    other_unlock();
    dlt_store_request(&s, &again, "other", 'O', 60000);
    cr_assert_eq(dlt_store_try(&s, &again), DLOCK_OK);
    dlt_store_request(&t, &late, "other", 'l', 60000);
    late.req.waiter = 9;
    cr_assert_eq(dlt_store_try(&t, &late), DLOCK_BUSY);
    WANT(10000, DLOCK_OK, 1u << 8);
    WANT(20, DLOCK_TIMEOUT, 0);
    t.ops->forget(t.self, &late.req);
}

Test(any, ANY_4_without_a_wake_file_an_attempt_is_polled)
{
    char wake[80];

    (void)snprintf(wake, sizeof wake, "%s-wake", path);
    cr_assert_eq(truncate(wake, 0), 0);
    cr_assert_eq(dlt_store_try(&s, &holder), DLOCK_OK);
    cr_assert_eq(dlt_store_enqueue(&t, &a), DLOCK_BUSY);
    cr_assert_neq(t.grant.flags & DLOCK_GRANT_UNREPORTED, 0);
    WANT(20, DLOCK_UNAVAILABLE, 0);
}

/* Another process may make a new one, which this thread does not hear of. */
Test(any, ANY_2_all_ask_the_store_when_the_wake_file_is_removed)
{
    char wake[80];

    both_wait();
    (void)snprintf(wake, sizeof wake, "%s-wake", path);
    cr_assert_eq(unlink(wake), 0);
    WANT(10000, DLOCK_OK, 1u << 7 | 1u << 8);
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_BUSY); /* finds, or makes, the file */
    WANT(20, DLOCK_TIMEOUT, 0);
}

static int64_t acted_ns;

static void *later_main(void *arg)
{
    void (*act)(void) = (void (*)(void))(uintptr_t)arg;

    dlt_sleep_ms(100);
    act();
    acted_ns = dlt_host_in(&t.host, 0);
    return NULL;
}

static void interrupt(void)
{
    t.ops->interrupt(t.self, NULL);
}

/* The thread in wait_any sleeps when it happens. Returns how many ms later that thread was awake.
 */
static int64_t later(void (*act)(void), enum dlock_status want_status, unsigned want_bits)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, later_main, (void *)(uintptr_t)act), 0);
    WANT(20000, want_status, want_bits);
    (void)pthread_join(thread, NULL);
    return (dlt_host_in(&t.host, 0) - acted_ns) / 1000000;
}

/* The thread looks once a second by itself: a wake-up that does not come shows in all rounds. */
#define SOON_MS 300
#define ROUNDS  10

Test(any, INT_4_an_interrupt_ends_the_one_that_runs)
{
    int64_t least_ms = INT64_MAX;

    both_wait();
    for (int i = 0; i < ROUNDS && least_ms > SOON_MS; i++) {
        int64_t ms = later(interrupt, DLOCK_CANCELED, 0);

        least_ms = ms < least_ms ? ms : least_ms;
    }
    cr_assert_leq(least_ms, SOON_MS, "after %d ms at the soonest", (int)least_ms);
}

Test(any, ANY_2_a_release_wakes_the_thread_that_sleeps)
{
    int64_t least_ms = INT64_MAX;

    both_wait();
    for (int i = 0; i < ROUNDS && least_ms > SOON_MS; i++) {
        int64_t ms = later(other_unlock, DLOCK_OK, 1u << 8);
        struct dlt_request other;

        least_ms = ms < least_ms ? ms : least_ms;
        dlt_store_request(&s, &other, "other", 'o', 60000);
        cr_assert_eq(dlt_store_try(&s, &other), DLOCK_OK);
        cr_assert_eq(dlt_store_try(&t, &b), DLOCK_BUSY);
    }
    cr_assert_leq(least_ms, SOON_MS, "after %d ms at the soonest", (int)least_ms);
}

static struct dlt_store beside; /* a second session of the client that waits */
static struct dlt_request late;

/* `late` comes while the thread sleeps without its bucket, and its name is released then. */
static void late_waits(void)
{
    struct dlt_request third;

    dlt_store_request(&s, &third, "third", 't', 60000);
    cr_assert_eq(dlt_store_try(&s, &third), DLOCK_OK);
    cr_assert_eq(dlt_store_enqueue(&beside, &late), DLOCK_BUSY);
    dlt_sleep_ms(50);
    cr_assert_eq(dlt_store_unlock(&s, &third), DLOCK_OK);
}

Test(any, ANY_2_an_attempt_that_comes_while_the_thread_sleeps_is_told)
{
    int64_t least_ms = INT64_MAX;

    both_wait();
    beside = t;
    beside.self = calloc(1, t.ops->session_size);
    cr_assert_eq(t.ops->open(beside.self, &t.host.table, &t.target.target,
                             dlt_host_in(&t.host, 2000), &beside.info, &beside.err),
                 DLOCK_OK);
    for (int i = 0; i < ROUNDS && least_ms > SOON_MS; i++) {
        int64_t ms = 0;

        dlt_store_request(&t, &late, "third", (unsigned char)('l' + i), 60000);
        late.req.waiter = 9;
        ms = later(late_waits, DLOCK_OK, 1u << 9);
        least_ms = ms < least_ms ? ms : least_ms;
        cr_assert_eq(dlt_store_refresh(&beside, &late), DLOCK_OK);
        cr_assert_eq(dlt_store_unlock(&beside, &late), DLOCK_OK);
    }
    cr_assert_leq(least_ms, SOON_MS, "after %d ms at the soonest", (int)least_ms);
    dlt_store_close(&beside);
}
