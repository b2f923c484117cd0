/* SPDX-License-Identifier: MIT */
/* What goes wrong besides messages: processes stand still, end, or cannot reach the store. */
#include "world.h"

static struct sim_process *victim(void)
{
    struct sim_process *process = &sim_world.processes[sim_below(sim_world.choice.processes)];

    return process->alive && !process->closing ? process : NULL;
}

static void restart(void *arg)
{
    struct sim_process *process = arg;

    if (!sim_world.quiet && !process->busy)
        sim_process_start(process);
}

void sim_process_over(struct sim_process *process)
{
    if (!sim_world.quiet)
        sim_at(sim_now() + sim_between(SIM_MS, 2 * sim_world.choice.ttl_ms * SIM_MS), restart,
               process);
}

static void goes_on(void *arg)
{
    struct sim_process *process = arg;

    if (process->host.cont_ns > sim_now())
        return; /* that was of an incarnation before */
    if (process->stopped_pid != 0)
        sim_record_nemesis(DLT_NEMESIS_CONT, process->stopped_pid, DLT_ALL_NAMES);
    process->stopped_pid = 0;
}

static void stop(void)
{
    struct sim_process *process = victim();
    int64_t ttl_ns = sim_world.choice.ttl_ms * SIM_MS;

    if (process == NULL || process->stopped_pid != 0)
        return;
    sim_world.stops++;
    process->stopped_pid = process->pid;
    process->host.cont_ns = sim_now() + (sim_chance(500000) ? sim_between(SIM_MS, ttl_ns / 3)
                                                            : sim_between(ttl_ns / 10, 3 * ttl_ns));
    sim_record_nemesis(DLT_NEMESIS_STOP, process->pid, DLT_ALL_NAMES);
    sim_at(process->host.cont_ns, goes_on, process);
}

static void cut_over(void *arg)
{
    (void)arg;
    sim_record_nemesis(DLT_NEMESIS_FAULT, 0, DLT_ALL_NAMES);
}

static void cut(void)
{
    struct sim_process *process = victim();
    int64_t ttl_ns = sim_world.choice.ttl_ms * SIM_MS;
    int64_t until_ns =
        sim_now() + sim_between(SIM_MS, sim_chance(700000) ? ttl_ns / 2 : 2 * ttl_ns);

    sim_world.cuts++;
    sim_record_nemesis(DLT_NEMESIS_FAULT, 0, DLT_ALL_NAMES);
    if (process != NULL && sim_chance(700000))
        process->cut_ns = until_ns;
    else
        sim_world.cut_ns = until_ns;
    sim_at(until_ns, cut_over, NULL);
}

static void kill_one(void)
{
    struct sim_process *process = victim();

    if (process == NULL)
        return;
    sim_world.kills++;
    sim_process_end(process, true);
}

static void close_one(void)
{
    struct sim_process *process = victim();

    if (process == NULL)
        return;
    sim_world.closes++;
    sim_process_end(process, false);
}

struct act {
    void (*what)(void);
    int64_t every_ms;
};

static struct act acts[4];

static void act(void *arg);

static void act_later(struct act *a)
{
    sim_at(sim_now() + sim_between(SIM_MS, 2 * a->every_ms * SIM_MS), act, a);
}

static void act(void *arg)
{
    struct act *a = arg;

    if (sim_world.quiet)
        return;
    a->what();
    act_later(a);
}

void sim_nemesis_start(void)
{
    const struct sim_profile *profile = sim_world.profile;

    acts[0] = (struct act){stop, profile->stop_every_ms};
    acts[1] = (struct act){cut, profile->cut_every_ms};
    acts[2] = (struct act){kill_one, profile->kill_every_ms};
    acts[3] = (struct act){close_one, profile->close_every_ms};
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        if (acts[i].every_ms > 0)
            act_later(&acts[i]);
}
