/* SPDX-License-Identifier: MIT */
/* Is time counted without wrap, and waited for without oversleeping? */
/* Tests: core/sys/clock.c */
/* Tests: lib/time.c */
#include "lib/time.h"
#include "ruler.h"
#include "sys/clock.h"

#include <criterion/criterion.h>
#include <time.h>

Test(clock, boottime)
{
    struct timespec ts;
    int64_t before, after;

    cr_assert_eq(clock_gettime(CLOCK_BOOTTIME, &ts), 0);
    before = (int64_t)ts.tv_sec * DL_NS_PER_S + ts.tv_nsec;
    after = dl_clock_now(&dl_clock_boottime);
    cr_expect_geq(after, before);
    cr_expect_lt(after - before, DL_NS_PER_S);
}

Test(clock, after)
{
    cr_expect_eq(dl_clock_after_ms(5, 2), 5 + 2 * DL_NS_PER_MS);
    cr_expect_eq(dl_clock_after_ms(5, 0), 5);
    cr_expect_eq(dl_clock_after_ms(5, -1), DL_NEVER);
    cr_expect_eq(dl_clock_after_ms(5, INT64_MAX), DL_NEVER);
    cr_expect_eq(dl_clock_after_ms(0, INT64_MAX / DL_NS_PER_MS),
                 DL_NEVER / DL_NS_PER_MS * DL_NS_PER_MS);
    cr_expect_eq(dl_clock_after_ms(DL_NEVER - DL_NS_PER_MS, 2), DL_NEVER);
    cr_expect_eq(dl_clock_after_ms(DL_NEVER, 0), DL_NEVER);
}

static int64_t frozen_now(void *ctx)
{
    return *(int64_t *)ctx;
}

static int64_t wait_ms(const struct dl_clock *clock, int64_t deadline_ns)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    int64_t start = dl_clock_now(&dl_clock_boottime);

    cr_assert_eq(dl_deadline_cond_init(&cond), 0);
    (void)pthread_mutex_lock(&mutex);
    dl_clock_wait(&cond, &mutex, clock, deadline_ns);
    (void)pthread_mutex_unlock(&mutex);
    (void)pthread_cond_destroy(&cond);
    return (dl_clock_now(&dl_clock_boottime) - start) / DL_NS_PER_MS;
}

/* Not only when it looks at the clock, which it does once a second. A busy machine may be late
 * once, and not each time. */
Test(clock, wait_returns_at_the_deadline)
{
    int64_t best = INT64_MAX, past = INT64_MAX;

    for (int i = 0; i < 20 && (best >= 900 || past >= 900); i++) {
        int64_t now = dl_clock_now(&dl_clock_boottime);
        int64_t took = wait_ms(&dl_clock_boottime, now + 60 * DL_NS_PER_MS);

        cr_expect_geq(took, 59, "took %lld ms", (long long)took);
        best = took < best ? took : best;
        took = wait_ms(&dl_clock_boottime, now);
        past = took < past ? took : past;
    }
    cr_expect_lt(best, 900, "took %lld ms", (long long)best);
    cr_expect_lt(past, 900, "a deadline that is past: %lld ms", (long long)past);
}

/* A sleep is bounded, so that a suspend or a test's clock is noticed. */
Test(clock, wait_looks_again_after_a_second)
{
    int64_t now = 5, took = 0;
    const struct dl_clock frozen = {frozen_now, &now};

    took = wait_ms(&frozen, 5 + 3600 * DL_NS_PER_S);
    cr_expect_geq(took, 990);
    cr_expect(dlt_took_within(took, 20000), "%s", dlt_within_text());
}

struct waiter {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int go;
};

static void *signal_later(void *arg)
{
    struct waiter *w = arg;

    (void)pthread_mutex_lock(&w->mutex);
    w->go = 1;
    (void)pthread_cond_signal(&w->cond);
    (void)pthread_mutex_unlock(&w->mutex);
    return NULL;
}

Test(clock, wait_for_ever_is_ended_by_a_signal)
{
    struct waiter w = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread;

    cr_assert_eq(dl_deadline_cond_init(&w.cond), 0);
    (void)pthread_mutex_lock(&w.mutex);
    cr_assert_eq(pthread_create(&thread, NULL, signal_later, &w), 0);
    while (!w.go)
        dl_clock_wait(&w.cond, &w.mutex, &dl_clock_boottime, DL_NEVER);
    (void)pthread_mutex_unlock(&w.mutex);
    (void)pthread_join(thread, NULL);
    cr_expect_eq(w.go, 1);
}
