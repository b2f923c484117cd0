/* SPDX-License-Identifier: MIT */
#include "slots.h"
#include "strike.h"

#include <stdlib.h>
#include <sys/wait.h>

#define PAUSE_MS 4000 /* longer than a clock of whole seconds may be behind */
#define ROUNDS   3

static void command(const char *variable, const char *option)
{
    const char *line = getenv(variable);
    int status;

    DLT_CHECK(line != NULL, "no %s", option);
    status = system(line); /* NOLINT: the author of the plugin gave it */
    DLT_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s \"%s\" ended with %d", option,
              line, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static void server_stop(void)
{
    command(DLT_SLOTS_STOP, "--stop-cmd");
}

static void server_cont(void)
{
    command(DLT_SLOTS_CONT, "--cont-cmd");
}

/* Each call ends by its deadline, and says that it does not know. */
void dlt_slots_stopped_server(struct dlt_run *run)
{
    struct dlt_subject subject;
    struct dlt_side *direct = &subject.direct;

    dlt_subject_begin(&subject, run);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t call_ms = dlt_strike_short_ms(), start_ns, end_ns;
        struct dlt_attempt attempt;
        enum dlock_status status;

        DLT_OK(dlt_side_open(direct));
        dlt_attempt_begin(&attempt, run, direct, "stopped", 60000);
        server_stop();
        direct->call_ms = call_ms;
        start_ns = dlt_now_ns();
        status = dlt_side_try(direct, &attempt);
        end_ns = dlt_now_ns();
        server_cont();
        DLT_CHECK(status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE,
                  "trylock at a stopped server is %s, want UNKNOWN [TRY-4]",
                  dlt_said(direct, status));
        DLT_BETWEEN(start_ns, end_ns, call_ms + dlt_strike_slack_ms(run),
                    "trylock at a stopped server, with a deadline in %lld ms", (long long)call_ms);
        direct->call_ms = 10000;
        dlt_attempt_end(&attempt, direct, false);
        if (!dlt_side_has(direct, DLOCK_CAP_CONCURRENT))
            dlt_side_close(direct);
    }
    dlt_subject_end(&subject);
}

struct taker {
    struct dlt_side *side;
    struct dlt_attempt *attempt;
    enum dlock_status status;
    int64_t end_ns;
};

static void *take(void *arg)
{
    struct taker *taker = arg;

    taker->status = dlt_side_try(taker->side, taker->attempt);
    taker->end_ns = dlt_now_ns();
    return NULL;
}

/* Nobody else gets it before lease_ms from the moment at which the server cannot yet have executed
 * the request. */
static void lasts(struct dlt_subject *subject, int64_t from_ns, int64_t lease_ms)
{
    int64_t end_ns = from_ns + lease_ms * DLT_NS_PER_MS;

    while (dlt_now_ns() < end_ns - 50 * DLT_NS_PER_MS) {
        struct dlt_side *direct = &subject->direct;
        struct dlt_attempt other;
        enum dlock_status status;
        int64_t asked_ns;

        dlt_attempt_begin(&other, subject->run, direct, "job", 60000);
        status = dlt_side_try(direct, &other);
        asked_ns = dlt_now_ns();
        DLT_CHECK(status == DLOCK_BUSY || asked_ns >= end_ns,
                  "a lease of %lld ms, taken by a request that waited at a stopped server, is gone "
                  "after %lld ms: two holders [TRY-2]",
                  (long long)lease_ms, (long long)((asked_ns - from_ns) / DLT_NS_PER_MS));
        dlt_attempt_end(&other, direct, false);
        dlt_sleep_ms(10);
    }
}

void dlt_slots_lease_after_a_stop(struct dlt_run *run)
{
    struct dlt_subject subject;
    struct dlt_side *far = &subject.far;

    dlt_subject_begin(&subject, run);
    if (dlt_side_has(far, DLOCK_CAP_SESSION) || dlt_side_has(far, DLOCK_CAP_TETHERED))
        dlt_skip("leases live in sessions");
    for (int i = 0; i < ROUNDS; i++) {
        struct dlt_attempt attempt;
        struct taker taker = {.side = far, .attempt = &attempt};
        int64_t cont_ns;
        pthread_t thread;

        dlt_strike_recover(&subject);
        far->call_ms = 4 * PAUSE_MS;
        dlt_attempt_begin(&attempt, run, far, "job", 2000);
        server_stop();
        thread = dlt_thread(take, &taker);
        dlt_sleep_ms(PAUSE_MS);
        cont_ns = dlt_now_ns();
        server_cont();
        (void)dlt_join(thread);
        DLT_CHECK(taker.status == DLOCK_OK || taker.status == DLOCK_UNKNOWN,
                  "trylock at a server that went on is %s, want OK", dlt_said(far, taker.status));
        if (taker.status == DLOCK_OK)
            lasts(&subject, cont_ns, far->grant.lease_ms);
        dlt_strike_recover(&subject);
        (void)dlt_side_unlock(far, &attempt);
        dlt_attempt_end(&attempt, far, true);
    }
    dlt_subject_end(&subject);
}
