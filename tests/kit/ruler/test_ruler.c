/* SPDX-License-Identifier: MIT */
/* Does the ruler call late what is late, and nothing that a slow machine made late? */
#include "ruler.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)

static void sleep_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};

    while (nanosleep(&left, &left) != 0)
        continue;
}

TestSuite(ruler, .init = dlt_ruler_start);

Test(ruler, what_the_machine_took_does_not_count)
{
    cr_assert_eq(dlt_ruling(100, 0, 100), DLT_IN_TIME);
    cr_assert_eq(dlt_ruling(101, 0, 100), DLT_LATE);
    cr_assert_eq(dlt_ruling(150, 50, 100), DLT_IN_TIME);
    cr_assert_eq(dlt_ruling(151, 50, 100), DLT_LATE);
}

Test(ruler, what_the_machine_took)
{
    cr_assert_eq(dlt_ruler_stolen(3, 0, 0), 3, "late once");
    cr_assert_eq(dlt_ruler_stolen(300, 900, 0), 900, "stopped several times");
    cr_assert_eq(dlt_ruler_stolen(30, 0, 500), 500, "others waited for processors");
    cr_assert_eq(dlt_ruler_stolen(10, 0, 5000), 200, "and this program hardly did");
}

Test(ruler, a_machine_that_took_more_than_the_bound_makes_it_void)
{
    cr_assert_eq(dlt_ruling(200, 100, 100), DLT_IN_TIME);
    cr_assert_eq(dlt_ruling(201, 101, 100), DLT_VOID);
    cr_assert_eq(dlt_ruling(202, 101, 100), DLT_LATE, "more than a stall");
    cr_assert_eq(dlt_ruling(90, 500, 100), DLT_IN_TIME, "in time all the same");
}

/* A call that sleeps for longer than its bound. On a busy machine the ruler may say that the
 * machine took that time. */
Test(ruler, a_late_answer_is_late)
{
    struct dlt_measure measure;
    int64_t begin_ns = dlt_ruler_now_ns();
    enum dlt_ruling ruling;

    sleep_ms(500);
    ruling = dlt_ruler_judge(begin_ns, dlt_ruler_now_ns(), 100, &measure);
    cr_assert_geq(measure.took_ms, 500);
    cr_assert(ruling == DLT_LATE || measure.stolen_ms > 350, "%s", measure.text);
}

/* Whoever is stopped judges first of all when it goes on: the ruler waits until the sampler has
 * gone on, too. */
static void stopped_amid_a_call(int to_parent)
{
    struct dlt_measure measure;
    int64_t begin_ns = 0, end_ns = 0;
    char ruling = 0;

    if (setpgid(0, 0) != 0)
        _exit(3);
    dlt_ruler_start();
    begin_ns = dlt_ruler_now_ns();
    sleep_ms(20);
    (void)kill(0, SIGSTOP);
    end_ns = dlt_ruler_now_ns();
    ruling = (char)dlt_ruler_judge(begin_ns, end_ns, 200, &measure);
    if (measure.took_ms < 600 || write(to_parent, &ruling, 1) != 1)
        _exit(2);
    _exit(0);
}

Test(ruler, a_group_that_was_stopped_is_not_late)
{
    int fds[2], status = 0;
    char ruling = 0;
    pid_t child;

    cr_assert_eq(pipe(fds), 0);
    child = fork();
    cr_assert_geq(child, 0);
    if (child == 0)
        stopped_amid_a_call(fds[1]);
    cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
    cr_assert(WIFSTOPPED(status));
    sleep_ms(600);
    cr_assert_eq(kill(-child, SIGCONT), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0, "%#x", (unsigned)status);
    cr_assert_eq(read(fds[0], &ruling, 1), 1);
    cr_assert_eq(ruling, DLT_VOID);
}

/* Its group has a stopped process, and nobody outside: the kernel would send SIGHUP when a starter
 * that has gone to another group ends, if its sampler had stayed behind. */
static void moves_away_and_ends(void)
{
    pid_t stopped = fork(), starter = 0;

    if (stopped == 0)
        for (;;)
            (void)pause();
    (void)kill(stopped, SIGSTOP);
    starter = fork();
    if (starter == 0) {
        dlt_ruler_start();
        _exit(setpgid(0, 0) == 0 ? 0 : 3);
    }
    (void)waitpid(starter, NULL, 0);
    sleep_ms(50);
    (void)kill(stopped, SIGKILL);
    (void)waitpid(stopped, NULL, 0);
    _exit(0);
}

Test(ruler, a_starter_that_moves_away_ends_nobody)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        if (setsid() < 0)
            _exit(2);
        moves_away_and_ends();
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0, "%#x", (unsigned)status);
}

/* The end of file comes when the child, and with it its sampler, has ended: the sampler does not
 * keep the descriptor, and the child waits for no other child. */
Test(ruler, the_sampler_is_in_nobodys_way)
{
    int fds[2], status = 0, tries = 1000;
    char nothing = 0;
    pid_t child, sampler = 0;

    cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    cr_assert_eq(pipe(fds), 0);
    child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        if (setpgid(0, 0) != 0)
            _exit(3);
        dlt_ruler_start();
        (void)close(fds[1]);
        sleep_ms(300);
        _exit(wait(NULL) == -1 && errno == ECHILD ? 0 : 2);
    }
    (void)close(fds[1]);
    cr_assert_eq(read(fds[0], &nothing, 1), 0);
    cr_assert_eq(waitpid(child, &status, WNOHANG), 0, "the child lives on");
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0, "%#x", (unsigned)status);
    while ((sampler = waitpid(-1, &status, WNOHANG)) == 0 && tries-- > 0)
        sleep_ms(10);
    cr_assert_gt(sampler, 0, "the sampler lives on");
}

/* By what the sampler of its parent measures. */
Test(ruler, a_forked_child_judges)
{
    int status = 0;
    pid_t child = fork();

    cr_assert_geq(child, 0);
    if (child == 0) {
        int64_t begin_ns = dlt_ruler_now_ns();
        struct dlt_measure measure;

        sleep_ms(500);
        _exit(dlt_ruler_judge(begin_ns, dlt_ruler_now_ns(), 100, &measure) == DLT_IN_TIME);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
}

Test(ruler, a_call_in_time_needs_no_sampler)
{
    cr_assert_eq(dlt_ruler_judge(1000, 1000 + 5 * MS, 5, NULL), DLT_IN_TIME);
}
