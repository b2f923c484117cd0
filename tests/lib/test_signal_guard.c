/* SPDX-License-Identifier: MIT */
/* Tests: lib/thread.c */
/* Does a write that fails raise no signal, and does the program keep its own signals? */
#include "lib/thread.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <unistd.h>

static int ends[2];

static void reader_gone(void)
{
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(close(ends[0]), 0);
}

static void write_guarded(void)
{
    struct dl_signal_guard guard;

    dl_signal_guard_begin(&guard, SIGPIPE);
    cr_assert_eq(write(ends[1], "x", 1), -1);
    cr_assert_eq(errno, EPIPE);
    dl_signal_guard_end(&guard);
}

static bool is_pending(void)
{
    sigset_t set;

    cr_assert_eq(sigpending(&set), 0);
    return sigismember(&set, SIGPIPE) == 1;
}

static bool is_blocked(void)
{
    sigset_t set;

    cr_assert_eq(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
    return sigismember(&set, SIGPIPE) == 1;
}

static void pipe_block(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGPIPE);
    cr_assert_eq(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
}

Test(signal_guard, a_write_to_a_closed_pipe_does_not_end_the_program)
{
    cr_assert_neq(signal(SIGPIPE, SIG_DFL), SIG_ERR);
    reader_gone();
    write_guarded();
    cr_assert_not(is_blocked());
    cr_assert_not(is_pending());
}

Test(signal_guard, a_signal_that_the_program_has_blocked_stays_blocked_and_is_not_raised)
{
    reader_gone();
    pipe_block();
    write_guarded();
    cr_assert(is_blocked());
    cr_assert_not(is_pending());
}

Test(signal_guard, a_signal_that_waited_for_the_program_is_not_taken_away)
{
    reader_gone();
    pipe_block();
    cr_assert_eq(raise(SIGPIPE), 0);
    write_guarded();
    cr_assert(is_pending());
}
