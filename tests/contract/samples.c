/* SPDX-License-Identifier: MIT */
/* Cases that end in each way a case can end: for test_runner.sh, which asks whether the runner
 * sees it. */
#include "conformance.h"

#include <stdlib.h>
#include <unistd.h>

static void passes(struct dlt_run *run)
{
    (void)puts("not ok 1 - this is output of a case");
    DLT_CHECK(run->prefix[0] != '\0', "no prefix");
}

static void fails(struct dlt_run *run)
{
    DLT_CHECK(run == NULL, "a # in the reason");
}

static void answers_wrong(struct dlt_run *run)
{
    struct dlock_client *client = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lock(run, client, "x", 0);

    DLT_OK(dlock_unlock(lock, &dlt_err));
}

static void skips(struct dlt_run *run)
{
    (void)run;
    dlt_skip("no # reason");
}

static void hangs(struct dlt_run *run)
{
    (void)run;
    (void)puts("this is where it hangs");
    (void)fflush(stdout);
    if (fork() == 0)
        for (;;)
            (void)pause();
    for (;;)
        (void)pause();
}

static void crashes(struct dlt_run *run)
{
    (void)run;
    abort();
}

static void leaves_early(struct dlt_run *run)
{
    (void)run;
    _exit(3);
}

/* The machine was too slow to judge a bound, each time. */
static void is_never_judged(struct dlt_run *run)
{
    (void)run;
    (void)puts("took 900 ms, of which the machine took 700");
    (void)fflush(stdout);
    _exit(DLT_EXIT_VOID);
}

static const struct dlt_case cases[] = {
    {"passes", "C1", 0, 0, 0, passes, "It passes."},
    {"fails", "C2", 0, 0, 0, fails, "It does not fail."},
    {"answers_wrong", "C2 C3", 0, 0, 0, answers_wrong, "Unlock answers OK."},
    {"skips", "C4", 0, 0, 0, skips, "It is skipped."},
    {"hangs", "C5", 0, 0, 1, hangs, "It ends."},
    {"crashes", "C6", 0, 0, 0, crashes, "It does not crash."},
    {"leaves_early", "C7", 0, 0, 0, leaves_early, "It returns."},
    {"needs_much", "C8", DLOCK_CAP_SESSION | DLOCK_CAP_FENCE, 0, 0, passes, "It passes."},
    {"needs_processes", "C8 C9", 0, DLT_PROCESSES, 0, passes, "It passes."},
    {"is_never_judged", "C9", 0, 0, 0, is_never_judged, "It is in time."},
    {"alone", "C10", 0, DLT_SERIAL, 0, passes, "It passes."},
};

int main(int argc, char **argv)
{
    static const struct dlt_table table = {.cases = cases, .count = sizeof cases / sizeof cases[0]};

    return dlt_main(&table, argc, argv);
}
