/* SPDX-License-Identifier: MIT */
#include "survivor.h"

#include "../history/log.h"
#include "oracle.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 2

static unsigned place_of(unsigned place)
{
    return SURVIVORS_MOST + place;
}

pid_t survivor_start(const char *directory, uint32_t name, unsigned place, uint64_t attempt,
                     int64_t life_ms)
{
    char words[4][24];
    const char *argv[] = {"dlock-torture", "--program", directory, words[0],
                          words[1],        words[2],    words[3],  NULL};
    pid_t pid = 0;

    (void)snprintf(words[0], sizeof words[0], "%" PRIu32, name);
    (void)snprintf(words[1], sizeof words[1], "%u", place);
    (void)snprintf(words[2], sizeof words[2], "%" PRIu64, attempt);
    (void)snprintf(words[3], sizeof words[3], "%" PRId64, life_ms);
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, (char *const *)(uintptr_t)argv, environ) !=
        0)
        return 0;
    return pid;
}

void survivor_reap(pid_t pid)
{
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* The program may end at any time: it says so before it looks at its claim for the last time. */
void survivor_inherit(struct shared *shared, uint32_t name, unsigned place)
{
    struct oracle_claim *from = &shared->claims[name][place];
    struct oracle_claim *to = &shared->claims[name][place_of(place)];
    uint64_t attempt = atomic_load(&from->attempt);

    if (place >= SURVIVORS_MOST || attempt == 0 || atomic_load(&shared->programs[place]) != attempt)
        return;
    atomic_store(&to->attempt, 0); /* while the rest of the claim changes */
    atomic_store(&to->until_ns, atomic_load(&from->until_ns));
    atomic_store(&to->mode, atomic_load(&from->mode));
    atomic_store(&to->permit, atomic_load(&from->permit));
    atomic_store(&to->attempt, attempt);
    if (atomic_load(&shared->programs[place]) == attempt)
        atomic_fetch_add(&shared->inherited, 1);
    else
        atomic_store(&to->attempt, 0);
}

/* A later program may have taken the same place. */
static void forget(_Atomic uint64_t *attempt, uint64_t own)
{
    (void)atomic_compare_exchange_strong(attempt, &own, 0);
}

/* The client claims it, or was killed when it did. */
static bool is_claimed(const struct shared *shared, uint32_t name, unsigned place, uint64_t attempt)
{
    return atomic_load(&shared->claims[name][place].attempt) == attempt ||
           atomic_load(&shared->claims[name][place_of(place)].attempt) == attempt;
}

int survivor_main(char **words)
{
    struct shared *shared = shared_open(words[0], false);
    uint32_t name = (uint32_t)strtoul(words[1], NULL, 10);
    unsigned place = (unsigned)strtoul(words[2], NULL, 10);
    uint64_t attempt = strtoull(words[3], NULL, 10);
    int64_t end_ns = dlt_log_now_ns() + strtoll(words[4], NULL, 10) * INT64_C(1000000);

    if (shared == NULL || name >= NAMES_MOST || place >= SURVIVORS_MOST)
        return 1;
    atomic_store(&shared->programs[place], attempt);
    while (dlt_log_now_ns() < end_ns && is_claimed(shared, name, place, attempt) &&
           atomic_load(&shared->stopping) == 0)
        (void)poll(NULL, 0, LOOK_MS);
    forget(&shared->programs[place], attempt);
    forget(&shared->claims[name][place_of(place)].attempt, attempt);
    shared_close(shared);
    return 0;
}
