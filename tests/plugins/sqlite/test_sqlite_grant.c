/* SPDX-License-Identifier: MIT */
/* Tests: plugins/sqlite/watch.c */
/* How a grant reaches its waiter: watch, interrupt, and nobody else woken. */
#include "session.h"
#include "store_kit.h"
#include "wake_file.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define LEASE_MS 3000

static char directory[64], path[64];
static struct dlt_store s, t;
static struct dlt_request holder, a, b, reader;

static void set_up(void)
{
    dlt_store_directory(directory, path);
    cr_assert_eq(dlt_store_start(&s, path), DLOCK_OK);
    cr_assert_eq(dlt_store_start(&t, path), DLOCK_OK);
    dlt_store_request(&s, &holder, "job", 'h', 60000);
    dlt_store_request(&s, &a, "job", 'a', 60000);
    dlt_store_request(&s, &b, "job", 'b', 60000);
    dlt_store_request(&s, &reader, "job", 'r', 60000);
    reader.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_store_try(&s, &holder), DLOCK_OK);
    cr_assert_eq(dlt_store_enqueue(&t, &a), DLOCK_BUSY);
    cr_assert_eq(t.grant.flags, DLOCK_GRANT_QUEUED);
}

static void tear_down(void)
{
    dlt_store_close(&t);
    dlt_store_close(&s);
    dlt_store_remove(directory);
}

TestSuite(grant, .init = set_up, .fini = tear_down, .timeout = 60);

/* A watch that cannot have slept until its deadline. */
static enum dlock_status watched(struct dlt_request *request)
{
    int64_t start = dlt_host_now(&t.host);
    enum dlock_status status = dlt_store_watch(&t, request, 50000);

    cr_assert(dlt_host_within(&t.host, start, 30000), "%s", dlt_within_text());
    return status;
}

/* [TRY-2], C4: a waiter that dies at the grant costs the others its ttl, if that is shorter. */
Test(grant, TRY_2_a_grant_lasts_no_longer_than_the_ttl)
{
    struct dlt_holder now;
    size_t count = 1;

    cr_assert_eq(dlt_store_leave(&t, &a), DLOCK_OK);
    b.req.ttl_ms = 500;
    cr_assert_eq(dlt_store_enqueue(&t, &b), DLOCK_BUSY);
    cr_assert_eq(t.grant.lease_ms, LEASE_MS, "the place");
    dlt_sleep_ms(20);
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    cr_assert_eq(dlt_store_inspect(&s, "job", &now, &count), DLOCK_OK);
    cr_assert(count == 0 || now.remaining_ms <= 500);
    if (dlt_store_watch(&t, &b, 0) == DLOCK_OK)
        cr_assert_leq(t.grant.lease_ms, 500);
    dlt_sleep_ms(600);
    cr_assert_eq(dlt_store_try(&s, &holder), DLOCK_OK);
}

/* The lease that watch tells of counts from the last answer QUEUED, so that what was granted late
 * in the life of a place lasts longer than that. */
Test(grant, the_lease_of_a_grant_is_never_said_to_be_longer_than_it_is)
{
    int64_t base = 0, end = 0;
    struct dlt_holder now;
    size_t count = 1;

    base = dlt_host_now(&t.host);
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_BUSY);
    dlt_sleep_ms(50);
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    cr_assert_eq(watched(&a), DLOCK_OK);
    cr_assert_eq(dlt_store_inspect(&s, "job", &now, &count), DLOCK_OK);
    end = dlt_host_now(&s.host) + (now.remaining_ms + 1) * DLT_NS_PER_MS;
    cr_assert_leq(base + t.grant.lease_ms * DLT_NS_PER_MS, end);
}

/* What no other program can do to a waiter is still not believed. */
Test(grant, WAT_4_a_grant_that_is_not_newer_than_the_last_answer_is_dropped)
{
    struct sqlite_attempt *slot = (struct sqlite_attempt *)(void *)a.attempt;

    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    slot->queued_fence = INT64_MAX;
    cr_assert_eq(dlt_store_watch(&t, &a, 30), DLOCK_TIMEOUT);
    slot->queued_fence = 0;
    cr_assert_eq(watched(&a), DLOCK_OK);
}

Test(grant, a_grant_that_ran_out_is_no_OK)
{
    dlt_store_close(&t);
    t.target.waiter_lease_ms = 100;
    cr_assert_eq(dlt_store_open(&t), DLOCK_OK);
    cr_assert_eq(dlt_store_enqueue(&t, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_store_leave(&t, &a), DLOCK_OK);
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    dlt_sleep_ms(110);
    cr_assert_eq(dlt_store_watch(&t, &b, 30), DLOCK_TIMEOUT);
    cr_assert_eq(dlt_store_refresh(&t, &b), DLOCK_BUSY);
    cr_assert_eq(t.grant.flags, 0);
    cr_assert_eq(dlt_store_try(&s, &holder), DLOCK_OK);
}

Test(grant, WAT_2_a_grant_before_the_answer_was_lost_is_found)
{
    struct sqlite_attempt *slot = (struct sqlite_attempt *)(void *)a.attempt;

    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    memset(&slot->waiter, 0, sizeof slot->waiter);
    cr_assert_eq(watched(&a), DLOCK_OK, "whatever was noted before");
}

/* Steps of SQLite's machine, and the one at which the holder releases. */
struct moment {
    int steps, release_at;
};

static int moment_comes(void *arg)
{
    struct moment *moment = arg;

    if (++moment->steps == moment->release_at)
        cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    return 0;
}

static enum dlock_status watch_until(struct moment *moment, int64_t timeout_ms)
{
    struct sqlite_session *session = t.self;
    enum dlock_status status = DLOCK_INTERNAL;

    sqlite3_progress_handler(session->db.handle, 1, moment_comes, moment);
    status = dlt_store_watch(&t, &a, timeout_ms);
    sqlite3_progress_handler(session->db.handle, 0, NULL, NULL);
    return status;
}

/* A watch sees the file as it was when it began to read. */
Test(grant, WAT_2_a_grant_at_any_moment_of_a_look_is_not_missed)
{
    struct moment two_looks = {0};

    cr_assert_eq(watch_until(&two_looks, 1), DLOCK_TIMEOUT);
    cr_assert_gt(two_looks.steps, 4);
    for (int step = 1; step <= two_looks.steps / 2; step++) {
        struct moment moment = {.release_at = step};

        cr_assert_eq(watch_until(&moment, 20000), DLOCK_OK, "at step %d", step);
        cr_assert_eq(dlt_store_leave(&t, &a), DLOCK_OK);
        cr_assert_eq(dlt_store_try(&s, &holder), DLOCK_OK);
        cr_assert_eq(dlt_store_enqueue(&t, &a), DLOCK_BUSY);
    }
}

Test(grant, INT_2_CANCELED_unless_the_grant_came_first)
{
    t.ops->interrupt(t.self, &a.req);
    cr_assert_eq(watched(&a), DLOCK_CANCELED);
    cr_assert_eq(watched(&a), DLOCK_CANCELED, "sticky");
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    cr_assert_eq(watched(&a), DLOCK_OK);
}

Test(grant, WAT_1_without_a_wake_file_the_waiter_looks_for_its_grant)
{
    char wake_file[80];

    (void)snprintf(wake_file, sizeof wake_file, "%s-wake", path);
    cr_assert_eq(unlink(wake_file), 0);
    cr_assert_eq(dlt_store_watch(&t, &a, 120), DLOCK_TIMEOUT);
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    cr_assert_eq(watched(&a), DLOCK_OK);
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_OK);
}

Test(grant, no_OK_from_a_file_that_was_moved)
{
    char elsewhere[80];

    (void)snprintf(elsewhere, sizeof elsewhere, "%s.old", path);
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    cr_assert_eq(rename(path, elsewhere), 0);
    cr_assert_eq(watched(&a), DLOCK_UNAVAILABLE);
    cr_assert_eq(dlt_store_refresh(&t, &a), DLOCK_CONFIG);
}

/* ---- who is woken ---- */

static struct sqlite_wake_map *wake_map(void)
{
    struct sqlite_session *session = s.self;

    cr_assert_not_null(session->db.wake_file.map);
    return session->db.wake_file.map;
}

/* How often those who noted the key were woken. */
static uint32_t wakes_of(const unsigned char *key, uint32_t len)
{
    struct sqlite_session *session = s.self;
    struct sqlite_waiter waiter = {0};

    sqlite_wake_file_note(&session->db.wake_file, key, len, &waiter);
    return wake_map()->buckets[waiter.bucket].count;
}

static uint32_t wakes_of_token(const struct dlt_request *request)
{
    return wakes_of(request->req.token, sizeof request->req.token);
}

Test(grant, a_grant_wakes_the_granted_waiter_alone)
{
    uint32_t first = 0, other = 0, name = 0;

    cr_assert_eq(dlt_store_enqueue(&t, &b), DLOCK_BUSY);
    first = wakes_of_token(&a);
    other = wakes_of_token(&b);
    name = wakes_of(a.req.name, a.req.name_len);
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    cr_assert_eq(wakes_of_token(&a), first + 1);
    cr_assert_eq(wakes_of_token(&b), other);
    cr_assert_eq(wakes_of(a.req.name, a.req.name_len), name, "the name is not free");
    cr_assert_eq(dlt_store_unlock(&t, &a), DLOCK_OK);
    cr_assert_eq(wakes_of_token(&b), other + 1);
    cr_assert_eq(wakes_of(a.req.name, a.req.name_len), name);
    cr_assert_eq(dlt_store_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(wakes_of(a.req.name, a.req.name_len), name + 1, "now it is");
}

struct sleeper {
    pthread_t thread;
    enum dlock_status status;
};

static void *sleep_until_granted(void *arg)
{
    struct sleeper *sleeper = arg;

    sleeper->status = dlt_store_watch(&t, &a, 50000);
    return NULL;
}

static void asleep(void)
{
    struct sqlite_session *session = s.self;
    struct sqlite_waiter waiter = {0};

    sqlite_wake_file_note(&session->db.wake_file, a.req.token, sizeof a.req.token, &waiter);
    while (atomic_load(&wake_map()->buckets[waiter.bucket].sleepers) == 0)
        dlt_sleep_ms(1);
}

Test(grant, WAT_1_a_sleeper_wakes_up_with_its_grant)
{
    struct sleeper sleeper = {.status = DLOCK_INTERNAL};

    cr_assert_eq(pthread_create(&sleeper.thread, NULL, sleep_until_granted, &sleeper), 0);
    asleep();
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    cr_assert_eq(pthread_join(sleeper.thread, NULL), 0);
    cr_assert_eq(sleeper.status, DLOCK_OK);
}

Test(grant, a_sleeper_that_is_woken_for_somebody_else_sleeps_on)
{
    struct sleeper sleeper = {.status = DLOCK_INTERNAL};
    struct sqlite_session *session = s.self;
    struct sqlite_wake_set wakes = {0};

    cr_assert_eq(pthread_create(&sleeper.thread, NULL, sleep_until_granted, &sleeper), 0);
    asleep();
    sqlite_wake_file_add(&wakes, a.req.token, sizeof a.req.token);
    sqlite_wake_file_exit(&session->db.wake_file, 0, &wakes);
    asleep();
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    cr_assert_eq(pthread_join(sleeper.thread, NULL), 0);
    cr_assert_eq(sleeper.status, DLOCK_OK, "and not BUSY before");
}

/* The grant is there, and its wake-up is still on the way. */
Test(grant, INT_2_a_grant_that_came_first_is_OK_though_the_interrupt_was_faster)
{
    struct sleeper sleeper = {.status = DLOCK_INTERNAL};
    struct sqlite_session *session = s.self;
    struct sqlite_wake_map *file = wake_map();

    cr_assert_eq(pthread_create(&sleeper.thread, NULL, sleep_until_granted, &sleeper), 0);
    asleep();
    session->db.wake_file.map = NULL;
    cr_assert_eq(dlt_store_unlock(&s, &holder), DLOCK_OK);
    session->db.wake_file.map = file;
    t.ops->interrupt(t.self, &a.req);
    cr_assert_eq(pthread_join(sleeper.thread, NULL), 0);
    cr_assert_eq(sleeper.status, DLOCK_OK);
}
