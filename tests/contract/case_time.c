/* SPDX-License-Identifier: MIT */
/* Are deadlines kept? A call may never return before its time. How late it is depends on the
 * machine, too: the best of a few attempts has to be within the slack, 100 ms unless --slack says
 * otherwise, by the ruler. */
#include "conformance.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

#define ATTEMPTS 10

/* Somebody else holds the name. A look that got no answer in time, as on a busy machine, may say
 * so, and counts as one of the attempts. */
static void timeout_check(const struct dlt_run *run, struct dlock_handle *lock, int64_t timeout_ms,
                          enum dlock_status want)
{
    int64_t most_ns = (timeout_ms + run->slack_ms) * DLT_NS_PER_MS;
    struct dlt_best best = {0};

    for (int i = 0; i < ATTEMPTS && (i == 0 || best.end_ns - best.begin_ns > most_ns); i++) {
        int64_t start_ns = dlt_now_ns();
        enum dlock_status status = dlock_timedlock(lock, timeout_ms, &dlt_err);
        int64_t end_ns = dlt_now_ns();

        if (want == DLOCK_TIMEOUT && status != want && dlt_ran_out(status))
            continue;
        DLT_STATUS(status, want);
        DLT_CHECK(end_ns - start_ns >= timeout_ms * DLT_NS_PER_MS,
                  "%" PRId64 " ms were over after %.1f", timeout_ms,
                  (double)(end_ns - start_ns) / 1e6);
        dlt_best_take(&best, start_ns, end_ns);
    }
    DLT_BETWEEN(best.begin_ns, best.end_ns, timeout_ms + run->slack_ms,
                "a wait of %" PRId64 " ms, the best of %d", timeout_ms, ATTEMPTS);
}

void dlt_case_time_of_a_wait(struct dlt_run *run)
{
    static const int64_t timeouts_ms[] = {0, 1, 250, 1500};
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, NULL);
    struct dlock_handle *holder = dlt_lock(run, client, "x", 0);
    struct dlock_handle *near = dlt_lock(run, client, "x", 0), *far = dlt_lock(run, other, "x", 0);

    DLT_OK(dlock_trylock(holder, &dlt_err));
    for (size_t i = 0; i < sizeof timeouts_ms / sizeof timeouts_ms[0]; i++) {
        /* 0 is one attempt, as trylock. */
        enum dlock_status want = timeouts_ms[i] == 0 ? DLOCK_BUSY : DLOCK_TIMEOUT;

        timeout_check(run, near, timeouts_ms[i], want);
        timeout_check(run, far, timeouts_ms[i], want);
    }
    DLT_OK(dlock_unlock(holder, &dlt_err));
    /* A wait whose end the store did not confirm may have left an entry for a waiter_lease. */
    DLT_OK(dlock_timedlock(far, 10000, &dlt_err));
    dlock_free(holder);
    dlock_free(near);
    dlock_free(far);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* Somebody else holds the name; it is waited for so long. */
static void options_check(struct dlock_handle *lock, double ms)
{
    int64_t start_ns = dlt_now_ns();
    enum dlock_status status = dlock_lock(lock, &dlt_err);
    double took = dlt_ms_since(start_ns);

    if (!dlt_ran_out(status))
        DLT_STATUS(status, DLOCK_TIMEOUT);
    DLT_CHECK(status != DLOCK_TIMEOUT || took >= ms, "%.0f ms took %.1f", ms, took);
}

/* dlock_lock waits as its options say; the client's defaults count when they say nothing. A default
 * wait bounds opening, too: a lazy client opens even if a connection takes longer. */
void dlt_case_time_of_the_options(struct dlt_run *run)
{
    struct dlock_client *other = dlt_client(run, NULL),
                        *client = dlt_client(run, "open=lazy&wait=200ms");
    struct dlock_handle *holder = dlt_lock(run, other, "x", 0),
                        *by_default = dlt_lock(run, client, "x", 0);
    struct dlock_options options = {.struct_size = sizeof options, .wait_ms = 400};
    struct dlock_handle *by_option = dlt_lock_with(run, client, "x", &options);
    struct dlock_handle *just_tries = NULL;

    options.wait_ms = 0;
    just_tries = dlt_lock_with(run, client, "x", &options);
    DLT_OK(dlock_trylock(holder, &dlt_err));
    options_check(by_default, 200);
    options_check(by_option, 400);
    DLT_STATUS(dlock_lock(just_tries, &dlt_err), DLOCK_BUSY);
    dlock_free(holder);
    dlock_free(by_default);
    dlock_free(by_option);
    dlock_free(just_tries);
    dlock_client_close(client);
    dlock_client_close(other);
}

static _Atomic int signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

static void storm_start(void)
{
    struct sigaction action = {.sa_handler = count_signal}; /* no SA_RESTART */
    struct itimerval every = {{0, 2000}, {0, 2000}};

    DLT_CHECK(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    DLT_CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0, "setitimer");
}

static void storm_stop(void)
{
    struct itimerval never = {{0, 0}, {0, 0}};

    DLT_CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0, "setitimer");
}

/* EINTR makes a wait neither shorter nor longer, and no call fails by it, opening included. */
void dlt_case_time_in_a_signal_storm(struct dlt_run *run)
{
    struct dlock_client *client = NULL;
    struct dlock_handle *holder = NULL, *lock = NULL;
    int before = 0;

    storm_start();
    client = dlt_client(run, NULL);
    holder = dlt_lock(run, client, "x", 0);
    lock = dlt_lock(run, client, "x", 0);
    for (int i = 0; i < 100; i++) {
        DLT_OK(dlock_trylock(holder, &dlt_err));
        DLT_STATUS(dlock_trylock(lock, &dlt_err), DLOCK_BUSY);
        DLT_OK(dlock_renew(holder, 0, &dlt_err));
        DLT_OK(dlock_unlock(holder, &dlt_err));
    }
    DLT_OK(dlock_trylock(holder, &dlt_err));
    before = signals;
    for (int i = 0; i < ATTEMPTS && signals <= before + 20; i++)
        timeout_check(run, lock, 400, DLOCK_TIMEOUT);
    DLT_CHECK(signals > before + 20, "no storm: %d signals", signals - before);
    dlock_free(lock);
    dlock_free(holder);
    dlock_client_close(client);
    storm_stop();
}
