/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/servers/cluster.c plugins/redis/call/route.c plugins/redis/link/config.c */
/*
 * C1, C5, C8, C13: locks in a cluster while a slot moves under load, while a master dies, and while
 * a shard is dead. TAP. Exclusion over failovers is the question of the torture.
 */
#include "cluster_server.h"
#include "drop.h"
#include "notices.h"
#include "ruler.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORKERS  4
#define NAMES    64
#define TRIES    6
#define A_MASTER 4 /* names that a client holds at each master when it is closed */

#define CONNECT_MS 30000
#define SLACK_MS   15000 /* on a busy machine */

static struct dlt_cluster cluster;

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void sleep_ms(int64_t ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&pause, NULL);
}

static struct dlock_client *client_open_with(const char *guard, const char *options)
{
    struct dlock_client *client = NULL;
    struct dlock_error err = DLOCK_ERROR_INIT;
    char uri[300];

    (void)snprintf(uri, sizeof uri, "redis+cluster://%s?%s&connect_timeout=%dms%s", cluster.hosts,
                   guard, CONNECT_MS, options);
    if (dlock_client_open(uri, NULL, &client, &err) != DLOCK_OK) {
        (void)dlt_ok(false, "opens: %s", err.message);
        exit(dlt_done());
    }
    return client;
}

static struct dlock_client *client_open(const char *options)
{
    return client_open_with("restart_guard=0", options);
}

static struct dlock_handle *lock_of(struct dlock_client *client, const char *name)
{
    struct dlock_handle *lock = NULL;
    struct dlock_error err = DLOCK_ERROR_INIT;

    if (dlock_new(client, name, (uint32_t)strlen(name), NULL, &lock, &err) != DLOCK_OK)
        abort();
    return lock;
}

/* Asks until it has the lock, or for a minute. */
static bool takes(struct dlock_handle *lock)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    int64_t until_ms = now_ms() + 60000;

    while (now_ms() < until_ms) {
        if (dlock_acquire(lock, DLOCK_EXCLUSIVE, 200, &err) == DLOCK_OK)
            return true;
        sleep_ms(20);
    }
    printf("# %s\n", err.message);
    return false;
}

/* ---- a slot that moves ---- */

static atomic_bool over;
static atomic_int inside, overlaps, turns, strange, unknown, staying;

/* An outcome that is not known is known after the ttl at the latest. */
static void unknown_count(enum dlock_status status, int64_t *since_ms)
{
    if (status != DLOCK_UNKNOWN) {
        *since_ms = now_ms();
        return;
    }
    (void)atomic_fetch_add(&unknown, 1);
    if (!dlt_took_within(now_ms() - *since_ms, SLACK_MS))
        (void)atomic_fetch_add(&staying, 1);
}

/* With the failover guard, or without: its options. */
static void *work(void *arg)
{
    const char *guard = arg;
    struct dlock_client *client = client_open_with(guard, "");
    struct dlock_handle *lock = lock_of(client, "job");
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_OK;
    int64_t known_ms = now_ms();

    while (!atomic_load(&over)) {
        status = dlock_acquire(lock, DLOCK_EXCLUSIVE, 500, &err);
        unknown_count(status, &known_ms);
        if (status == DLOCK_OK) {
            if (atomic_fetch_add(&inside, 1) != 0)
                (void)atomic_fetch_add(&overlaps, 1);
            (void)atomic_fetch_add(&turns, 1);
            (void)atomic_fetch_sub(&inside, 1);
            while (dlock_unlock(lock, &err) == DLOCK_UNAVAILABLE)
                sleep_ms(5);
        } else if (status != DLOCK_TIMEOUT && status != DLOCK_UNAVAILABLE &&
                   status != DLOCK_UNKNOWN) {
            printf("# %d: %s\n", (int)status, err.message);
            (void)atomic_fetch_add(&strange, 1);
        }
    }
    dlock_free(lock);
    dlock_client_close(client);
    return NULL;
}

/* Waits for so many turns more. */
static bool turns_go_on(int more)
{
    int64_t until_ms = now_ms() + 60000;
    int goal = atomic_load(&turns) + more;

    while (atomic_load(&turns) < goal && now_ms() < until_ms)
        sleep_ms(10);
    return atomic_load(&turns) >= goal;
}

static bool slot_moves(unsigned slot, unsigned from, unsigned to)
{
    bool opened = dlt_cluster_slot_open(&cluster, slot, from, to);

    sleep_ms(100); /* the slot is between two servers */
    return opened && dlt_cluster_slot_keys(&cluster, slot, from, to) &&
           dlt_cluster_slot_give(&cluster, slot, from, to);
}

/* guard: NULL: without the failover guard. With it the work stops for T + D after each move. */
static void a_slot_moves_forth_and_back(const char *guard)
{
    pthread_t threads[WORKERS];
    const char *options = guard != NULL ? guard : "restart_guard=0&ttl=60s";
    unsigned slot = dlt_cluster_slot(&cluster, "{job}");
    unsigned home = (unsigned)dlt_cluster_master(&cluster, slot);
    unsigned away = (home + 1) % DLT_CLUSTER_MASTERS;
    int64_t until_ms = now_ms() + (getenv("DLOCK_LONG_TESTS") != NULL ? 60000 : 3000);
    int moves = 0;
    bool moved = true, went_on = true;

    atomic_store(&over, false);
    atomic_store(&unknown, 0);
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)options) != 0)
            abort();
    went_on = turns_go_on(20);
    while (moved && went_on && (moves < 2 || now_ms() < until_ms)) {
        moved = slot_moves(slot, home, away);
        went_on = guard == NULL || turns_go_on(20);
        moved = moved && went_on && slot_moves(slot, away, home);
        went_on = went_on && turns_go_on(20);
        moves += 2;
    }
    atomic_store(&over, true);
    for (int i = 0; i < WORKERS; i++)
        (void)pthread_join(threads[i], NULL);
    (void)dlt_ok(moved, "a slot moves %d times under load %s", moves, cluster.why);
    (void)dlt_ok(went_on, "C13 the work goes on after each: %d turns", atomic_load(&turns));
    (void)dlt_ok(atomic_load(&overlaps) == 0, "C1 nobody is there at the same time");
    (void)dlt_ok(atomic_load(&strange) == 0, "no other status than UNAVAILABLE and UNKNOWN");
    (void)dlt_ok(atomic_load(&staying) == 0, "C9 no UNKNOWN stays (there were %d)",
                 atomic_load(&unknown));
}

static void needs_replicas(int count)
{
    for (unsigned i = 0; i < DLT_CLUSTER_COUNT; i++)
        (void)dlt_redis_ask(&cluster.redis[i], "CONFIG SET min-replicas-to-write %d", count);
}

/* T is 3 s and D 2 s. */
static void a_slot_moves_forth_and_back_with_the_guard(void)
{
    needs_replicas(1);
    a_slot_moves_forth_and_back("restart_guard=3s&ttl=3s");
    needs_replicas(0);
}

/* ---- masters that die ---- */

static bool count_one(void *arg, const struct dlock_holder *holder)
{
    (void)holder;
    (*(int *)arg)++;
    return false;
}

static void all_masters_are_listed(void)
{
    struct dlock_client *client = client_open("");
    struct dlock_handle *locks[NAMES];
    struct dlock_error err = DLOCK_ERROR_INIT;
    char name[16];
    int taken = 0, listed = 0;

    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        locks[i] = lock_of(client, name);
        taken += takes(locks[i]);
    }
    (void)dlt_ok(dlock_client_list(client, "n", 1, count_one, &listed, &err) == DLOCK_OK &&
                     taken == NAMES && listed == NAMES,
                 "C8 all names of all masters are listed: %s", err.message);
    for (int i = 0; i < NAMES; i++) {
        dlt_drop(dlock_unlock(locks[i], &err));
        dlock_free(locks[i]);
    }
    dlock_client_close(client);
}

/* The first name n<i> from n<first> on whose slot this server has. */
static void name_at(unsigned node, int first, char name[16])
{
    for (int i = first;; i++) {
        char key[24];

        (void)snprintf(name, 16, "n%d", i);
        (void)snprintf(key, sizeof key, "{%s}", name);
        if (dlt_cluster_master(&cluster, dlt_cluster_slot(&cluster, key)) == (int)node)
            return;
    }
}

/* The session of the client is with one server; the names are with each. */
static void names_are_kept_at_each_master(void)
{
    struct dlock_client *client = client_open("");
    struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .keep_ms = 60000};
    struct dlock_error err = DLOCK_ERROR_INIT;
    char name[16];
    unsigned kept = 0;

    for (unsigned node = 0; node < DLT_CLUSTER_MASTERS; node++) {
        struct dlock_handle *lock = NULL;

        name_at(node, 0, name);
        if (dlock_new(client, name, (uint32_t)strlen(name), &options, &lock, &err) != DLOCK_OK)
            abort();
        kept += takes(lock) && dlock_unlock(lock, &err) == DLOCK_OK &&
                dlock_trylock(lock, &err) == DLOCK_BUSY &&
                dlock_client_break(client, name, strlen(name), NULL, &err) == DLOCK_OK;
        dlock_free(lock);
    }
    (void)dlt_ok(kept == DLT_CLUSTER_MASTERS, "C22 %u masters of %d keep a name: %s", kept,
                 DLT_CLUSTER_MASTERS, err.message);
    dlock_client_close(client);
}

/* Tries of a name at the silent server, which go on for long, and behind them one of a name at
 * another server. */
static void operations_at_others_go_on(struct dlock_client *client, const char *silent,
                                       const char *answers)
{
    struct dlock_handle *locks[TRIES + 1];
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_notice notice = {.struct_size = sizeof notice};
    struct pollfd fd = {.fd = dlock_client_fd(client), .events = POLLIN};
    enum dlock_status last = DLOCK_INTERNAL;
    int granted = 0;

    for (int i = 0; i <= TRIES; i++) {
        locks[i] = lock_of(client, i < TRIES ? silent : answers);
        if (dlock_op_start(locks[i], DLOCK_OP_LOCK, 0, &err) != DLOCK_OK)
            abort();
    }
    for (int i = 0; i <= TRIES;) {
        if (poll(&fd, 1, 60000) != 1 || dlt_notice_take(client, &notice, &err) != 1)
            break;
        if (notice.kind != DLOCK_NOTICE_DONE)
            continue;
        i++;
        if (notice.lock == locks[TRIES])
            last = notice.status;
        else
            granted += notice.status == DLOCK_OK;
    }
    (void)dlt_ok(last == DLOCK_OK && granted == 0, "C19 an operation at another server: %d",
                 (int)last);
    for (int i = 0; i <= TRIES; i++)
        dlock_free(locks[i]);
}

/* Its replica is dead, too, so that nobody takes over: the lock there is lost, the other stays. */
static void a_dead_shard_delays_no_other(void)
{
    struct dlock_client *client = client_open("&ttl=6s&op_timeout=1s");
    struct dlock_error err = DLOCK_ERROR_INIT;
    char names[3][16];
    struct dlock_handle *dead = NULL, *alive = NULL;
    int64_t until_ms = 0;

    name_at(0, 0, names[0]);
    name_at(1, 0, names[1]);
    name_at(1, NAMES, names[2]);
    dead = lock_of(client, names[0]);
    alive = lock_of(client, names[1]);
    (void)dlt_ok(takes(dead) && takes(alive), "two locks at two masters");
    dlt_redis_kill(&cluster.redis[DLT_CLUSTER_MASTERS]);
    dlt_redis_pause(&cluster.redis[0], true);
    until_ms = now_ms() + 12000;
    operations_at_others_go_on(client, names[0], names[2]);
    while (now_ms() < until_ms && dlock_state(alive) != DLOCK_STATE_LOST)
        sleep_ms(50);
    (void)dlt_ok(dlock_state(dead) == DLOCK_STATE_LOST, "C5 the lock of the dead shard is lost");
    (void)dlt_ok(dlock_state(alive) != DLOCK_STATE_LOST && dlock_remaining_ms(alive) > 0,
                 "C5 the other is renewed");
    dlt_redis_pause(&cluster.redis[0], false);
    (void)dlt_ok(dlt_redis_again(&cluster.redis[DLT_CLUSTER_MASTERS]) &&
                     dlt_cluster_whole_wait(&cluster),
                 "the cluster is whole again");
    dlt_drop(dlock_unlock(dead, &err));
    (void)dlt_ok(takes(dead), "C13 and the lock can be had again");
    dlt_drop(dlock_unlock(dead, &err));
    dlt_drop(dlock_unlock(alive, &err));
    dlock_free(dead);
    dlock_free(alive);
    dlock_client_close(client);
}

#define HELD (A_MASTER * DLT_CLUSTER_MASTERS)

/* Locks at each master, the first ones at master 0, and a waiter there. others: of another client,
 * with the same names. */
static void locks_take(struct dlock_client *client, struct dlock_handle **locks,
                       struct dlock_handle **waiter, struct dlock_client *other,
                       struct dlock_handle **others)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    char name[16];
    int taken = 0;

    for (unsigned i = 0; i < HELD; i++) {
        name_at(i / A_MASTER, (int)(i % A_MASTER) * NAMES, name);
        locks[i] = lock_of(client, name);
        others[i] = lock_of(other, name);
        taken += takes(locks[i]);
        if (i == 0)
            *waiter = lock_of(client, name);
    }
    (void)dlt_ok(taken == HELD &&
                     dlock_op_start(*waiter, DLOCK_OP_LOCK, DLOCK_FOREVER, &err) == DLOCK_OK,
                 "%d locks at all masters, and a waiter: %s", taken, err.message);
}

static void locks_drop(struct dlock_handle **locks, struct dlock_client *client)
{
    for (size_t i = 0; i < HELD; i++)
        dlock_free(locks[i]);
    dlock_client_close(client);
}

/* Nobody takes over: what is held there ends with its lease. */
static void closing_does_not_wait_for_a_dead_shard(void)
{
    struct dlock_client *client = client_open("&ttl=120s&op_timeout=1s");
    struct dlock_client *other = client_open("");
    struct dlock_handle *locks[HELD], *others[HELD], *waiter = NULL;
    struct dlock_error err = DLOCK_ERROR_INIT;
    int64_t took_ms = 0;
    int freed = 0;

    locks_take(client, locks, &waiter, other, others);
    dlt_redis_kill(&cluster.redis[DLT_CLUSTER_MASTERS]);
    dlt_redis_pause(&cluster.redis[0], true);
    took_ms = now_ms();
    dlock_client_close(client);
    took_ms = now_ms() - took_ms;
    (void)dlt_ok(dlt_took_within(took_ms, CONNECT_MS + SLACK_MS), "C8 closing is bounded: %lld ms",
                 (long long)took_ms);
    for (size_t i = A_MASTER; i < HELD; i++) /* each had 200 ms */
        freed += dlock_trylock(others[i], &err) == DLOCK_OK;
    (void)dlt_ok(freed >= A_MASTER, "and gives back what is held at the others: %d of %d", freed,
                 HELD - A_MASTER);
    dlock_free(waiter);
    locks_drop(locks, NULL);
    dlt_redis_pause(&cluster.redis[0], false);
    (void)dlt_ok(dlt_redis_again(&cluster.redis[DLT_CLUSTER_MASTERS]) &&
                     dlt_cluster_whole_wait(&cluster),
                 "the cluster is whole once more");
    locks_drop(others, other);
}

static void a_replica_takes_over(void)
{
    struct dlock_client *client = client_open("&ttl=6s");
    struct dlock_error err = DLOCK_ERROR_INIT;
    unsigned slot = dlt_cluster_slot(&cluster, "{job}");
    int master = dlt_cluster_master(&cluster, slot);
    struct dlock_handle *lock = lock_of(client, "job");

    (void)dlt_ok(takes(lock), "a client knows the master");
    dlt_drop(dlock_unlock(lock, &err));
    dlt_redis_kill(&cluster.redis[master]);
    (void)dlt_ok(takes(lock), "C13 it gets the lock from the replica");
    (void)dlt_ok(dlt_cluster_master_wait(&cluster, slot, master) >= 0, "which is a master now");
    dlt_drop(dlock_unlock(lock, &err));
    dlock_free(lock);
    dlock_client_close(client);
}

int main(void)
{
    const char *const args[] = {"--cluster-require-full-coverage", "no", NULL};

    if (!dlt_ok(dlt_cluster_start(&cluster, args), "a cluster: %s", cluster.why))
        return dlt_done();
    a_slot_moves_forth_and_back(NULL);
    a_slot_moves_forth_and_back_with_the_guard();
    all_masters_are_listed();
    names_are_kept_at_each_master();
    a_dead_shard_delays_no_other();
    closing_does_not_wait_for_a_dead_shard();
    a_replica_takes_over();
    dlt_cluster_stop(&cluster);
    return dlt_done();
}
