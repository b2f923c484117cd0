/* SPDX-License-Identifier: MIT */
/* Does the lock go on without a waiter that is killed or stopped? Who holds it has an hour in this
 * program, so that a test may take its time. */
#include "clock.h"
#include "store_kit.h"
#include "ticket_kit.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sqlite_ticket_pass a, b;

TestSuite(tickets_waiters, .init = dlt_door_set_up, .fini = dlt_door_tear_down, .timeout = 120);

/* A child that enters and leaves, and says so with 0. */
static pid_t child_passes(void)
{
    uint32_t before = atomic_load(&door->lock.next);
    pid_t pid = fork();

    if (pid == 0) {
        struct sqlite_ticket_pass pass = {0};
        int rc = dlt_door_enter(&pass, DLT_LONG_MS);

        if (rc == 0)
            sqlite_ticket_lock_exit(&door->lock, &pass);
        _exit(rc);
    }
    dlt_door_wait_tickets(before + 1);
    return pid;
}

Test(tickets_waiters, killed_waiters_are_skipped)
{
    pid_t pids[5];

    cr_assert_eq(dlt_door_enter(&a, 0), 0);
    for (int i = 0; i < 5; i++)
        pids[i] = child_passes();
    for (int i = 0; i < 4; i++)
        dlt_door_kill(pids[i]);
    sqlite_ticket_lock_exit(&door->lock, &a);
    int result = -1;
    cr_assert_eq(waitpid(pids[4], &result, 0), pids[4]);
    cr_assert_eq(result, 0);
}

Test(tickets_waiters, a_stopped_waiter_holds_up_once_and_is_late)
{
    pid_t pid = -1;
    int result = -1;

    cr_assert_eq(dlt_door_enter(&a, 0), 0);
    pid = child_passes();
    cr_assert_eq(kill(pid, SIGSTOP), 0);
    cr_assert_eq(waitpid(pid, &result, WUNTRACED), pid);
    sqlite_ticket_lock_exit(&door->lock, &a);
    dlt_door_goes_on(&b);
    dlt_door_goes_on(&a);
    cr_assert_eq(door->lock.served, door->lock.next, "nobody waits for it any more");
    cr_assert_eq(kill(pid, SIGCONT), 0);
    cr_assert_eq(waitpid(pid, &result, 0), pid);
    cr_assert_eq(result, 0);
}
