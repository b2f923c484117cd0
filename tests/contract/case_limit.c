/* SPDX-License-Identifier: MIT */
/* Semaphores: so many holders at once and no more, each with a permit of its own. */
#include "child.h"
#include "conformance.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#define LIMIT 3

static struct dlock_handle *semaphore(const struct dlt_run *run, struct dlock_client *client,
                                      int64_t limit)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .op_timeout_ms = dlt_op_timeout_ms(run),
                                    .limit = limit};

    return dlt_lock_with(run, client, "x", &options);
}

static void want_permit(const struct dlock_handle *lock, uint32_t want)
{
    DLT_CHECK(dlock_permit(lock) == want, "the permit is %u, want %u", dlock_permit(lock), want);
}

struct seen {
    unsigned holders, permits; /* a bit each */
};

static bool seen_add(void *arg, const struct dlock_holder *holder)
{
    struct seen *seen = arg;

    DLT_CHECK(holder->limit == LIMIT, "inspect shows a limit of %u", holder->limit);
    DLT_CHECK(holder->permit < LIMIT && (seen->permits & 1u << holder->permit) == 0,
              "inspect shows permit %u, beyond the limit or twice", holder->permit);
    DLT_CHECK(!holder->kept && holder->mode == DLOCK_EXCLUSIVE,
              "inspect shows a permit that is kept, or shared");
    seen->holders++;
    seen->permits |= 1u << holder->permit;
    return false;
}

static void want_seen(const struct dlt_run *run, struct dlock_client *client, unsigned permits)
{
    struct dlt_name name = dlt_name(run, "x");
    struct seen seen = {0};

    if (!dlt_can_inspect(client))
        return;
    DLT_OK(dlock_client_inspect(client, name.text, name.len, seen_add, &seen, &dlt_err));
    DLT_CHECK(seen.permits == permits, "inspect shows permits %#x, want %#x", seen.permits,
              permits);
}

void dlt_case_limit_permits(struct dlt_run *run)
{
    struct dlock_client *clients[LIMIT + 1];
    struct dlock_handle *locks[LIMIT + 1];
    struct dlt_name name = dlt_name(run, "x");
    uint64_t fence = 0;

    for (int i = 0; i <= LIMIT; i++) {
        clients[i] = dlt_client(run, NULL);
        locks[i] = semaphore(run, clients[i], LIMIT);
    }
    for (uint32_t i = 0; i < LIMIT; i++) {
        DLT_OK(dlock_trylock(locks[i], &dlt_err));
        want_permit(locks[i], i);
        DLT_CHECK((dlock_client_caps(clients[0]) & DLOCK_CAP_FENCE) == 0 ||
                      dlock_fence(locks[i]) > fence,
                  "fence %" PRIu64 " after %" PRIu64, dlock_fence(locks[i]), fence);
        fence = dlock_fence(locks[i]);
    }
    DLT_STATUS(dlock_trylock(locks[LIMIT], &dlt_err), DLOCK_BUSY);
    dlt_times_out(locks[LIMIT], 200);
    if ((dlock_client_caps(clients[0]) & DLOCK_CAP_QUEUE) != 0 && dlt_can_inspect(clients[0]))
        dlt_waiters_await(clients[0], &name, 0, 0); /* it may leave the queue late */
    want_seen(run, clients[0], 7);
    for (int i = 0; i < LIMIT; i++)
        DLT_OK(dlock_renew(locks[i], 0, &dlt_err));
    DLT_OK(dlock_unlock(locks[1], &dlt_err));
    want_seen(run, clients[0], 5);
    DLT_OK(dlock_timedlock(locks[LIMIT], 10000, &dlt_err));
    want_permit(locks[LIMIT], 1);
    DLT_STATUS(dlock_trylock(locks[1], &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_unlock(locks[2], &dlt_err));
    DLT_OK(dlock_unlock(locks[0], &dlt_err));
    DLT_OK(dlock_trylock(locks[2], &dlt_err));
    want_permit(locks[2], 0);
    DLT_OK(dlock_renew(locks[2], 0, &dlt_err));
    want_permit(locks[2], 0);
    DLT_OK(dlock_unlock(locks[2], &dlt_err));
    DLT_OK(dlock_unlock(locks[LIMIT], &dlt_err));
    want_seen(run, clients[0], 0);
    for (int i = 0; i <= LIMIT; i++) {
        dlock_free(locks[i]);
        dlock_client_close(clients[i]);
    }
}

#define MANY 70

struct many_seen {
    unsigned holders;
    unsigned of_permit[MANY];
};

static bool many_add(void *arg, const struct dlock_holder *holder)
{
    struct many_seen *seen = arg;

    DLT_CHECK(holder->limit == MANY && holder->permit < MANY, "permit %u of %u is shown",
              holder->permit, holder->limit);
    DLT_CHECK(holder->waiters == 0 || holder->waiters == UINT32_MAX, "%u waiters are shown",
              holder->waiters);
    seen->holders++;
    seen->of_permit[holder->permit]++;
    return false;
}

static void want_many(const struct many_seen *seen, const char *call)
{
    DLT_CHECK(seen->holders == MANY, "%s shows %u holders of %d", call, seen->holders, MANY);
    for (int i = 0; i < MANY; i++)
        DLT_CHECK(seen->of_permit[i] == 1, "%s shows permit %d %u times", call, i,
                  seen->of_permit[i]);
}

void dlt_case_limit_of_many(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlt_name name = dlt_name(run, "x");
    struct many_seen inspected = {0}, listed = {0};
    struct dlock_handle *locks[MANY];

    for (int i = 0; i < MANY; i++) {
        locks[i] = semaphore(run, client, MANY);
        DLT_OK(dlock_trylock(locks[i], &dlt_err));
    }
    if (dlt_can_inspect(client)) {
        DLT_OK(dlock_client_inspect(client, name.text, name.len, many_add, &inspected, &dlt_err));
        want_many(&inspected, "inspect");
        DLT_OK(dlock_client_list(client, name.text, name.len, many_add, &listed, &dlt_err));
        want_many(&listed, "list");
    }
    for (int i = 0; i < MANY; i++) {
        DLT_OK(dlock_unlock(locks[i], &dlt_err));
        dlock_free(locks[i]);
    }
    want_seen(run, client, 0);
    dlock_client_close(client);
}

static void want_config(struct dlock_handle *lock, const char *one, const char *other)
{
    DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_CONFIG);
    DLT_CHECK(strstr(dlt_err.message, one) != NULL && strstr(dlt_err.message, other) != NULL,
              "the text does not have %s and %s: %s", one, other, dlt_err.message);
    DLT_STATUS(dlock_timedlock(lock, 5000, &dlt_err), DLOCK_CONFIG);
}

void dlt_case_limit_is_one_number(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *three = semaphore(run, client, 3), *more = semaphore(run, client, 3);
    struct dlock_handle *five = semaphore(run, other, 5), *lock = semaphore(run, other, 0);
    struct dlock_handle *near = semaphore(run, client, 1);

    DLT_OK(dlock_trylock(three, &dlt_err));
    DLT_OK(dlock_trylock(more, &dlt_err));
    want_config(five, " 3 ", " 5;");
    want_config(lock, " 3 ", " 1;");
    want_config(near, " 3 ", " 1;");
    if ((dlock_client_caps(other) & DLOCK_CAP_RWLOCK) != 0)
        DLT_STATUS(dlock_tryrdlock(lock, &dlt_err), DLOCK_CONFIG);
    DLT_OK(dlock_unlock(three, &dlt_err));
    want_config(five, " 3 ", " 5;");
    DLT_OK(dlock_unlock(more, &dlt_err));
    DLT_OK(dlock_trylock(five, &dlt_err));
    want_config(three, " 5 ", " 3;");
    DLT_OK(dlock_unlock(five, &dlt_err));
    DLT_OK(dlock_trylock(lock, &dlt_err));
    want_config(three, " 1 ", " 3;");
    DLT_STATUS(dlock_trylock(near, &dlt_err), DLOCK_BUSY);
    DLT_OK(dlock_unlock(lock, &dlt_err));
    if ((dlock_client_caps(other) & DLOCK_CAP_RWLOCK) != 0) {
        DLT_OK(dlock_tryrdlock(lock, &dlt_err));
        want_config(three, " 1 ", " 3;");
        DLT_OK(dlock_unlock(lock, &dlt_err));
    }
    DLT_OK(dlock_trylock(three, &dlt_err));
    dlock_free(three);
    dlock_free(more);
    dlock_free(five);
    dlock_free(lock);
    dlock_free(near);
    dlock_client_close(client);
    dlock_client_close(other);
}

#define CLIENTS 3
#define THREADS 9
#define TURNS   12

struct race {
    const struct dlt_run *run;
    struct dlock_client *clients[CLIENTS];
    _Atomic int inside, next, full;
    _Atomic int users[LIMIT];
};

static void *race_member(void *arg)
{
    struct race *race = arg;
    int number = atomic_fetch_add(&race->next, 1);
    struct dlock_handle *lock = semaphore(race->run, race->clients[number % CLIENTS], LIMIT);

    for (int i = 0; i < TURNS; i++) {
        uint32_t permit = 0;
        int inside = 0;

        DLT_OK(dlock_timedlock(lock, 50000, &dlt_err));
        permit = dlock_permit(lock);
        inside = atomic_fetch_add(&race->inside, 1) + 1;
        DLT_CHECK(inside <= LIMIT, "%d hold a semaphore of %d", inside, LIMIT);
        if (inside == LIMIT)
            atomic_fetch_add(&race->full, 1);
        DLT_CHECK(permit < LIMIT && atomic_fetch_add(&race->users[permit], 1) == 0,
                  "permit %u is held twice, or is beyond the limit", permit);
        dlt_sleep_ms(number % 4);
        for (int k = 0; k < 2000 && atomic_load(&race->full) == 0; k++)
            dlt_sleep_ms(1); /* the first ones stay until the semaphore is full once */
        atomic_fetch_sub(&race->users[permit], 1);
        atomic_fetch_sub(&race->inside, 1);
        DLT_OK(dlock_unlock(lock, &dlt_err));
    }
    dlock_free(lock);
    return NULL;
}

void dlt_case_limit_race(struct dlt_run *run)
{
    struct race race = {.run = run};
    pthread_t threads[THREADS];

    for (int i = 0; i < CLIENTS; i++)
        race.clients[i] = dlt_client(run, NULL);
    for (int i = 0; i < THREADS; i++)
        threads[i] = dlt_thread(race_member, &race);
    for (int i = 0; i < THREADS; i++)
        (void)dlt_join(threads[i]);
    DLT_CHECK(race.full > 0, "the semaphore was never full: the race shows nothing");
    want_seen(run, race.clients[0], 0);
    for (int i = 0; i < CLIENTS; i++)
        dlock_client_close(race.clients[i]);
}

#define LINE 7

/* All permits are taken; then the line goes on one by one. */
void dlt_case_limit_is_fifo(struct dlt_run *run)
{
    struct dlt_text lease = dlt_waiter_lease(run, 30000);
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_handle *holders[LIMIT], *late = semaphore(run, client, LIMIT);
    struct dlt_child parties[LINE];
    int64_t last_ns = 0;

    for (int i = 0; i < LIMIT; i++) {
        holders[i] = semaphore(run, client, LIMIT);
        DLT_OK(dlock_trylock(holders[i], &dlt_err));
    }
    for (uint32_t i = 0; i < LINE; i++) {
        dlt_party_start(&parties[i], run, lease.text);
        dlt_child_want(&parties[i], "OK", "semaphore 0 %sx 30000 %d", run->prefix, LIMIT);
        dlt_child_want(&parties[i], "OK", "wait 0 x 60000 0");
        dlt_waiters_await(client, &name, i + 1, i + 1);
    }
    DLT_OK(dlock_unlock(holders[1], &dlt_err));
    for (int i = 0; i < LINE; i++) {
        struct dlt_waited waited = dlt_child_waited(&parties[i], "OK");

        DLT_CHECK(waited.done_ns > last_ns, "waiter %d got it before waiter %d", i, i - 1);
        last_ns = waited.done_ns;
    }
    DLT_OK(dlock_timedlock(late, 10000, &dlt_err));
    want_permit(late, 1);
    for (int i = 0; i < LINE; i++)
        dlt_child_stop(&parties[i]);
    dlock_free(late);
    for (int i = 0; i < LIMIT; i++)
        dlock_free(holders[i]);
    dlock_client_close(client);
}

void dlt_case_limit_with_the_dead(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *first = semaphore(run, client, 2), *second = semaphore(run, client, 2);
    int64_t start_ns = 0, ttl_ms = dlt_kept_ttl_ms(run);
    struct dlt_child dead;

    dlt_child_start(&dead, run, NULL);
    dlt_child_want(&dead, "OK", "semaphore 0 %sx %" PRId64 " 2", run->prefix, ttl_ms);
    dlt_child_want(&dead, "OK", "lock 0 10000");
    DLT_OK(dlock_trylock(first, &dlt_err));
    want_permit(first, 1);
    start_ns = dlt_now_ns();
    dlt_child_kill(&dead);
    DLT_OK(dlock_timedlock(second, 30000, &dlt_err));
    want_permit(second, 0);
    DLT_WITHIN(start_ns, dlt_death_ms(run, client, ttl_ms + 3000) + 1500 + run->slack_ms,
               "the permit of the dead came back");
    DLT_STATE(first, DLOCK_STATE_HELD, "the other permit");
    DLT_OK(dlock_renew(first, 0, &dlt_err));
    want_permit(first, 1);
    dlock_free(first);
    dlock_free(second);
    dlock_client_close(client);
}

void dlt_case_limit_or_a_refusal(struct dlt_run *run)
{
    static const int64_t bad[] = {-1, DLOCK_LIMIT_MAX + 1, INT64_MAX};
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_options options = {.struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS};
    struct dlock_handle *lock = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        options.limit = bad[i];
        DLT_STATUS(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err),
                   DLOCK_INVALID);
    }
    options.limit = 1;
    DLT_OK(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err));
    DLT_OK(dlock_trylock(lock, &dlt_err));
    want_permit(lock, 0);
    dlock_free(lock);
    options.limit = 2;
    if ((dlock_client_caps(client) & DLOCK_CAP_LIMIT) == 0) {
        DLT_STATUS(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err),
                   DLOCK_UNSUPPORTED);
    } else {
        DLT_OK(dlock_new(client, name.text, name.len, &options, &lock, &dlt_err));
        DLT_STATUS(dlock_tryrdlock(lock, &dlt_err), DLOCK_INVALID);
        DLT_OK(dlock_trylock(lock, &dlt_err));
        if ((dlock_client_caps(client) & DLOCK_CAP_DOWNGRADE) != 0)
            DLT_STATUS(dlock_downgrade(lock, &dlt_err), DLOCK_INVALID);
        dlock_free(lock);
    }
    dlock_client_close(client);
}
