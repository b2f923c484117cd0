/* SPDX-License-Identifier: MIT */
/*
 * Leases that live in the sessions of clients with the server (DLOCK_CAP_TETHERED). At the server a
 * session ends when nothing of its client has arrived for longer than any lease. At the client the
 * plugin keeps it alive, whatever becomes of the leases, and removes what failed unlocks may have
 * left there. And nothing stays behind: what no handle and no call uses any more has to go.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSIONS_MOST 128

/* Of a client, at the server. */
static struct tether {
    int32_t pid;
    int64_t heard_ns; /* on the server's clock */
} tethers[SESSIONS_MOST];

static size_t tether_count;

static void die(const char *what)
{
    (void)fprintf(stderr, "tether.c: %s\n", what);
    abort();
}

static int64_t tick_ns(void)
{
    return sim_world.choice.ttl_ms * SIM_MS / 8;
}

/* ---- at the server ---- */

static struct tether *tether_find(int32_t pid)
{
    for (size_t i = 0; i < tether_count; i++)
        if (tethers[i].pid == pid)
            return &tethers[i];
    return NULL;
}

void sim_tether_heard(int32_t pid)
{
    struct tether *tether = tether_find(pid);

    if (tether == NULL && tether_count == SESSIONS_MOST)
        die("too many sessions");
    if (tether == NULL)
        tether = &tethers[tether_count++];
    *tether = (struct tether){pid, sim_store_now()};
}

void sim_tether_closed(int32_t pid)
{
    struct tether *tether = tether_find(pid);

    if (tether != NULL)
        *tether = tethers[--tether_count];
}

static void silent_end(void)
{
    int64_t most_ns = sim_world.choice.ttl_ms * SIM_MS + 3 * tick_ns();

    for (size_t i = tether_count; i-- > 0;) {
        int32_t pid = tethers[i].pid;

        if (sim_store_now() - tethers[i].heard_ns <= most_ns)
            continue;
        sim_tether_closed(pid);
        sim_store_end_session(pid);
    }
}

/* ---- at the client ---- */

void sim_tether_leave(const struct dlock_request *req)
{
    struct sim_process *process = sim_self_process();
    struct sim_leftover *leftover = &process->leftovers[process->leftover_count];

    if (process->dead)
        return;
    if (process->leftover_count == SIM_LEFTOVERS)
        die("too many leftovers");
    leftover->name = (uint32_t)(req->name[0] - 'a');
    memcpy(leftover->token, req->token, sizeof leftover->token);
    process->leftover_count++;
}

static bool is_left(const struct sim_process *process, const unsigned char *token)
{
    for (size_t i = 0; i < process->leftover_count; i++)
        if (memcmp(process->leftovers[i].token, token, DLOCK_TOKEN_SIZE) == 0)
            return true;
    return false;
}

/* Removes the oldest one. false: the server did not say so. */
static bool leftover_remove(struct sim_process *process)
{
    struct sim_session *session = process->sessions;
    struct sim_ask ask = {.verb = SIM_LEAVE,
                          .name = process->leftovers[0].name,
                          .session = session->id,
                          .process = process,
                          .pid = process->pid};
    struct sim_answer answer;

    memcpy(ask.token, process->leftovers[0].token, sizeof ask.token);
    if (sim_net_exchange(session, &ask, 1, &answer, sim_host_now(&process->host) + 4 * tick_ns(),
                         NULL) != DLOCK_OK)
        return false;
    process->leftover_count--;
    memmove(&process->leftovers[0], &process->leftovers[1],
            process->leftover_count * sizeof process->leftovers[0]);
    return true;
}

void sim_tether_link(void *arg)
{
    struct sim_process *process = arg;

    while (!process->closing)
        if (process->leftover_count == 0 || !leftover_remove(process))
            sim_pause(tick_ns());
    sim_process_done(process, &process->links);
}

static bool runs(const struct sim_process *process)
{
    return process->sessions != NULL && !process->dead && process->host.cont_ns <= sim_now();
}

/* Pings: whatever else the client does. */
static void alive_heard(void)
{
    for (size_t i = 0; i < SIM_PROCESSES; i++) {
        const struct sim_process *process = &sim_world.processes[i];
        bool lost = !sim_world.quiet && sim_chance(sim_world.profile->lose);

        if (runs(process) && !sim_net_is_cut(process) && !lost)
            sim_tether_heard(process->pid);
    }
}

/* ---- nothing stays behind ---- */

/* The handle holds the lease as far as it knows, or a call or the renewer is at work on it. */
static bool is_used_by(struct sim_process *process, const struct sim_handle *handle,
                       const unsigned char *token)
{
    const struct dlock_handle *lock = handle->lock;
    uint64_t word;

    if (lock == NULL || memcmp(lock->claim->req.token, token, DLOCK_TOKEN_SIZE) != 0)
        return false;
    word = atomic_load(&lock->lease.word);
    return lock->phase != DL_PHASE_IDLE || lock->renewer_busy ||
           (((word & 3) == DLOCK_STATE_HELD || (word & 3) == DLOCK_STATE_DOUBTFUL) &&
            (int64_t)(word >> 2) > sim_host_now(&process->host));
}

static bool is_used(struct sim_process *process, const unsigned char *token)
{
    for (size_t i = 0; i < SIM_HANDLES; i++)
        if (is_used_by(process, &process->handles[i], token))
            return true;
    return is_left(process, token);
}

/* The renewer may have to give back the leases of all handles of its client, one after another. */
static void claim_check(const struct sim_ask *ask, int64_t *unused_ns)
{
    struct sim_process *process = ask->process;
    int64_t most_ns = (sim_world.choice.ttl_ms + 2000) * SIM_MS;

    if (process->pid != ask->pid || !process->alive || process->closing || !runs(process) ||
        is_used(process, ask->token))
        *unused_ns = 0;
    else if (*unused_ns == 0)
        *unused_ns = sim_now();
    else if (sim_now() - *unused_ns > most_ns)
        sim_set_misuse("TET-1: a lease or a place that nobody uses any more stays behind");
}

static void tick(void *arg)
{
    (void)arg;
    alive_heard();
    silent_end();
    sim_store_each(claim_check);
    if (sim_fibers() > 0 || !sim_world.quiet) /* all processes may be between two lives */
        sim_at(sim_now() + tick_ns(), tick, NULL);
}

void sim_tether_begin(void)
{
    tether_count = 0;
    sim_at(sim_now() + tick_ns(), tick, NULL);
}
