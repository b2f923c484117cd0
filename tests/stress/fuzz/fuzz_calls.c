/* SPDX-License-Identifier: MIT */
/*
 * Sequences of calls, faults and schedules: the input is what tests/stress/sim takes for chance,
 * and the checker of histories is what must find nothing. The first byte chooses the profile, the
 * second one the store, the next eight are the seed of what the input does not say.
 */
#include "fuzz.h"
#include "set.h"

#include <check.h>
#include <string.h>

#define CALLS    300
#define NOT_LESS 16

enum { LOCKS, UNKNOWNS, LOSSES, RENEWALS };

struct fuzz_goal fuzz_goals[] = {[LOCKS] = {"a lock taken", 0},
                                 [UNKNOWNS] = {"an outcome that is unknown", 0},
                                 [LOSSES] = {"a lock that is lost", 0},
                                 [RENEWALS] = {"a renewal", 0},
                                 {NULL, 0}};

static void on_violation(void *arg, const struct dlt_violation *violation)
{
    (void)arg;
    (void)fprintf(stderr, "%s at %lld\n", dlt_rule_name(violation->rule),
                  (long long)violation->clock_ns);
}

static const struct sim_profile *profile_of(unsigned which)
{
    unsigned count = 0;

    while (sim_profiles[count].name != NULL)
        count++;
    return &sim_profiles[count > 0 ? which % count : 0];
}

static void history_check(void)
{
    const struct sim_choice *choice = &sim_world.choice;
    struct dlt_check_options options = {.slack_ns = 100 * SIM_MS,
                                        .busy_ns = choice->ttl_ms * SIM_MS / 5,
                                        .complete = sim_world.quiet,
                                        .renewed = true,
                                        .explained = true,
                                        .told = true,
                                        .kept = true,
                                        .local_fifo = true,
                                        .handoff = 31,
                                        .report = on_violation};
    struct dlt_check_figures figures;

    if (sim_fails_over()) /* the next master may lack a lease, and a place in the queue */
        options.kept = options.explained = options.local_fifo = false;
    sim_set_check_less(&options);
    FUZZ_CHECK(dlt_check(&sim_world.history, &options, &figures) == 0, "no memory");
    fuzz_goals[LOCKS].reached += figures.acquired;
    fuzz_goals[UNKNOWNS].reached += figures.unknown;
    fuzz_goals[LOSSES].reached += figures.lost;
    fuzz_goals[RENEWALS].reached += figures.renewals;
    FUZZ_CHECK(figures.total == 0, "%llu violations", (unsigned long long)figures.total);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size};
    struct sim_run run = {.calls = CALLS};
    const char *why;

    if (size < NOT_LESS)
        return 0;
    run.profile = profile_of(fuzz_byte(&input));
    run.kind = fuzz_byte(&input) % SIM_KINDS;
    for (int i = 0; i < 8; i++)
        run.seed = run.seed << 8 | fuzz_byte(&input);
    sim_set_chance(input.at, input.left);
    why = sim_world_run(&run);
    FUZZ_CHECK(why == NULL, "%s", why);
    history_check();
    return 0;
}
