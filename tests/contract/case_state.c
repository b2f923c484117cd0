/* SPDX-License-Identifier: MIT */
/* Is the state of a handle right at every moment, without asking anybody? */
#include "child.h"
#include "conformance.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

void dlt_case_state_walk(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 5000);
    int64_t ttl_ms = dlt_ttl(client, 5000), start_ns = 0, left_ms = 0;
    uint64_t fence = 0;

    DLT_STATE(lock, DLOCK_STATE_FREE, "a new handle");
    DLT_CHECK(dlock_remaining_ms(lock) == 0 && dlock_fence(lock) == 0,
              "a new handle has time left or a fence, want 0");
    start_ns = dlt_now_ns();
    DLT_OK(dlock_trylock(lock, &dlt_err));
    DLT_STATE(lock, DLOCK_STATE_HELD, "after OK");
    left_ms = dlock_remaining_ms(lock);
    DLT_CHECK((double)left_ms > (double)(ttl_ms * 3 / 5) - dlt_ms_since(start_ns),
              "%" PRId64 " ms are left of %" PRId64 " %.0f ms after the call, want %" PRId64
              " less that time",
              left_ms, ttl_ms, dlt_ms_since(start_ns), ttl_ms * 3 / 5);
    fence = dlock_fence(lock);
    DLT_OK(dlock_unlock(lock, &dlt_err));
    DLT_CHECK(dlock_state(lock) == DLOCK_STATE_FREE && dlock_remaining_ms(lock) == 0,
              "the handle is not FREE, or has time left, after the unlock");
    DLT_CHECK(dlock_fence(lock) == fence, "the fence after the unlock is another one");
    dlock_free(lock);
    dlock_client_close(client);
}

void dlt_case_state_ends_with_the_lease(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lease(run, client, "x", 400);
    int64_t latest_ns = 0, last_ms = INT64_MAX;

    DLT_TAKE(lock);
    latest_ns = dlt_now_ns() + dlt_ttl(client, 400) * DLT_NS_PER_MS;
    for (;;) {
        int64_t now_ns = dlt_now_ns(), left_ms = dlock_remaining_ms(lock);
        enum dlock_state state = dlock_state(lock);

        DLT_CHECK(left_ms <= last_ms, "remaining grew from %" PRId64 " to %" PRId64 " ms", last_ms,
                  left_ms);
        last_ms = left_ms;
        if (state == DLOCK_STATE_LOST)
            break;
        DLT_CHECK(state == DLOCK_STATE_HELD, "the handle is %s, want HELD or LOST",
                  dlt_state_name(state));
        DLT_CHECK(now_ns < latest_ns, "the handle says HELD for longer than its ttl");
    }
    DLT_CHECK(dlock_remaining_ms(lock) == 0,
              "the handle is LOST and has %" PRId64 " ms left, want 0", dlock_remaining_ms(lock));
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_LOST);
    dlock_free(lock);
    dlock_client_close(client);
}

/* valid_until = t0 + ttl - margin, which is 10 % and at least 10 ms. */
void dlt_case_state_keeps_a_margin(struct dlt_run *run)
{
    static const int64_t ttls_ms[] = {100, 1000, 30000, 3600000};
    struct dlock_client *client = dlt_client(run, NULL);

    for (size_t i = 0; i < sizeof ttls_ms / sizeof ttls_ms[0]; i++) {
        int64_t ttl_ms = dlock_client_ttl_ms(client, ttls_ms[i]);
        int64_t longest_ms = ttl_ms - dlt_margin_ms(ttl_ms);
        struct dlock_handle *lock = NULL;

        if (ttl_ms == 0) /* longer than this store's longest */
            continue;
        lock = dlt_lease(run, client, "x", ttls_ms[i]);
        DLT_TAKE(lock);
        DLT_CHECK(dlock_remaining_ms(lock) <= longest_ms,
                  "ttl %" PRId64 ": %" PRId64 " ms left, at most %" PRId64 " are safe", ttl_ms,
                  dlock_remaining_ms(lock), longest_ms);
        dlock_free(lock);
    }
    dlock_client_close(client);
}

/* OK means: at least max(10 ms, a tenth) is left. Between the answer and our look there is time,
 * so that one good look of several is asked for. */
void dlt_case_state_ok_is_worth_something(struct dlt_run *run)
{
    static const int64_t ttls_ms[] = {50, 300, 30000};
    struct dlock_client *client = dlt_client(run, NULL);

    for (size_t i = 0; i < sizeof ttls_ms / sizeof ttls_ms[0]; i++) {
        int64_t ttl_ms = dlt_ttl(client, ttls_ms[i]);
        int64_t least_ms = ttl_ms / 10 > 10 ? ttl_ms / 10 : 10, best_ms = 0;

        for (int turn = 0; turn < 20 && best_ms < least_ms; turn++) {
            struct dlock_handle *lock = dlt_lease(run, client, "x", ttls_ms[i]);

            if (dlock_timedlock(lock, 2000, &dlt_err) == DLOCK_OK)
                best_ms = dlock_remaining_ms(lock);
            dlock_free(lock);
        }
        DLT_CHECK(best_ms >= least_ms, "ttl %" PRId64 ": at most %" PRId64 " ms left after OK",
                  ttl_ms, best_ms);
    }
    dlock_client_close(client);
}

static void stop_for(struct dlt_child *child, int64_t ms)
{
    dlt_sleep_ms(200);
    dlt_child_signal(child, SIGSTOP);
    dlt_sleep_ms(ms);
    dlt_child_signal(child, SIGCONT);
}

static int64_t word_number(const struct dlt_child *child, char **words)
{
    const char *word = strtok_r(NULL, " ", words);

    DLT_CHECK(word != NULL, "the answer is too short: %s", child->reply);
    return strtoll(word, NULL, 10);
}

/* With the renewer and without it: no thread of the library has run when the first look is taken.
 * Runs alone: a store may be stalled by a process that is stopped inside a transaction. */
void dlt_case_state_after_stop(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    int64_t ttl_ms = dlt_ttl(client, 700); /* it is to run out */
    struct dlt_child child;

    dlock_client_close(client);
    dlt_child_start(&child, run, NULL);
    for (int renew = 0; renew < 2; renew++) {
        char *words = NULL;
        const char *state = NULL;
        int64_t left_ms = -1, gap_ms = 0, revived = 1;

        dlt_child_want(&child, "OK", "new %d %sstop%d 700 %d", renew, run->prefix, renew, renew);
        dlt_child_want(&child, "OK", "lock %d 15000", renew);
        dlt_child_tell(&child, "watch %d %" PRId64 " 15000", renew, ttl_ms + 500);
        stop_for(&child, ttl_ms + 600);
        (void)dlt_child_hear(&child);
        state = strtok_r(child.reply, " ", &words);
        left_ms = word_number(&child, &words);
        gap_ms = word_number(&child, &words);
        revived = word_number(&child, &words);
        DLT_CHECK(gap_ms >= ttl_ms + 500, "it was not stopped: a gap of %" PRId64 " ms", gap_ms);
        DLT_CHECK(state != NULL && strcmp(state, "LOST") == 0 && left_ms == 0,
                  "renew %d: the first state after SIGCONT is %s, %" PRId64 " ms left", renew,
                  state, left_ms);
        DLT_CHECK(revived == 0, "renew %d: valid again after LOST, %" PRId64 " times", renew,
                  revived);
        dlt_child_want(&child, "LOST", "unlock %d", renew);
    }
    dlt_child_stop(&child);
}

#define END_TTL_MS 2000
#define REFUSED    42

struct counted {
    _Atomic int held;
    _Atomic uint64_t steps;
};

/* DLOCK_EXPIRE_KILL: refused where leases live in sessions. */
static enum dlock_status killing_new(const struct dlt_run *run, struct dlock_client *client,
                                     struct dlock_handle **out)
{
    struct dlock_options options = DLOCK_OPTIONS_INIT;
    struct dlt_name name = dlt_name(run, "x");

    options.ttl_ms = END_TTL_MS;
    options.on_expiry = DLOCK_EXPIRE_KILL;
    return dlock_new(client, name.text, name.len, &options, out, &dlt_err);
}

/* Holds the name and works until it is ended. */
static void work(const struct dlt_run *run, struct counted *counted)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = NULL;

    if (killing_new(run, client, &lock) == DLOCK_UNSUPPORTED)
        _exit(REFUSED);
    if (lock == NULL || dlock_timedlock(lock, 15000, &dlt_err) != DLOCK_OK)
        _exit(1);
    counted->held = 1;
    for (;;)
        counted->steps++;
}

static void stop_and_take(const struct dlt_run *run, pid_t pid, struct counted *counted)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);
    uint64_t steps = 0;
    int status = 0;

    DLT_CHECK(kill(pid, SIGSTOP) == 0 && waitpid(pid, &status, WUNTRACED) == pid,
              "it cannot be stopped");
    DLT_CHECK(WIFSTOPPED(status), "it ended while it renewed its lease");
    steps = counted->steps;
    DLT_OK(dlock_timedlock(lock, 15000, &dlt_err));
    (void)kill(pid, SIGCONT);
    DLT_CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
              "it lives, or ended by itself: status %x", (unsigned)status);
    DLT_CHECK(counted->steps == steps, "%" PRIu64 " steps after the end of its claim",
              counted->steps - steps);
    dlock_free(lock);
    dlock_client_close(client);
}

static void expect_refused(const struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = NULL;

    DLT_STATUS(killing_new(run, client, &lock), DLOCK_UNSUPPORTED);
    dlock_client_close(client);
}

/* It forks before this process opens the store: some stores refuse the child otherwise. */
void dlt_case_stopped_past_the_end(struct dlt_run *run)
{
    struct counted *counted =
        mmap(NULL, sizeof *counted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    pid_t pid;

    DLT_CHECK(counted != MAP_FAILED, "no memory");
    pid = fork();
    if (pid == 0)
        work(run, counted);
    while (counted->held == 0 && waitpid(pid, &status, WNOHANG) == 0)
        dlt_sleep_ms(5);
    if (counted->held != 0) {
        dlt_sleep_ms(END_TTL_MS / 2); /* it is renewed */
        stop_and_take(run, pid, counted);
    } else {
        DLT_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == REFUSED,
                  "the process does not get the lock");
        expect_refused(run);
    }
    (void)munmap(counted, sizeof *counted);
}
