/* SPDX-License-Identifier: MIT */
#include "ticket_kit.h"

#include "clock.h"
#include "store_kit.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct dlt_door *door;

void dlt_door_set_up(void)
{
    void *memory = mmap(NULL, sizeof(struct dlt_door), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    cr_assert_neq(memory, MAP_FAILED);
    door = memory;
}

void dlt_door_tear_down(void)
{
    (void)munmap(door, sizeof *door);
}

int dlt_door_enter(struct sqlite_ticket_pass *pass, int64_t timeout_ms)
{
    return sqlite_ticket_lock_enter(&door->lock, pass,
                                    sqlite_clock_until(timeout_ms * DL_NS_PER_MS));
}

void dlt_door_goes_on(struct sqlite_ticket_pass *pass)
{
    cr_assert_eq(dlt_door_enter(pass, DLT_LONG_MS), 0);
    sqlite_ticket_lock_exit(&door->lock, pass);
}

void dlt_door_wait_tickets(uint32_t count)
{
    while (atomic_load(&door->lock.next) != count)
        dlt_sleep_ms(1);
}

void dlt_door_kill(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

uint32_t dlt_door_random(void)
{
    static uint32_t number = 1;

    number ^= number << 13;
    number ^= number >> 17;
    number ^= number << 5;
    return number;
}
