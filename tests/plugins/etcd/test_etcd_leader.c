/* SPDX-License-Identifier: MIT */
/*
 * test_etcd_leader ROUNDS - the leader of three members is killed under 16 holders and 16 waiters,
 * again and again, and in each fourth round another member stands still as well, so that nobody
 * leads for longer than a lease: is nobody else inside meanwhile, is each loss told in time, and do
 * the waiters go on? (C1, C2, C5, C6, C13)
 */
#include "etcd_server.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAMES      16
#define CLIENTS    4
#define TTL_MS     2000
#define TOLD_POLLS 100   /* of PAUSE_MS, after the end of the lease */
#define ALL_MS     40000 /* until each name has a holder and a waiter */
#define DARK_MS    3500  /* without a leader: all leases end */
#define NS_PER_MS  INT64_C(1000000)
#define WAIT_MS    120000
#define PAUSE_MS   5
#define ELECTED_MS 1500

/* Two threads share a name: one holds, one waits. */
struct worker {
    pthread_t thread;
    struct dlock_handle *lock;
    unsigned name;
    _Atomic bool holds, waits, told; /* told: of the loss */
};

static struct dlt_etcd server;
static struct dlock_client *clients[CLIENTS];
static struct worker workers[2 * NAMES];
static _Atomic int inside[NAMES];
static _Atomic uint64_t fences[NAMES];
static _Atomic int round_now; /* holders release when it changes */
static _Atomic bool over;
static _Atomic int overlaps, fallen, late, oddities, losses;
static _Atomic long acquisitions;

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS},
                    NULL);
}

static int64_t now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

/* On the client's renewer thread. */
static void lost(void *arg, const struct dlock_notice *notice)
{
    struct worker *worker = notice->user;

    (void)arg;
    atomic_store(&worker->told, true);
    atomic_fetch_add(&losses, 1);
}

static void enter(struct worker *worker)
{
    uint64_t fence = dlock_fence(worker->lock);

    if (atomic_fetch_add(&inside[worker->name], 1) != 0)
        atomic_fetch_add(&overlaps, 1);
    if (atomic_exchange(&fences[worker->name], fence) >= fence)
        atomic_fetch_add(&fallen, 1);
    atomic_fetch_add(&acquisitions, 1);
}

/* Until the round is over, or the lock is lost. */
static void hold(struct worker *worker)
{
    int round = atomic_load(&round_now);
    int64_t left_ms = dlock_remaining_ms(worker->lock);

    while (left_ms > 0 && atomic_load(&round_now) == round && !atomic_load(&over)) {
        sleep_ms(PAUSE_MS);
        left_ms = dlock_remaining_ms(worker->lock);
    }
    atomic_fetch_sub(&inside[worker->name], 1);
}

/*
 * A holder that lost its lock was told, or is told soon. Polls are counted and not the time,
 * because a busy machine delays both threads alike.
 */
static void check_told(struct worker *worker)
{
    int polls = 0;

    while (!atomic_load(&worker->told) && polls++ < TOLD_POLLS)
        sleep_ms(PAUSE_MS);
    if (!atomic_load(&worker->told))
        atomic_fetch_add(&late, 1);
}

static void turn(struct worker *worker)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_OK;

    atomic_store(&worker->waits, true);
    atomic_store(&worker->told, false);
    status = dlock_timedlock(worker->lock, WAIT_MS, &err);
    atomic_store(&worker->waits, false);
    if (status == DLOCK_OK) {
        enter(worker);
        atomic_store(&worker->holds, true);
        hold(worker);
        atomic_store(&worker->holds, false);
        if (dlock_state(worker->lock) == DLOCK_STATE_LOST)
            check_told(worker);
        status = dlock_unlock(worker->lock, &err);
    }
    if (status != DLOCK_OK && status != DLOCK_LOST && status != DLOCK_UNKNOWN &&
        status != DLOCK_UNAVAILABLE && status != DLOCK_CLOSED &&
        atomic_fetch_add(&oddities, 1) == 0)
        printf("# %s: %s\n", dlock_status_name((int)status), err.message);
}

static void *work(void *arg)
{
    while (!atomic_load(&over))
        turn(arg);
    return NULL;
}

/* Each name has one who holds and one who waits. */
static bool all_in_place(void)
{
    unsigned right = 0;

    for (unsigned name = 0; name < NAMES; name++) {
        const struct worker *one = &workers[2 * name], *other = one + 1;

        right += (atomic_load(&one->holds) && atomic_load(&other->waits)) ||
                 (atomic_load(&other->holds) && atomic_load(&one->waits));
    }
    return right == NAMES;
}

static bool all_in_place_soon(void)
{
    int64_t limit_ns = now_ns() + ALL_MS * NS_PER_MS;

    while (!all_in_place() && now_ns() < limit_ns)
        sleep_ms(PAUSE_MS);
    return all_in_place();
}

/* The leader dies; dark: and nobody can lead for a while. */
static void leader_kill(bool dark)
{
    unsigned leader = (unsigned)dlt_etcd_leader_wait(&server), other = 0;

    other = (leader + 1) % server.count;
    if (leader >= server.count)
        abort();
    if (dark)
        dlt_etcd_pause(&server, other, true);
    dlt_etcd_kill(&server, leader);
    sleep_ms(dark ? DARK_MS : ELECTED_MS);
    if (dark)
        dlt_etcd_pause(&server, other, false);
    if (!dlt_etcd_again(&server, leader)) {
        (void)fprintf(stderr, "%s\n", server.why);
        abort();
    }
}

static void start(void)
{
    struct dlock_client_options options = {.struct_size = sizeof options, .on_lost = lost};
    struct dlock_error err = DLOCK_ERROR_INIT;
    char uri[256], name[16];

    (void)snprintf(uri, sizeof uri, "etcd://%s/leader", server.hosts);
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (dlock_client_open(uri, &options, &clients[i], &err) != DLOCK_OK) {
            printf("Bail out! %s\n", err.message);
            exit(1);
        }
    }
    for (unsigned i = 0; i < 2 * NAMES; i++) {
        struct worker *worker = &workers[i];
        struct dlock_options own = {.struct_size = sizeof own,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = TTL_MS,
                                    .user = worker};

        worker->name = i / 2;
        (void)snprintf(name, sizeof name, "name%u", worker->name);
        /* The two of a name are of different clients. */
        if (dlock_new(clients[(i / 2 + i % 2) % CLIENTS], name, strlen(name), &own, &worker->lock,
                      NULL) != DLOCK_OK ||
            pthread_create(&worker->thread, NULL, work, worker) != 0)
            abort();
    }
}

static void end(void)
{
    atomic_store(&over, true);
    atomic_fetch_add(&round_now, 1);
    for (unsigned i = 0; i < CLIENTS; i++)
        dlock_client_shutdown(clients[i]);
    for (unsigned i = 0; i < 2 * NAMES; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        dlock_free(workers[i].lock);
    }
    for (unsigned i = 0; i < CLIENTS; i++)
        dlock_client_close(clients[i]);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 4, went_on = 0;
    bool in_place = true;

    if (!dlt_etcd_start_cluster(&server, 3, NULL)) {
        printf("Bail out! %s\n", server.why);
        return 1;
    }
    start();
    for (int i = 0; i < rounds && in_place; i++) {
        in_place = all_in_place_soon();
        if (!in_place)
            break;
        sleep_ms(i * 37 % 200);
        leader_kill(i % 4 == 3);
        in_place = all_in_place_soon();
        atomic_fetch_add(&round_now, 1);
        went_on += in_place;
    }
    (void)dlt_ok(went_on == rounds && all_in_place_soon(), "C13 waiters went on in %d rounds of %d",
                 went_on, rounds);
    end();
    (void)dlt_ok(overlaps == 0, "C1 %d overlaps in %ld acquisitions", (int)overlaps,
                 (long)acquisitions);
    (void)dlt_ok(fallen == 0, "C6 %d fences that were not above the one before", (int)fallen);
    (void)dlt_ok(late == 0, "C5 %d of %d losses told late", (int)late, (int)losses);
    (void)dlt_ok(rounds < 4 || losses > 0, "there were %d losses", (int)losses);
    (void)dlt_ok(oddities == 0, "C4 %d answers that nothing explains", (int)oddities);
    dlt_etcd_stop(&server);
    return dlt_done();
}
