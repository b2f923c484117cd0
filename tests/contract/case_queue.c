/* SPDX-License-Identifier: MIT */
/* First come, first served, whoever asks from where. */
#include "child.h"
#include "conformance.h"
#include "hammer.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Longer than any case: a place or a grant that is left behind is seen. */
#define NEVER_MS 30000
/* So long may take what has not to wait for such an end. */
#define SOON_MS 6000

#define LINE 20

/* Parties that came one after another, each when the one before was seen to wait. */
void dlt_case_queue_is_fifo(struct dlt_run *run)
{
    struct dlt_text lease = dlt_waiter_lease(run, NEVER_MS);
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    struct dlt_child parties[LINE];
    int64_t last_ns = 0;
    uint64_t last = 0;
    int fences = (dlock_client_caps(client) & DLOCK_CAP_FENCE) != 0;

    DLT_OK(dlock_trylock(lock, &dlt_err));
    last = dlock_fence(lock);
    for (uint32_t i = 0; i < LINE; i++) {
        dlt_party_start(&parties[i], run, lease.text);
        dlt_child_want(&parties[i], "OK", "new 0 %sx 30000 1", run->prefix);
        dlt_child_want(&parties[i], "OK", "wait 0 x 60000 0");
        dlt_waiters_await(client, &name, i + 1, i + 1);
    }
    DLT_OK(dlock_unlock(lock, &dlt_err));
    for (int i = 0; i < LINE; i++) {
        struct dlt_waited waited = dlt_child_waited(&parties[i], "OK");

        DLT_CHECK(waited.done_ns > last_ns, "waiter %d got it before waiter %d", i, i - 1);
        DLT_CHECK(!fences || waited.fence > last, "waiter %d has fence %" PRIu64 " after %" PRIu64,
                  i, waited.fence, last);
        last_ns = waited.done_ns;
        last = waited.fence;
        dlt_child_stop(&parties[i]);
    }
    dlock_free(lock);
    dlock_client_close(client);
}

/* A holder in one client, and waiters with a client each. */
struct line {
    const struct dlt_run *run;
    struct dlt_text lease;
    struct dlt_name name;
    struct dlock_client *client, *clients[4];
    struct dlock_handle *holder, *locks[4];
};

static void line_open(struct line *line, const struct dlt_run *run, int64_t lease_ms,
                      const char *options)
{
    char defaults[128];

    line->run = run;
    line->lease = dlt_waiter_lease(run, lease_ms);
    line->name = dlt_name(run, "x");
    line->client = dlt_client(run, NULL);
    line->holder = dlt_lock(run, line->client, "x", 0);
    (void)snprintf(defaults, sizeof defaults, "%s%s%s", line->lease.text,
                   line->lease.text[0] != '\0' && options[0] != '\0' ? "&" : "", options);
    for (int i = 0; i < 4; i++) {
        line->clients[i] = dlt_client(run, defaults);
        line->locks[i] = dlt_lock(run, line->clients[i], "x", 0);
    }
}

static void line_close(struct line *line)
{
    for (int i = 0; i < 4; i++) {
        dlock_free(line->locks[i]);
        dlock_client_close(line->clients[i]);
    }
    dlock_free(line->holder);
    dlock_client_close(line->client);
}

static void line_join(struct line *line, struct dlt_waiter *waiters, int i, int64_t timeout_ms,
                      uint32_t count)
{
    dlt_waiter_enter(&waiters[i], line->locks[i], DLOCK_EXCLUSIVE, timeout_ms, 0);
    dlt_waiters_await(line->client, &line->name, count, count);
}

static bool waiters_note(void *arg, const struct dlock_holder *info)
{
    *(uint32_t *)arg = info->waiters;
    return 0;
}

static void waiters_listed(struct line *line, uint32_t want)
{
    uint32_t waiters = 0;

    DLT_OK(dlock_client_list(line->client, line->name.text, line->name.len, waiters_note, &waiters,
                             &dlt_err));
    DLT_CHECK(waiters == want, "list shows %" PRIu32 " waiters, want %" PRIu32, waiters, want);
}

static bool waiter_check(void *arg, const struct dlock_waiter *waiter)
{
    uint32_t *count = arg;

    DLT_CHECK(waiter->position == *count, "waiter %" PRIu32 " is at position %" PRIu32, *count,
              waiter->position);
    DLT_CHECK(waiter->mode == DLOCK_EXCLUSIVE && waiter->label[0] != '\0' &&
                  waiter->owner[0] != '\0' && waiter->waited_ms >= -1,
              "waiter %" PRIu32 " has label \"%s\", owner \"%s\"", *count, waiter->label,
              waiter->owner);
    ++*count;
    return false;
}

/* A store with a queue shows it, or only counts it. */
static void waiters_shown(struct line *line, uint32_t want)
{
    uint32_t count = 0;
    enum dlock_status status = dlock_client_list_waiters(
        line->client, line->name.text, line->name.len, waiter_check, &count, &dlt_err);

    DLT_CHECK(status == DLOCK_OK || status == DLOCK_UNSUPPORTED, "%s: %s",
              dlock_status_name((int)status), dlt_err.message);
    DLT_CHECK(status == DLOCK_UNSUPPORTED || count == want,
              "%" PRIu32 " waiters are shown, want %" PRIu32, count, want);
}

void dlt_case_queue_counts_in_inspect(struct dlt_run *run)
{
    struct dlt_waiter waiters[4];
    struct line line;

    line_open(&line, run, NEVER_MS, "");
    DLT_OK(dlock_trylock(line.holder, &dlt_err));
    dlt_waiters_await(line.client, &line.name, 0, 0);
    for (int i = 0; i < 4; i++) {
        line_join(&line, waiters, i, 20000, (uint32_t)i + 1);
        waiters_listed(&line, (uint32_t)i + 1);
        waiters_shown(&line, (uint32_t)i + 1);
    }
    dlock_cancel(line.locks[3]);
    DLT_STATUS(dlt_waiter_join(&waiters[3]), DLOCK_CANCELED);
    dlt_waiters_await(line.client, &line.name, 3, 3);
    DLT_OK(dlock_unlock(line.holder, &dlt_err));
    for (int i = 0; i < 3; i++)
        DLT_OK(dlt_waiter_join_within(&waiters[i], SOON_MS));
    DLT_OK(dlock_trylock(line.holder, &dlt_err));
    dlt_waiters_await(line.client, &line.name, 0, 0);
    line_close(&line);
}

/* What dlock_client_list_waiters has to show of a waiter, which was queued between two moments. */
struct arrival {
    const char *label;
    enum dlock_mode mode;
    int64_t from_ns, until_ns;
};

struct shown {
    const struct arrival *arrivals;
    uint32_t count, want;
    int64_t asked_ns;
};

#define ROUNDED_MS 5

/* A store knows it exactly, or not at all. */
static void waited_check(const struct shown *shown, const struct dlock_waiter *waiter)
{
    const struct arrival *arrival = &shown->arrivals[shown->count];
    const int64_t most_ms = (dlt_now_ns() - arrival->from_ns) / 1000000 + ROUNDED_MS;
    const int64_t least_ms = (shown->asked_ns - arrival->until_ns) / 1000000 - ROUNDED_MS;

    DLT_CHECK(waiter->waited_ms == -1 ||
                  (waiter->waited_ms >= least_ms && waiter->waited_ms <= most_ms),
              "waiter %" PRIu32 " has waited %" PRId64 " ms, want %" PRId64 " to %" PRId64,
              shown->count, waiter->waited_ms, least_ms, most_ms);
}

static bool shown_check(void *arg, const struct dlock_waiter *waiter)
{
    struct shown *shown = arg;
    const struct arrival *arrival = &shown->arrivals[shown->count];
    const char *end = strrchr(waiter->label, ':');

    DLT_CHECK(shown->count < shown->want, "more than %" PRIu32 " waiters are shown", shown->want);
    DLT_CHECK(end != NULL && strcmp(end + 1, arrival->label) == 0,
              "waiter %" PRIu32 " has label \"%s\", want \"%s\"", shown->count, waiter->label,
              arrival->label);
    DLT_CHECK(waiter->mode == arrival->mode, "waiter %" PRIu32 " has mode %d", shown->count,
              (int)waiter->mode);
    waited_check(shown, waiter);
    shown->count++;
    return false;
}

static void shown_are(struct line *line, const struct arrival *arrivals, uint32_t want)
{
    struct shown shown = {.arrivals = arrivals, .want = want, .asked_ns = dlt_now_ns()};
    enum dlock_status status = dlock_client_list_waiters(
        line->client, line->name.text, line->name.len, shown_check, &shown, &dlt_err);

    if (status == DLOCK_UNSUPPORTED)
        dlt_skip("the store does not show its queue");
    DLT_OK(status);
    DLT_CHECK(shown.count == want, "%" PRIu32 " waiters are shown, want %" PRIu32, shown.count,
              want);
}

static void arrival_make(struct line *line, struct arrival *arrival, struct dlt_waiter *waiter,
                         uint32_t i)
{
    const struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .label = arrival->label};

    dlock_free(line->locks[i]);
    line->locks[i] = dlt_lock_with(line->run, line->clients[i], "x", &options);
    arrival->from_ns = dlt_now_ns();
    dlt_waiter_enter(waiter, line->locks[i], arrival->mode, 30000, -1);
    dlt_waiters_await(line->client, &line->name, i + 1, i + 1);
    arrival->until_ns = dlt_now_ns();
    dlt_sleep_ms(4 * ROUNDED_MS);
}

/* Of two readers behind a writer the second one gives up. A granted waiter is a holder. */
void dlt_case_queue_is_shown(struct dlt_run *run)
{
    struct arrival arrivals[] = {{.label = "one", .mode = DLOCK_EXCLUSIVE},
                                 {.label = "two", .mode = DLOCK_SHARED},
                                 {.label = "three", .mode = DLOCK_SHARED}};
    struct dlt_waiter waiters[3];
    struct line line;

    line_open(&line, run, NEVER_MS, "");
    shown_are(&line, arrivals, 0);
    DLT_OK(dlock_trylock(line.holder, &dlt_err));
    for (uint32_t i = 0; i < 3; i++) {
        arrival_make(&line, &arrivals[i], &waiters[i], i);
        shown_are(&line, arrivals, i + 1);
    }
    dlock_cancel(line.locks[2]);
    DLT_STATUS(dlt_waiter_join(&waiters[2]), DLOCK_CANCELED);
    dlt_waiters_await(line.client, &line.name, 2, 2);
    shown_are(&line, arrivals, 2);
    DLT_OK(dlock_unlock(line.holder, &dlt_err));
    DLT_OK(dlt_waiter_join_within(&waiters[0], SOON_MS));
    dlt_waiters_await(line.client, &line.name, 1, 1);
    shown_are(&line, arrivals + 1, 1);
    DLT_OK(dlock_unlock(line.locks[0], &dlt_err));
    DLT_OK(dlt_waiter_join_within(&waiters[1], SOON_MS));
    line_close(&line);
}

#define PLACE_MS 4000

/* Two time out, first and third of four. 1: their places are counted for no longer. */
static int places_left(struct line *line)
{
    struct dlt_waiter waiters[4];
    int64_t start_ns = 0;
    int left = 0;

    DLT_OK(dlock_timedlock(line->holder, 10000, &dlt_err));
    for (int i = 0; i < 4; i++) {
        dlt_waiter_enter(&waiters[i], line->locks[i], DLOCK_EXCLUSIVE, i % 2 == 0 ? 1000 : 30000,
                         0);
        dlt_sleep_ms(5);
    }
    for (int i = 0; i < 4; i += 2) {
        enum dlock_status status = dlt_waiter_join(&waiters[i]);

        DLT_CHECK(dlt_ran_out(status), "the wait ended with %s, want TIMEOUT",
                  dlock_status_name((int)status));
    }
    start_ns = dlt_now_ns();
    while (!left && dlt_ms_since(start_ns) < 1500) {
        dlt_sleep_ms(1);
        left = dlt_inspect(line->client, &line->name).info.waiters == 2;
    }
    DLT_OK(dlock_unlock(line->holder, &dlt_err));
    for (int i = 1; i < 4; i += 2)
        DLT_OK(dlt_waiter_join_within(&waiters[i], 2 * PLACE_MS + SOON_MS));
    return left;
}

/* Past its deadline a call has little time to give up its place, so that on a busy machine it may
 * fail to; but not as a rule. */
void dlt_case_queue_is_left_at_the_timeout(struct dlt_run *run)
{
    struct line line;
    int late = 0, late_most = 2 + (int)(run->slack_ms / 100); /* 3 on an idle machine */

    line_open(&line, run, PLACE_MS, "");
    for (int left = 0; left < 2;) {
        if (places_left(&line))
            left++;
        else
            late++;
        DLT_CHECK(late < late_most,
                  "%d times of %d the places of waiters that timed out were not given up", late,
                  late + left);
    }
    line_close(&line);
}

/* A holder with a lease that is not renewed is left alone until it runs out. */
static void hammer_round(struct line *line, struct dlock_handle *lock, struct dlock_handle *holder)
{
    struct dlt_waiter waiter;
    struct dlt_hammer hammer;

    DLT_TAKE(holder);
    dlt_waiter_go(&waiter, line->locks[0], DLOCK_EXCLUSIVE, 20000, 0);
    while (!waiter.done && dlt_inspect(line->client, &line->name).info.waiters == 0)
        dlt_sleep_ms(1);
    dlt_hammer_start(&hammer, line->run, lock, &waiter);
    if (holder == line->holder) {
        dlt_sleep_ms(3);
        DLT_OK(dlock_unlock(holder, &dlt_err));
    }
    DLT_OK(dlt_waiter_join(&waiter));
    dlt_hammer_stop(&hammer);
    if (holder != line->holder)
        DLT_STATUS(dlock_unlock(holder, &dlt_err), DLOCK_LOST);
}

/* Neither by the client of the waiter nor by another; whether it was unlocked or ran out. */
void dlt_case_queue_is_not_passed(struct dlt_run *run)
{
    struct line line;
    struct dlock_handle *beside = NULL, *brief = NULL;
    int rounds = 10;

    line_open(&line, run, NEVER_MS, "");
    beside = dlt_lock(run, line.clients[0], "x", 0);
    brief = dlt_lease(run, line.clients[2], "x", 250);
    for (int i = 0; i < 10; i++)
        hammer_round(&line, i % 2 == 0 ? beside : line.locks[1], line.holder);
    if (dlt_ttl(line.clients[2], 250) > 2000) /* each round waits for the end of one */
        rounds = 5;
    for (int i = 0; i < rounds; i++)
        hammer_round(&line, line.locks[1], brief);
    dlock_free(beside);
    dlock_free(brief);
    line_close(&line);
}

void dlt_case_queue_passes_on_what_was_broken(struct dlt_run *run)
{
    struct dlt_waiter waiters[4];
    struct line line;
    struct dlt_best best = {0};

    line_open(&line, run, NEVER_MS, "poll_max=20s");
    for (int i = 0; i < 4; i++) {
        int64_t start_ns = 0;

        DLT_OK(dlock_trylock(line.holder, &dlt_err));
        line_join(&line, waiters, 0, 20000, 1);
        line_join(&line, waiters, 1, 20000, 2);
        start_ns = dlt_now_ns();
        dlt_break(run, line.client, &line.name);
        DLT_OK(dlt_waiter_join(&waiters[0]));
        DLT_OK(dlt_waiter_join(&waiters[1]));
        DLT_CHECK(waiters[1].done_ns > waiters[0].done_ns,
                  "the second waiter acquired before the first");
        dlt_best_take(&best, start_ns, waiters[0].done_ns);
        DLT_STATUS(dlock_unlock(line.holder, &dlt_err), DLOCK_LOST);
    }
    DLT_BETWEEN(best.begin_ns, best.end_ns, 300 + run->slack_ms,
                "the first waiter acquired after the break, at best");
    line_close(&line);
}

/* Who does not queue is woken all the same. */
void dlt_case_queue_off_is_woken(struct dlt_run *run)
{
    struct dlt_waiter waiter;
    struct line line;
    struct dlt_best best = {0};

    line_open(&line, run, NEVER_MS, "queue=off&poll_max=20s");
    for (int i = 0; i < 5; i++) {
        int64_t start_ns = 0;

        DLT_OK(dlock_trylock(line.holder, &dlt_err));
        dlt_waiter_start(&waiter, line.locks[0], 20000);
        start_ns = dlt_now_ns();
        DLT_OK(dlock_unlock(line.holder, &dlt_err));
        DLT_OK(dlt_waiter_join(&waiter));
        dlt_best_take(&best, start_ns, waiter.done_ns);
        DLT_OK(dlock_unlock(line.locks[0], &dlt_err));
    }
    DLT_BETWEEN(best.begin_ns, best.end_ns, 300 + run->slack_ms,
                "the waiter acquired after the unlock, at best");
    line_close(&line);
}

#define TURNS 25

struct crowd {
    struct line *line;
    _Atomic int next, inside, number; /* number: read and written apart */
};

static void *crowd_member(void *arg)
{
    struct crowd *crowd = arg;
    struct dlock_options options = {.struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS};
    int me = atomic_fetch_add(&crowd->next, 1);
    struct dlock_handle *lock = NULL;

    options.queue = me % 2 == 0 ? DLOCK_ON : DLOCK_OFF;
    lock = dlt_lock_with(crowd->line->run, crowd->line->clients[me % 4], "x", &options);
    for (int i = 0; i < TURNS; i++) {
        int seen = 0;

        DLT_OK(dlock_timedlock(lock, 50000, &dlt_err));
        DLT_CHECK(atomic_fetch_add(&crowd->inside, 1) == 0, "two threads hold the lock at once");
        seen = crowd->number;
        dlt_sleep_until(dlt_now_ns() + 200000);
        crowd->number = seen + 1;
        atomic_fetch_sub(&crowd->inside, 1);
        DLT_OK(dlock_unlock(lock, &dlt_err));
    }
    dlock_free(lock);
    return NULL;
}

/* Some in the queue and some not: one lock, and all come through. */
void dlt_case_queue_off_among_queued(struct dlt_run *run)
{
    struct line line;
    struct crowd crowd = {.line = &line};
    pthread_t threads[8];

    line_open(&line, run, NEVER_MS, "");
    for (int i = 0; i < 8; i++)
        threads[i] = dlt_thread(crowd_member, &crowd);
    for (int i = 0; i < 8; i++)
        (void)dlt_join(threads[i]);
    DLT_CHECK(crowd.number == 8 * TURNS, "the number is %d after %d additions under the lock",
              crowd.number, 8 * TURNS);
    line_close(&line);
}
