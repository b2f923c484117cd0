/* SPDX-License-Identifier: MIT */
#include "race.h"

#include <check.h>
#include <inttypes.h>
#include <report.h>

#define THREADS_MOST 32
#define ROUNDS_MOST  3000
#define REPORTED     3

/* How late a call may come back on a busy machine, and how long a free name may be wanted. */
#define SLACK_NS (INT64_C(1600) * DLT_NS_PER_MS)
#define STALL_NS (INT64_C(7500) * DLT_NS_PER_MS)

#define SEMAPHORE (DLT_RACE_NAMES - 1) /* number of its name */
#define LIMIT     3

struct racer {
    const struct dlt_race *race;
    struct dlock_client *client;
    struct dlock_handle *locks[DLT_RACE_NAMES];
    uint64_t random;
    uint64_t caps;
    int64_t end_ns;
    struct dlt_record record; /* what the records of the attempt have in common */
};

/* xorshift64: any thread's choices follow from the seed. */
static uint64_t pick(struct racer *racer, uint64_t below)
{
    racer->random ^= racer->random << 13;
    racer->random ^= racer->random >> 7;
    racer->random ^= racer->random << 17;
    return racer->random % below;
}

static void note(struct racer *racer, enum dlt_event event, uint16_t status, int64_t until_ns)
{
    struct dlt_record record = racer->record;

    record.event = (uint8_t)event;
    record.status = status;
    record.until_ns = until_ns;
    dlt_log_write(racer->race->log, &record);
}

/* The end of the lease as far as the handle says so; 0: it is over. */
static int64_t until_of(const struct dlock_handle *lock)
{
    int64_t now_ns = dlt_log_now_ns();
    int64_t left_ms = dlock_remaining_ms(lock);

    return left_ms > 0 ? now_ns + left_ms * DLT_NS_PER_MS : 0;
}

static void note_held(struct racer *racer, const struct dlock_handle *lock)
{
    struct dlt_record record = racer->record;

    record.event = DLT_HELD_STAMP;
    record.clock_ns = dlt_log_now_ns();
    record.until_ns = until_of(lock);
    record.status = record.until_ns > record.clock_ns;
    dlt_log_write(racer->race->log, &record);
}

static void pause_us(struct racer *racer, uint64_t below)
{
    uint64_t us = pick(racer, below);

    if (us > 0)
        dlt_sleep_until(dlt_now_ns() + (int64_t)us * 1000);
}

static enum dlock_status acquire(struct racer *racer, struct dlock_handle *lock)
{
    static const int64_t timeouts[] = {0, 0, 3, 20, 15000, 15000, 15000, 15000};
    int64_t timeout_ms = timeouts[pick(racer, sizeof timeouts / sizeof timeouts[0])];
    int limited = racer->record.limit > 1;
    int shared = !limited && (racer->caps & DLOCK_CAP_RWLOCK) != 0 && pick(racer, 5) < 2;
    int64_t most_ms = timeout_ms == 0 ? 2000 : timeout_ms;
    enum dlock_status status = DLOCK_INTERNAL;

    racer->record.mode = shared ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
    racer->record.attempt_id = dlt_log_attempt(racer->race->log);
    note(racer, DLT_INV_LOCK, (uint16_t)(DLT_CALL_KEPT | (timeout_ms > 0 ? DLT_CALL_WAITS : 0)),
         dlt_log_now_ns() + most_ms * DLT_NS_PER_MS);
    status = shared ? dlock_timedrdlock(lock, timeout_ms, &dlt_err)
                    : dlock_timedlock(lock, timeout_ms, &dlt_err);
    if (status == DLOCK_OK) {
        racer->record.fence = dlock_fence(lock);
        racer->record.permit = dlock_permit(lock);
    }
    note(racer, DLT_RET_LOCK, (uint16_t)status, status == DLOCK_OK ? until_of(lock) : 0);
    return status;
}

static void renew(struct racer *racer, struct dlock_handle *lock, int downgrade)
{
    enum dlock_status status = DLOCK_INTERNAL;

    if (downgrade)
        racer->record.mode = DLOCK_SHARED;
    note(racer, DLT_INV_RENEW, 0, 0);
    status = downgrade ? dlock_downgrade(lock, &dlt_err) : dlock_renew(lock, 0, &dlt_err);
    note(racer, DLT_RET_RENEW, (uint16_t)status, status == DLOCK_OK ? until_of(lock) : 0);
}

static void release(struct racer *racer, struct dlock_handle *lock)
{
    enum dlock_status status = DLOCK_INTERNAL;

    if (dlock_state(lock) == DLOCK_STATE_LOST)
        note(racer, DLT_LOST, 0, 0);
    note(racer, DLT_INV_UNLOCK, 0, dlt_log_now_ns() + 2000 * DLT_NS_PER_MS);
    status = dlock_unlock(lock, &dlt_err);
    note(racer, DLT_RET_UNLOCK, (uint16_t)status, 0);
}

static void one_round(struct racer *racer)
{
    uint32_t id = (uint32_t)(pick(racer, 4) == 0);
    int limited = (racer->caps & DLOCK_CAP_LIMIT) != 0 && pick(racer, 3) == 0;
    struct dlock_handle *lock = racer->locks[limited ? SEMAPHORE : id];
    enum dlock_status status = DLOCK_INTERNAL;

    racer->record = limited ? (struct dlt_record){.name_id = SEMAPHORE, .limit = LIMIT}
                            : (struct dlt_record){.name_id = id};
    status = acquire(racer, lock);
    if (status != DLOCK_OK) {
        pause_us(racer, 300);
        return;
    }
    note_held(racer, lock);
    if (racer->record.mode == DLOCK_EXCLUSIVE && !limited &&
        (racer->caps & DLOCK_CAP_DOWNGRADE) != 0 && pick(racer, 6) == 0)
        renew(racer, lock, 1);
    else if (pick(racer, 12) == 0)
        renew(racer, lock, 0);
    pause_us(racer, pick(racer, 4) == 0 ? 2000 : 200);
    note_held(racer, lock);
    release(racer, lock);
    pause_us(racer, pick(racer, 3) == 0 ? 1500 : 1);
}

static void *racer_main(void *arg)
{
    struct racer *racer = arg;

    for (int i = 0; i < ROUNDS_MOST && dlt_now_ns() < racer->end_ns; i++)
        one_round(racer);
    return NULL;
}

/* Two ttls: a lease goes from hand to hand between equal ones only. A loss is no failure: the
 * history says what was promised. */
static struct dlock_handle *racer_lock(const struct dlt_race *race, struct dlock_client *client,
                                       unsigned thread, int name)
{
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .op_timeout_ms = 2000};
    struct dlock_handle *lock = NULL;
    char text[64];
    int len = snprintf(text, sizeof text, "%srace%d", race->prefix, name);

    if (name == SEMAPHORE && (dlock_client_caps(client) & DLOCK_CAP_LIMIT) != 0)
        options.limit = LIMIT;
    options.ttl_ms = dlt_ttl_asked(client, thread % 4 == 3 ? 1000 : 2000);
    DLT_OK(dlock_new(client, text, (size_t)len, &options, &lock, &dlt_err));
    return lock;
}

void dlt_race_run(const struct dlt_race *race)
{
    struct racer racers[THREADS_MOST];
    pthread_t threads[THREADS_MOST];

    DLT_CHECK(race->threads <= THREADS_MOST, "%u threads", race->threads);
    for (unsigned i = 0; i < race->threads; i++) {
        struct racer *racer = &racers[i];

        *racer = (struct racer){.race = race, .client = race->clients[i % race->client_count]};
        racer->random = race->seed * UINT64_C(0x9E3779B97F4A7C15) + i + 1;
        racer->caps = dlock_client_caps(racer->client);
        racer->end_ns = dlt_now_ns() + race->duration_ms * DLT_NS_PER_MS;
        for (int k = 0; k < DLT_RACE_NAMES; k++)
            racer->locks[k] = racer_lock(race, racer->client, i, k);
        threads[i] = dlt_thread(racer_main, racer);
    }
    for (unsigned i = 0; i < race->threads; i++) {
        (void)dlt_join(threads[i]);
        for (int k = 0; k < DLT_RACE_NAMES; k++)
            dlock_free(racers[i].locks[k]);
    }
}

struct finding {
    const struct dlt_history *history;
    int count;
};

static void finding_print(void *arg, const struct dlt_violation *violation)
{
    struct finding *finding = arg;

    if (finding->count++ < REPORTED)
        dlt_report_violation(stderr, finding->history, violation, 500 * DLT_NS_PER_MS);
}

void dlt_race_check(const struct dlt_run *run, char (*paths)[300], int count)
{
    struct dlt_history history = {0};
    struct finding finding = {.history = &history};
    const int64_t busy_ns = 5 * run->slack_ms * DLT_NS_PER_MS;
    /* The dead hold it until their sessions end. */
    const int64_t death_ns =
        (run->expected & DLOCK_CAP_TETHERED) != 0 ? DLT_TICKS * run->grid_ms * DLT_NS_PER_MS : 0;
    struct dlt_check_options options = {.slack_ns = SLACK_NS + busy_ns,
                                        .stall_ns = STALL_NS + busy_ns + death_ns,
                                        .complete = true,
                                        .kept = true,
                                        .report = finding_print,
                                        .arg = &finding};
    struct dlt_check_figures figures;
    char why[512], failures[160];

    for (int i = 0; i < count; i++)
        DLT_CHECK(dlt_log_read(paths[i], &history, why, sizeof why) == 0, "%s", why);
    dlt_history_sort(&history);
    DLT_CHECK(dlt_check(&history, &options, &figures) == 0, "no memory");
    dlt_report_figures(stdout, &figures);
    dlt_failures_text(&history, failures, sizeof failures);
    DLT_CHECK(figures.acquired >= 5, "%" PRIu64 " of %" PRIu64 " calls of lock were OK, want 5%s",
              figures.acquired, figures.locks, failures);
    DLT_CHECK(figures.total == 0, "the history breaks a rule of locks %" PRIu64 " times%s",
              figures.total, failures);
    dlt_history_fini(&history);
}
