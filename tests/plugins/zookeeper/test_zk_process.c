/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/link.c */
/*
 * test_zk_process OPENS - what the client library may do to a process, and what dlock keeps from
 * it: does a call outlast its deadline when a server stands still or a name cannot be looked up
 * [C8], does a close wait, does anybody inherit a connection or see another's [C10], is a signal
 * taken from the application, is anything left behind after many openings, and is anything written
 * to standard error, whatever fails?
 */
#include "drop.h"
#include "process_kit.h"
#include "ruler.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OVER_MS     1500 /* of a call: a busy machine. The library alone would take 4 s or more */
#define CLOSE_MS    100
#define OPEN_MS     500
#define TRY_MS      300
#define STAND_MS    3200 /* longer than two thirds of a short session */
#define LASTS_MS    5000 /* longer than a short session */
#define SETTLED_MS  10000
#define LONG_TTL    "?ttl=9s&connect_timeout=20s"
#define HALF_TTL    "?ttl=9s&connect_timeout=2s" /* each of two servers has the half */
#define SHORT_TTL   "?ttl=4s&connect_timeout=20s"
#define DOOMED_OPEN "?ttl=9s&connect_timeout=500ms"

static struct dlt_zk server;
static struct dlt_proxy way;
static struct dlock_error err = DLOCK_ERROR_INIT;

static struct dlock_client *client_open(const char *address, const char *options)
{
    struct dlock_client *client = NULL;
    char uri[192];

    (void)snprintf(uri, sizeof uri, "zk://%s/process%s", address, options);
    if (dlock_client_open(uri, NULL, &client, &err) == DLOCK_OK)
        return client;
    printf("Bail out! %s: %s\n", uri, err.message);
    exit(1);
}

static struct dlock_handle *lock_new(struct dlock_client *client, const char *name)
{
    const struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .op_timeout_ms = TRY_MS};
    struct dlock_handle *lock = NULL;

    if (dlock_new(client, name, strlen(name), &options, &lock, &err) != DLOCK_OK)
        abort();
    return lock;
}

/* ---- deadlines ---- */

static void in_time(int64_t begin_ms, int64_t most_ms, enum dlock_status status, const char *what)
{
    int64_t took_ms = process_now_ms() - begin_ms;

    (void)dlt_ok(dlt_took_within(took_ms, most_ms + OVER_MS), "C8 %s: %lld ms of %lld (%s)", what,
                 (long long)took_ms, (long long)most_ms, dlock_status_name((int)status));
}

static bool holder_ignore(void *arg, const struct dlock_holder *holder)
{
    (void)arg;
    (void)holder;
    return false;
}

/* One exchange, and one more to take it back. */
static void calls_of_a_client_whose_server_stands_still(void)
{
    struct dlock_client *client = client_open(server.members[0].address, LONG_TTL);
    struct dlock_handle *held = lock_new(client, "held"), *wanted = lock_new(client, "wanted");
    enum dlock_status status = dlock_lock(held, &err);
    int64_t begin_ms = 0;

    (void)dlt_ok(status == DLOCK_OK, "a lock is held");
    dlt_zk_pause(&server, 0, true);
    begin_ms = process_now_ms();
    status = dlock_trylock(wanted, &err);
    in_time(begin_ms, 2 * TRY_MS, status, "trylock");
    begin_ms = process_now_ms();
    status = dlock_timedlock(wanted, 700, &err);
    in_time(begin_ms, 700 + 2 * TRY_MS, status, "timedlock");
    begin_ms = process_now_ms();
    status = dlock_renew(held, 0, &err);
    in_time(begin_ms, TRY_MS, status, "renew");
    begin_ms = process_now_ms();
    status = dlock_client_inspect(client, "held", 4, holder_ignore, NULL, &err);
    in_time(begin_ms, 2000, status, "inspect");
    begin_ms = process_now_ms();
    status = dlock_unlock(held, &err);
    in_time(begin_ms, TRY_MS, status, "unlock");
    dlock_free(held);
    dlock_free(wanted);
    begin_ms = process_now_ms();
    dlock_client_close(client);
    in_time(begin_ms, CLOSE_MS, DLOCK_OK, "close");
    dlt_zk_pause(&server, 0, false);
}

static void open_in_vain(const char *address, const char *what)
{
    struct dlock_client *client = NULL;
    int64_t begin_ms = process_now_ms();
    enum dlock_status status = DLOCK_INTERNAL;
    char uri[192];

    (void)snprintf(uri, sizeof uri, "zk://%s/process" DOOMED_OPEN, address);
    status = dlock_client_open(uri, NULL, &client, &err);
    in_time(begin_ms, OPEN_MS, status, what);
    (void)dlt_ok(status == DLOCK_UNAVAILABLE || status == DLOCK_PROTOCOL, "... %s", err.message);
    dlock_client_close(client);
}

static void openings_that_fail(void)
{
    char both[160];

    dlt_zk_pause(&server, 0, true);
    open_in_vain(server.members[0].address, "open, and the server stands still");
    dlt_zk_pause(&server, 0, false);
    open_in_vain("127.0.0.1:1", "open, and nobody listens");
    open_in_vain(process_babbler(), "open, and it is no ZooKeeper");
    process_names_hang(true);
    open_in_vain("slow:2181", "open, and the name cannot be looked up");
    (void)snprintf(both, sizeof both, "slow:2181,%s", server.members[0].address);
    dlock_client_close(client_open(both, HALF_TTL));
    (void)dlt_ok(true, "OPN-4 one of two names that cannot be looked up does no harm");
    process_names_hang(false);
}

/* ---- close ---- */

typedef void fault(bool begin);

static void nothing(bool begin)
{
    (void)begin;
}

static void stand_still(bool begin)
{
    dlt_zk_pause(&server, 0, begin);
}

static void swallow(bool begin)
{
    if (!dlt_proxy_tell(&way, begin ? "blackhole both" : "kill rst"))
        abort();
    if (!begin && !dlt_proxy_tell(&way, "pass"))
        abort();
}

static void die(bool begin)
{
    if (begin)
        dlt_zk_kill(&server, 0);
    else if (!dlt_zk_again(&server, 0))
        abort();
}

/* The quickest of a few: the machine does other things, too. */
static void close_while(fault *happens, int closes, const char *what)
{
    int64_t least_ms = INT64_MAX;

    for (int i = 0; i < closes; i++) {
        struct dlock_client *client = client_open(way.address, LONG_TTL);
        struct dlock_handle *lock = lock_new(client, "closing");
        int64_t begin_ms = 0;

        (void)!dlock_trylock(lock, &err);
        happens(true);
        dlock_free(lock); /* it is unlocked, in a time of its own */
        begin_ms = process_now_ms();
        dlock_client_close(client);
        begin_ms = process_now_ms() - begin_ms;
        least_ms = begin_ms < least_ms ? begin_ms : least_ms;
        happens(false);
    }
    (void)dlt_ok(least_ms <= CLOSE_MS, "CLS-2 close, %s: %lld ms", what, (long long)least_ms);
}

/* ---- what others see ---- */

static void descriptors_and_signals(const char *when)
{
    (void)dlt_ok(process_inherits_nothing(), "C10 %s: no descriptor but with close-on-exec", when);
    (void)dlt_ok(process_exec_is_alone(), "C10 %s: a program that is started has no connection",
                 when);
    (void)dlt_ok(process_signals_are_ours(), "C10 %s: no thread of the library takes signals",
                 when);
}

static void forks(void)
{
    struct dlock_client *client = client_open(server.members[0].address, SHORT_TTL);
    struct dlock_handle *lock = lock_new(client, "forked");

    (void)dlt_ok(dlock_lock(lock, &err) == DLOCK_OK, "a lock is held");
    descriptors_and_signals("open");
    (void)dlt_ok(process_child_closes(client, lock), "CLS-1 a child closes without a word");
    (void)dlt_ok(dlock_renew(lock, 0, &err) == DLOCK_OK, "C10 its parent renews: %s", err.message);
    rest_ms(LASTS_MS);
    (void)dlt_ok(dlock_remaining_ms(lock) > 0 && dlock_unlock(lock, &err) == DLOCK_OK,
                 "C10 and keeps its session");
    dlock_free(lock);
    dlock_client_close(client);
    process_sockets_slow(true);
    client = client_open(server.members[0].address, SHORT_TTL);
    (void)dlt_ok(process_sockets_slow(false),
                 "C10 nobody forks while a socket is not close-on-exec");
    dlock_client_close(client);
}

/* ---- faults ---- */

static void cut(bool begin)
{
    if (begin && !dlt_proxy_tell(&way, "kill rst"))
        abort();
}

static void cut_inside(bool begin)
{
    if (!dlt_proxy_tell(&way, begin ? "cut s2c 7 rst" : "pass"))
        abort();
}

static void expire(bool begin)
{
    unsigned long long id = 0;
    const char *at = strstr(dlt_zk_word(&server.members[0], "dump"), "\n0x");

    if (begin &&
        (at == NULL || sscanf(at, "\n0x%llx:", &id) != 1 || !dlt_zk_expire(&server, (int64_t)id)))
        abort();
}

static bool lock_again(struct dlock_handle *lock)
{
    int64_t until_ms = process_now_ms() + SETTLED_MS;
    enum dlock_status status = DLOCK_INTERNAL;

    if (dlock_state(lock) != DLOCK_STATE_FREE)
        dlt_drop(dlock_unlock(lock, &err));
    do
        status = dlock_timedlock(lock, 1000, &err);
    while (status != DLOCK_OK && process_now_ms() < until_ms);
    return status == DLOCK_OK;
}

static void faults(void)
{
    static const struct {
        const char *what;
        fault *happens;
        int64_t ms;
    } list[] = {
        {"the server stands still", stand_still, STAND_MS},
        {"connections are cut", cut, 50},
        {"one is cut inside an answer", cut_inside, STAND_MS},
        {"bytes are swallowed", swallow, STAND_MS},
        {"the session is ended", expire, 50},
        {"the server dies", die, 50},
    };
    struct dlock_client *client = client_open(way.address, SHORT_TTL);
    struct dlock_handle *lock = lock_new(client, "faults");

    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (!lock_again(lock))
            abort();
        list[i].happens(true);
        rest_ms(list[i].ms);
        (void)!dlock_renew(lock, 0, &err);
        list[i].happens(false);
        (void)dlt_ok(lock_again(lock), "C13 %s: a lock is had again: %s", list[i].what,
                     err.message);
    }
    descriptors_and_signals("after faults");
    dlock_free(lock);
    dlock_client_close(client);
}

/* ---- again and again ---- */

static int64_t sessions(void)
{
    return dlt_zk_number(&server.members[0], "zk_global_sessions");
}

static bool settled(struct process_usage before, int64_t sessions_before)
{
    int64_t until_ms = process_now_ms() + SETTLED_MS;

    while (process_now_ms() < until_ms) {
        struct process_usage now = process_usage_now();

        if (now.descriptors <= before.descriptors && now.threads <= before.threads &&
            sessions() <= sessions_before)
            return true;
        rest_ms(20);
    }
    return false;
}

static void openings(long count)
{
    struct process_usage before, after;
    int64_t sessions_before = 0;
    bool good = true;

    dlock_client_close(client_open(server.members[0].address, LONG_TTL));
    rest_ms(200);
    before = process_usage_now();
    sessions_before = sessions();
    for (long i = 0; i < count; i++) {
        struct dlock_client *client = client_open(server.members[0].address, LONG_TTL);
        struct dlock_handle *lock = lock_new(client, "opened");

        good &= dlock_lock(lock, &err) == DLOCK_OK && dlock_unlock(lock, &err) == DLOCK_OK;
        dlock_free(lock);
        dlock_client_close(client);
    }
    (void)dlt_ok(good, "%ld clients, one after the other, have the name: %s", count, err.message);
    good = settled(before, sessions_before);
    after = process_usage_now();
    (void)dlt_ok(good, "C10 nothing is left of them: %+d descriptors, %+d threads, %+lld sessions",
                 after.descriptors - before.descriptors, after.threads - before.threads,
                 (long long)(sessions() - sessions_before));
}

static void run(void *arg)
{
    if (!dlt_zk_start(&server, NULL)) {
        printf("Bail out! %s\n", server.why);
        exit(1);
    }
    if (!dlt_proxy_start(&way, server.members[0].address, "zookeeper", NULL))
        abort();
    forks();
    openings(*(const long *)arg);
    calls_of_a_client_whose_server_stands_still();
    openings_that_fail();
    close_while(nothing, 5, "and all is well");
    close_while(stand_still, 3, "and the server stands still");
    close_while(swallow, 3, "and bytes are swallowed");
    close_while(die, 1, "and the server is dead");
    faults();
    (void)dlt_proxy_stop(&way);
    dlt_zk_stop(&server);
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 200;
    bool ended = process_run_silently(run, &count);

    (void)dlt_ok(ended, "nothing is written to standard error, whatever happened");
    return dlt_done();
}
