/* SPDX-License-Identifier: MIT */
/* Does the lock go on, within a bounded time, whatever happens to those who use it? */
#include "clock.h"
#include "store_kit.h"
#include "ticket_kit.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static struct sqlite_ticket_pass a, b;

TestSuite(tickets_lost, .init = dlt_door_set_up, .fini = dlt_door_tear_down, .timeout = 120);

Test(tickets_lost, a_dead_holder_is_passed)
{
    int64_t start = sqlite_clock_boottime();

    cr_assert_eq(dlt_door_enter(&a, 0), 0);
    cr_assert_eq(dlt_door_enter(&b, DLT_LONG_MS), 0);
    cr_assert_geq(sqlite_clock_boottime() - start, SQ_TICKET_HOLDER_NS, "not before its time");
    sqlite_ticket_lock_exit(&door->lock, &b);
    cr_assert_eq(dlt_door_enter(&b, 0), 0, "free again");
}

/* With a short ttl no call lasts as long as a holder is waited for. */
Test(tickets_lost, a_dead_holder_is_passed_by_one_who_never_waits_long)
{
    int rc = ETIMEDOUT;

    cr_assert_eq(dlt_door_enter(&a, 0), 0);
    for (int i = 0; i < 100 && rc == ETIMEDOUT; i++)
        rc = dlt_door_enter(&b, 5);
    cr_assert_eq(rc, 0);
}

/* As with a wake file that was cut short. */
static bool taken_away(const void *of)
{
    cr_assert_eq(of, door);
    cr_assert_eq(mprotect(door, sizeof *door, PROT_NONE), 0);
    return 0;
}

Test(tickets_lost, one_that_is_not_there_after_a_sleep_is_not_touched)
{
    cr_assert_eq(dlt_door_enter(&a, 0), 0);
    b.usable = taken_away;
    b.arg = door;
    cr_assert_eq(dlt_door_enter(&b, DLT_LONG_MS), ENODATA);
}

Test(tickets_lost, one_that_was_passed_does_not_let_another_in)
{
    uint32_t state = 0;

    cr_assert_eq(dlt_door_enter(&a, 0), 0);
    cr_assert_eq(dlt_door_enter(&b, DLT_LONG_MS), 0);
    state = door->lock.state;
    sqlite_ticket_lock_exit(&door->lock, &a);
    cr_assert_eq(door->lock.state, state, "b is in");
}

Test(tickets_lost, a_hundred_at_once_are_skipped_in_ever_larger_steps)
{
    (void)atomic_fetch_add(&door->lock.next, 100);
    dlt_door_goes_on(&a);
    cr_assert_eq(door->lock.served, door->lock.next);
    (void)atomic_fetch_add(&door->lock.next, 1u << 30);
    dlt_door_goes_on(&b);
    cr_assert_eq(door->lock.served, door->lock.next);
}

Test(tickets_lost, whatever_is_in_the_memory)
{
    for (int round = 0; round < 10; round++) {
        unsigned char *bytes = (unsigned char *)&door->lock;

        for (size_t i = 0; i < sizeof door->lock; i++)
            bytes[i] = (unsigned char)dlt_door_random();
        dlt_door_goes_on(&a);
        dlt_door_goes_on(&b);
    }
}

static pid_t racer_start(int i)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct sqlite_ticket_pass pass = {0};

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            if (dlt_door_enter(&pass, DLT_LONG_MS) != 0)
                _exit(1);
            (void)atomic_fetch_add(&door->entries[i], 1);
            sqlite_ticket_lock_exit(&door->lock, &pass);
        }
    }
    return pid;
}

static void racer_is_alive(int i)
{
    uint32_t before = atomic_load(&door->entries[i]);
    int64_t until = sqlite_clock_until(DLT_LONG_MS * DL_NS_PER_MS);

    while (atomic_load(&door->entries[i]) == before && sqlite_clock_boottime() < until)
        dlt_sleep_ms(1);
    cr_assert_neq(atomic_load(&door->entries[i]), before, "%d does not get in", i);
}

Test(tickets_lost, killed_at_any_moment)
{
    pid_t pids[DLT_RACERS];

    for (int i = 0; i < DLT_RACERS; i++)
        pids[i] = racer_start(i);
    for (int round = 0; round < 200; round++) {
        int i = (int)(dlt_door_random() % DLT_RACERS);

        dlt_sleep_ms(dlt_door_random() % 4);
        dlt_door_kill(pids[i]);
        pids[i] = racer_start(i);
    }
    for (int i = 0; i < DLT_RACERS; i++)
        racer_is_alive(i);
    for (int i = 0; i < DLT_RACERS; i++)
        dlt_door_kill(pids[i]);
}
