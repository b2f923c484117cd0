/* SPDX-License-Identifier: MIT */
/*
 * fiber.h - virtual time, and threads that run in it one at a time.
 *
 * The scheduler takes what is due next, moves the clock there and runs it until it blocks. All
 * chance comes from one generator, so that a seed is a run. What belongs to a host that stands
 * still is put off until it goes on.
 */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_US    INT64_C(1000)
#define SIM_MS    INT64_C(1000000)
#define SIM_NEVER INT64_MAX

/* What stops and goes on as a whole. */
struct sim_host {
    int64_t cont_ns; /* stands still until then */
};

struct sim_fiber;

typedef void sim_fn(void *arg);

/* Everything anew, from this seed; the clock stands at start_ns. */
void sim_begin(uint64_t seed, int64_t start_ns);

/* Frees what it took. */
void sim_end(void);

/* Runs until nothing is left to run or sim_stop is called. */
void sim_run(void);
void sim_stop(void);

int64_t sim_now(void);

/* Chance. sim_below(n): 0 to n - 1; n > 0. sim_between includes both ends. */
uint64_t sim_random(void);
uint64_t sim_below(uint64_t n);
int64_t sim_between(int64_t least, int64_t most);
bool sim_chance(unsigned per_million);

/* The next choices come from these bytes, two each, which have to stay; when they are used up, from
 * the seed again. */
void sim_set_chance(const unsigned char *bytes, size_t size);

/* Calls fn at at_ns, outside any fiber. It must not block. */
void sim_at(int64_t at_ns, sim_fn *fn, void *arg);

/* A thread of host (NULL: of none that can stop). The one who starts it joins it, or says `alone`.
 */
struct sim_fiber *sim_fiber_start(struct sim_host *host, bool alone, sim_fn *fn, void *arg);
void sim_fiber_join(struct sim_fiber *fiber);

/* The one that runs; NULL: none does. */
struct sim_fiber *sim_fiber_self(void);

struct sim_host *sim_fiber_host(const struct sim_fiber *fiber);

/* Fibers that were started and have not ended. */
unsigned sim_fibers(void);

/* A word that belongs to whoever started it. */
void *sim_fiber_mark(const struct sim_fiber *fiber);
void sim_fiber_set_mark(struct sim_fiber *fiber, void *mark);

/* Sleeps until sim_wake (true) or until_ns (false). */
bool sim_block(int64_t until_ns);
void sim_wake(struct sim_fiber *fiber);

/* Sleeps for about that long: others run meanwhile. */
void sim_pause(int64_t ns);

/* Now and then, for a moment. Called wherever another thread may get in. */
void sim_yield(void);

/* How often sim_yield does so, and for how long at most. */
void sim_set_yield(unsigned per_million, int64_t most_ns);

/* After each stretch that a fiber of a host ran. */
void sim_set_watch(void (*watch)(struct sim_host *host));

#endif
