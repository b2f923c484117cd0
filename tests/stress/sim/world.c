/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <stdio.h>

#define LIMIT_MOST     4
#define NAMES_MOST     3 /* where nobody takes sets */
#define WATCH_EVERY_NS (1000 * SIM_MS)
#define QUIET_MOST_NS  (600 * 1000 * SIM_MS)
#define NOISY_MOST_NS  (36000 * 1000 * SIM_MS)

struct sim_world sim_world;

static int64_t clock_now(struct sim_host *host)
{
    const struct sim_process *process = (struct sim_process *)host;
    int64_t passed_ns = sim_now() - SIM_START_NS;

    return SIM_START_NS + process->offset_ns + passed_ns + passed_ns * process->ppm / 1000000;
}

/* The first moment at which the clock shows host_ns. */
static int64_t clock_to_sim(struct sim_host *host, int64_t host_ns)
{
    const struct sim_process *process = (struct sim_process *)host;
    int64_t passed_ns = host_ns - SIM_START_NS - process->offset_ns;
    int64_t sim_ns = passed_ns - passed_ns * process->ppm / (1000000 + process->ppm);

    while (sim_ns + sim_ns * process->ppm / 1000000 < passed_ns)
        sim_ns++;
    return SIM_START_NS + sim_ns;
}

static int64_t one_of(const int64_t *values, size_t n)
{
    return values[sim_below(n)];
}

static void choose(int kind)
{
    static const int64_t ttls[] = {200, 500, 1000, 3000}, polls[] = {50, 200, 1000},
                         handoffs[] = {0, 3, 30, 30}, connections[] = {2, 2, 3, 16};
    struct sim_choice *choice = &sim_world.choice;

    *choice = (struct sim_choice){
        .kind = (enum sim_kind)sim_below(SIM_KINDS),
        .concurrent = sim_chance(500000),
        .fences = !sim_chance(200000),
        .shared = sim_chance(600000),
        .names = sim_world.profile->sets ? SIM_NAMES : (unsigned)sim_between(1, NAMES_MOST),
        .processes = (unsigned)sim_between(2, SIM_PROCESSES),
        .tasks = (unsigned)sim_between(1, SIM_TASKS),
        .ttl_ms = one_of(ttls, 4),
        .poll_max_ms = one_of(polls, 3),
        .hold_ms = sim_between(1, 60),
        .handoff = (unsigned)one_of(handoffs, 4),
        .connections = (unsigned)one_of(connections, 4),
        .callbacks = sim_chance(500000),
    };
    if (sim_chance(500000)) /* half of the runs are about queues */
        choice->kind = SIM_QUEUE;
    if (kind >= 0)
        choice->kind = (enum sim_kind)kind;
    choice->callbacks = choice->callbacks && !sim_world.async; /* C19 */
    choice->wait_any = sim_world.async && sim_chance(600000);
    choice->waiter_lease_ms = sim_between(100, choice->ttl_ms);
    /* No draw of their own: most runs of the blocking driver stay as they were. */
    choice->parallelism = choice->waiter_lease_ms % 3 == 0; /* two would let all tasks in */
    choice->batches =
        (choice->parallelism > 0 || (sim_world.async && choice->waiter_lease_ms % 4 != 0)) &&
        choice->kind != SIM_SESSION && !sim_fails_over();
    if (choice->kind == SIM_SESSION) {
        choice->concurrent = false;
        if (sim_world.profile->stall_ttls == 0)
            choice->connections = 16; /* waiting for one of them would look like a stall */
    }
    if (sim_is_tethered()) {
        choice->kind = choice->kind == SIM_SESSION ? SIM_QUEUE : choice->kind;
        choice->concurrent = true;
        choice->waiter_lease_ms = choice->ttl_ms;
    }
    sim_world.server_ppm = sim_between(-4000, 4000);
    if (sim_fails_over()) {
        choice->kind = choice->kind == SIM_SESSION ? SIM_QUEUE : choice->kind;
        choice->hold_ms = sim_between(1, (sim_chance(500000) ? 1 : 4) * choice->ttl_ms);
        if (sim_chance(500000))
            choice->waiter_lease_ms = choice->ttl_ms;
        sim_world.server_ppm = 0; /* the servers' clocks differ by a bounded time */
    }
    for (size_t i = NAMES_MOST; i < SIM_NAMES; i++)
        choice->limits[i] = 1;
    for (size_t i = 0; i < NAMES_MOST; i++)
        choice->limits[i] = sim_world.profile->semaphores && choice->kind != SIM_SESSION
                                ? (uint32_t)sim_between(1, LIMIT_MOST)
                                : 1;
}

static void look(void *arg)
{
    (void)arg;
    if (sim_misuse() != NULL || sim_now() > SIM_START_NS + NOISY_MOST_NS)
        sim_stop();
    if (sim_world.quiet && sim_world.quiet_ns == 0)
        sim_world.quiet_ns = sim_now();
    if (sim_world.quiet && sim_now() > sim_world.quiet_ns + QUIET_MOST_NS)
        sim_stop();
    if (sim_fibers() > 0 || !sim_world.quiet) /* all processes may be between two lives */
        sim_at(sim_now() + WATCH_EVERY_NS, look, NULL);
}

const char *sim_world_run(const struct sim_run *run)
{
    static const int64_t yields[] = {0, 50000, 200000, 500000};
    struct dlt_history history = sim_world.history;
    const char *why;

    sim_begin(run->seed, SIM_START_NS);
    sim_net_end();
    history.count = 0;
    sim_world = (struct sim_world){
        .profile = run->profile, .calls_most = run->calls, .async = run->async, .history = history};
    sim_store_begin();
    sim_set_misuse(NULL);
    sim_set_clock(clock_now, clock_to_sim);
    sim_set_watch(sim_record_changes);
    choose(run->kind);
    sim_set_yield((unsigned)one_of(yields, 4), sim_between(10 * SIM_US, 1000 * SIM_US));
    sim_set_spurious(2000);
    for (size_t i = 0; i < sim_world.choice.processes; i++)
        sim_process_start(&sim_world.processes[i]);
    sim_nemesis_start();
    sim_failover_begin();
    if (sim_is_tethered())
        sim_tether_begin();
    sim_at(sim_now() + WATCH_EVERY_NS, look, NULL);
    sim_run();
    why = sim_misuse();
    if (why == NULL && sim_fibers() > 0)
        why = sim_world.quiet ? "threads wait for ever" : "the run does not get on";
    return why;
}

void sim_world_end(void)
{
    dlt_history_fini(&sim_world.history);
    sim_net_end();
    sim_end();
}
