/* SPDX-License-Identifier: MIT */
/*
 * redlock_show SECONDS GUARD SEED
 *
 * Eight processes contend for one lock of 1 s over five real nodes, which are killed and started
 * again without their data, one to three at once. Its fencing tokens rise (C6). GUARD is the
 * restart_guard. "0" expects the checker to see two holders at once, anything else expects none
 * (C1, CRASH_SAFE). Prints TAP. A guarded run of 5 minutes or more has to have seen 50 restarts and
 * 1000 locks.
 */
#include "log.h"
#include "redis_server.h"
#include "report.h"

#include <dlock/dlock.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NODES = 5, PROCESSES = 8, RECORDS = 1 << 20 };

#define NS_PER_MS INT64_C(1000000)

/* Seen by all processes: until when each may be sure to hold it, 0 for none, to end early when
 * there is nothing left to be shown. */
struct shared {
    _Atomic int64_t until_ns[PROCESSES];
    _Atomic int meetings, stop;
};

static struct shared *shared;
static struct dlt_redis servers[NODES];
static uint64_t seed;
static char directory[] = "/tmp/dlock-show-XXXXXX";

static void sleep_ms(int64_t ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS};

    (void)nanosleep(&pause, NULL);
}

static uint64_t pick(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

static void path_of(char *path, size_t size, unsigned number)
{
    (void)snprintf(path, size, "%s/%u", directory, number);
}

/* ---- a contender ---- */

struct contender {
    unsigned number;
    struct dlt_log *log;
    struct dlock_handle *lock;
    struct dlt_record record;
};

static void note(struct contender *c, enum dlt_event event, uint16_t status, int64_t until_ns)
{
    struct dlt_record record = c->record;

    record.event = (uint8_t)event;
    record.status = status;
    record.until_ns = until_ns;
    dlt_log_write(c->log, &record);
}

/* The clock is read first: what the handle says may be true for longer, not for less. */
static void stamp(struct contender *c)
{
    struct dlt_record record = c->record;
    int64_t left_ms = 0;

    record.clock_ns = dlt_log_now_ns();
    left_ms = dlock_remaining_ms(c->lock);
    record.event = DLT_HELD_STAMP;
    record.status = left_ms > 0;
    record.until_ns = left_ms > 0 ? record.clock_ns + left_ms * NS_PER_MS : 0;
    dlt_log_write(c->log, &record);
    shared->until_ns[c->number] = record.until_ns;
}

/* Somebody else has a claim, which the history shows, too. */
static void meet(const struct contender *c)
{
    int64_t now_ns = dlt_log_now_ns();

    for (unsigned i = 0; i < PROCESSES; i++)
        shared->meetings += i != c->number && shared->until_ns[i] > now_ns;
}

static void hold(struct contender *c)
{
    int64_t end_ns = dlt_log_now_ns() + (int64_t)(1 + pick(pick(4) == 0 ? 1500 : 30)) * NS_PER_MS;

    stamp(c);
    meet(c);
    while (dlt_log_now_ns() < end_ns && dlock_state(c->lock) != DLOCK_STATE_LOST) {
        stamp(c);
        sleep_ms(5);
    }
    stamp(c);
    shared->until_ns[c->number] = 0;
}

static void contend(struct contender *c)
{
    enum dlock_status status = DLOCK_INTERNAL;
    int64_t start_ns = dlt_log_now_ns();

    c->record = (struct dlt_record){.mode = DLOCK_EXCLUSIVE};
    c->record.attempt_id = dlt_log_attempt(c->log);
    note(c, DLT_INV_LOCK, DLT_CALL_WAITS, start_ns + 5000 * NS_PER_MS);
    status = dlock_timedlock(c->lock, 5000, NULL);
    start_ns = dlt_log_now_ns();
    c->record.fence = status == DLOCK_OK ? dlock_fence(c->lock) : 0;
    note(c, DLT_RET_LOCK, (uint16_t)status,
         status == DLOCK_OK ? start_ns + dlock_remaining_ms(c->lock) * NS_PER_MS : 0);
    if (status == DLOCK_OK) {
        hold(c);
        note(c, DLT_INV_UNLOCK, 0, 0);
        status = dlock_unlock(c->lock, NULL);
        note(c, DLT_RET_UNLOCK, (uint16_t)status, 0);
    }
    sleep_ms((int64_t)pick(30));
}

static int contender_main(const char *uri, unsigned number, int64_t end_ns)
{
    struct contender c = {.number = number};
    struct dlock_client *client = NULL;
    /* Half of them never ask again whether they still hold it. */
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = 1000,
                                    .renew = number % 2 == 0 ? DLOCK_ON : DLOCK_OFF};
    char path[64];

    path_of(path, sizeof path, number);
    c.log = dlt_log_open(path, RECORDS);
    seed += number * UINT64_C(0x9E3779B97F4A7C15);
    if (c.log == NULL || dlock_client_open(uri, NULL, &client, NULL) != DLOCK_OK ||
        dlock_new(client, "show", 4, &options, &c.lock, NULL) != DLOCK_OK)
        return 1;
    while (dlt_log_now_ns() < end_ns && !shared->stop)
        contend(&c);
    dlock_free(c.lock);
    dlock_client_close(client);
    dlt_log_close(c.log);
    return 0;
}

/* ---- nodes that forget ---- */

static bool nodes_restart(struct dlt_log *log, unsigned count)
{
    unsigned first = (unsigned)pick(NODES);
    const struct dlt_record record = {.event = DLT_NEMESIS_FAULT, .name_id = DLT_ALL_NAMES};

    dlt_log_write(log, &record);
    for (unsigned i = 0; i < count; i++)
        dlt_redis_kill(&servers[(first + i) % NODES]);
    for (unsigned i = 0; i < count; i++) {
        struct dlt_redis *server = &servers[(first + i) % NODES];

        if (!dlt_redis_again(server)) {
            (void)printf("# %s\n", server->why);
            return false;
        }
    }
    return true;
}

static unsigned torment(int64_t end_ns, bool guarded, bool *fine)
{
    unsigned restarts = 0;
    char path[64];
    struct dlt_log *log = NULL;

    path_of(path, sizeof path, PROCESSES);
    log = dlt_log_open(path, 4096);
    while (log != NULL && *fine && dlt_log_now_ns() < end_ns && (guarded || shared->meetings < 2)) {
        unsigned count = !guarded || pick(2) == 0 ? 3 : 1 + (unsigned)pick(2);

        sleep_ms(guarded ? count * 1000 + (int64_t)pick(3500) : 1000 + (int64_t)pick(1500));
        *fine = nodes_restart(log, count);
        restarts += count;
    }
    sleep_ms(1000); /* what has just begun is to be seen */
    shared->stop = 1;
    *fine = *fine && log != NULL;
    if (log != NULL)
        dlt_log_close(log);
    return restarts;
}

/* ---- the whole ---- */

static const struct dlt_history *shown;
static unsigned findings;

static void finding(void *arg, const struct dlt_violation *violation)
{
    (void)arg;
    if (findings++ < 3)
        dlt_report_violation(stdout, shown, violation, 1500 * NS_PER_MS);
}

static bool history_check(struct dlt_check_figures *figures)
{
    struct dlt_history history = {0};
    struct dlt_check_options options = {
        .slack_ns = 3000 * NS_PER_MS, .complete = true, .report = finding};
    char path[64], why[512] = "no memory";
    bool fine = true;

    shown = &history;
    for (unsigned i = 0; fine && i <= PROCESSES; i++) {
        path_of(path, sizeof path, i);
        fine = dlt_log_read(path, &history, why, sizeof why) == 0;
        (void)unlink(path);
    }
    dlt_history_sort(&history);
    fine = fine && dlt_check(&history, &options, figures) == 0;
    if (!fine)
        (void)printf("# %s\n", why);
    dlt_history_fini(&history);
    return fine;
}

static bool servers_start(char *uri, size_t size, const char *guard)
{
    size_t used = (size_t)snprintf(uri, size, "redlock://");

    for (unsigned i = 0; i < NODES; i++) {
        if (!dlt_redis_start(&servers[i], NULL)) {
            (void)printf("Bail out! %s\n", servers[i].why);
            return false;
        }
        used +=
            (size_t)snprintf(uri + used, size - used, "%s%s", i > 0 ? "," : "", servers[i].address);
    }
    (void)snprintf(uri + used, size - used, "?ttl=1s&fence=on&restart_guard=%s", guard);
    return true;
}

static bool run(const char *uri, int64_t seconds, bool guarded, unsigned *restarts)
{
    int64_t end_ns = dlt_log_now_ns() + seconds * 1000 * NS_PER_MS;
    pid_t pids[PROCESSES];
    bool fine = true;

    (void)fflush(stdout);
    for (unsigned i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(contender_main(uri, i, end_ns));
        fine = fine && pids[i] > 0;
    }
    *restarts = torment(end_ns, guarded, &fine);
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status = 0;

        fine = pids[i] > 0 && waitpid(pids[i], &status, 0) == pids[i] && status == 0 && fine;
    }
    return fine;
}

/* So much happened that what was not seen means something. */
static bool is_much(int64_t seconds, bool guarded, unsigned restarts, uint64_t acquired)
{
    if (!guarded) /* that ends as soon as two have met */
        return restarts > 0 && acquired >= 2;
    return seconds >= 300 ? restarts >= 50 && acquired >= 1000 : restarts > 0 && acquired >= 10;
}

static void say(int number, bool good, const char *what)
{
    (void)printf("%sok %d - %s\n", good ? "" : "not ", number, what);
}

int main(int argc, char **argv)
{
    struct dlt_check_figures figures = {0};
    char uri[300];
    bool guarded = argc == 4 && strcmp(argv[2], "0") != 0, fine = false, right = false;
    int64_t seconds = argc == 4 ? strtoll(argv[1], NULL, 10) : 0;
    unsigned restarts = 0;

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seconds <= 0 || shared == MAP_FAILED || mkdtemp(directory) == NULL) {
        (void)fputs("usage: redlock_show SECONDS GUARD SEED\n", stderr);
        return 64;
    }
    seed = strtoull(argv[3], NULL, 10) | 1;
    (void)printf("1..2\n# seed %s\n", argv[3]);
    if (servers_start(uri, sizeof uri, argv[2])) {
        sleep_ms(guarded ? 4500 : 0); /* until they have a vote */
        fine = run(uri, seconds, guarded, &restarts) && history_check(&figures);
        dlt_report_figures(stdout, &figures);
        (void)printf("# %u restarts\n", restarts);
    }
    for (unsigned i = 0; i < NODES; i++)
        dlt_redis_stop(&servers[i]);
    (void)rmdir(directory);
    fine = fine && is_much(seconds, guarded, restarts, figures.acquired);
    say(1, fine, "there were restarts, and locks all the same");
    right = guarded ? figures.total == 0 : figures.violations[DLT_RULE_OVERLAP] > 0;
    say(2, fine && right,
        guarded ? "nodes that forget do not make two holders (C1)"
                : "without the guard they do, and the checker sees it");
    return fine && right ? 0 : 1;
}
