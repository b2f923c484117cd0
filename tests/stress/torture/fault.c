/* SPDX-License-Identifier: MIT */
#include "nemesis.h"

#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUSY_MS  2000
#define CLAIM_MS 300
#define READ_MS  1000

#define REPLACED_MS 8000 /* for others to notice that a master fails, and to choose another one */

/* ---- processors ---- */

static _Noreturn void burn(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        continue;
}

static void burners_start(struct active *active)
{
    (void)fflush(NULL);
    for (size_t i = 0; i < BURNERS; i++) {
        active->burners[i] = fork();
        if (active->burners[i] == 0)
            burn();
    }
}

static bool burners_end(const struct active *active)
{
    bool burnt = false;

    for (size_t i = 0; i < BURNERS; i++) {
        struct rusage usage = {0};

        if (active->burners[i] <= 0)
            continue;
        (void)kill(active->burners[i], SIGKILL);
        (void)wait4(active->burners[i], NULL, 0, &usage);
        burnt |= usage.ru_utime.tv_sec > 0 || usage.ru_utime.tv_usec > 0;
    }
    return burnt;
}

/* ---- the file ---- */

static bool file_lock(struct nemesis *nemesis, struct active *active)
{
    char path[256];

    (void)snprintf(path, sizeof path, "%s/locks.db", nemesis->store->directory);
    if (sqlite3_open_v2(path, &active->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        return false;
    (void)sqlite3_busy_timeout(active->db, BUSY_MS);
    return sqlite3_exec(active->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
}

/* ---- all ---- */

/* Effective when somebody has read it since. */
static bool clock_step(struct nemesis *nemesis)
{
    uint64_t before = 0, now = 0;

    if (nemesis->clocks == NULL)
        return false;
    dlt_skew_step(nemesis->clocks, CLOCK_REALTIME, nemesis->lease_ms * 2 * INT64_C(1000000));
    before = now = dlt_skew_reads(nemesis->clocks, CLOCK_REALTIME);
    for (int ms = 0; ms < READ_MS && now == before; ms++) {
        (void)poll(NULL, 0, 1);
        now = dlt_skew_reads(nemesis->clocks, CLOCK_REALTIME);
    }
    return now > before;
}

void fault_begin(struct nemesis *nemesis, struct active *active)
{
    const struct fault *fault = active->fault;
    struct crew *crew = nemesis->crew;

    /* Whoever holds something has more to lose. */
    if (fault->variant % 4 != 0)
        crew_await_claim(crew, fault->kind == FAULT_CLIENT_STOP ? fault->client : crew->clients,
                         CLAIM_MS);
    active->node = fault->kind == FAULT_SERVER_STOP
                       ? store_choose_still(nemesis->store, fault->node, fault->variant)
                       : store_choose(nemesis->store, fault->node, fault->variant);
    switch (fault->kind) {
    case FAULT_CLIENT_STOP:
        active->effective = crew_stop(nemesis->crew, fault->client);
        break;
    case FAULT_CLIENT_KILL:
        active->effective = crew_kill(nemesis->crew, fault->client);
        break;
    case FAULT_CLIENT_LEAVE:
        active->effective = crew_leave(nemesis->crew, fault->client);
        break;
    case FAULT_SERVER_STOP:
        active->effective = store_pause(nemesis->store, active->node, true);
        break;
    case FAULT_SERVER_KILL:
        active->effective = store_kill(nemesis->store, active->node);
        break;
    case FAULT_MEMBER_PART:
        active->effective = store_part(nemesis->store, active->node, true);
        break;
    case FAULT_FAILOVER:
        active->effective = store_fail(nemesis->store, fault->variant);
        break;
    case FAULT_SERVER_KICK:
        active->effective = store_kick(nemesis->store, fault->node) > 0;
        break;
    case FAULT_SCRIPT_FLUSH:
        active->effective = store_flush(nemesis->store, fault->node) > 0;
        break;
    case FAULT_FORGET:
        active->effective = store_forget(nemesis->store) > 0;
        break;
    case FAULT_STORE_BUSY:
        active->effective = file_lock(nemesis, active);
        break;
    case FAULT_CPU_BURST:
        burners_start(active);
        break;
    case FAULT_CLOCK_STEP:
        active->effective = clock_step(nemesis);
        break;
    default:
        net_begin(nemesis, active);
    }
}

/* Others go on meanwhile: the client may need what they have taken away. */
static bool leave_end(struct crew *crew, struct active *active)
{
    unsigned client = active->fault->client;
    enum crew_left left = active->effective ? crew_left(crew, client) : CREW_STAYED;

    if (left == CREW_LEAVING)
        return false;
    active->effective = left == CREW_LEFT;
    (void)crew_start(crew, client);
    return true;
}

/* A master that came back before another one was chosen would not have been replaced. */
static bool failover_end(struct nemesis *nemesis, struct active *active)
{
    if (active->effective && active->later_ms < REPLACED_MS && !store_replaced(nemesis->store))
        return false;
    active->effective = store_failed(nemesis->store) && active->effective;
    return true;
}

bool fault_end(struct nemesis *nemesis, struct active *active)
{
    const struct fault *fault = active->fault;

    switch (fault->kind) {
    case FAULT_CLIENT_STOP:
        if (active->effective)
            active->effective = crew_cont(nemesis->crew, fault->client);
        break;
    case FAULT_CLIENT_LEAVE:
        return leave_end(nemesis->crew, active);
    case FAULT_CLIENT_KILL:
        (void)crew_start(nemesis->crew, fault->client);
        break;
    case FAULT_SERVER_STOP:
        active->effective = store_pause(nemesis->store, active->node, false) && active->effective;
        break;
    case FAULT_SERVER_KILL:
        nemesis->broken |= !store_again(nemesis->store, active->node);
        break;
    case FAULT_MEMBER_PART:
        active->effective = store_part(nemesis->store, active->node, false) && active->effective;
        break;
    case FAULT_FAILOVER:
        return failover_end(nemesis, active);
    case FAULT_STORE_BUSY:
        (void)sqlite3_exec(active->db, "ROLLBACK", NULL, NULL, NULL);
        (void)sqlite3_close(active->db);
        break;
    case FAULT_CPU_BURST:
        active->effective = burners_end(active);
        break;
    case FAULT_SERVER_KICK:
    case FAULT_SCRIPT_FLUSH:
    case FAULT_FORGET:
    case FAULT_CLOCK_STEP:
        break;
    default:
        net_end(nemesis, active);
    }
    return true;
}
