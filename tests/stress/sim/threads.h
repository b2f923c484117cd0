/* SPDX-License-Identifier: MIT */
/*
 * threads.h - pthreads, descriptors and clocks for code that runs in fibers.
 *
 * The linker puts the functions in threads.c and files.c in front of those they are named after
 * (see CMakeLists.txt): the engine that is simulated is the engine that is shipped. Outside any
 * fiber they are the real ones.
 */
#ifndef SIM_THREADS_H
#define SIM_THREADS_H

#include "fiber.h"

#include <pthread.h>

/* The host of the fiber that runs, and its clock in place of the simulation's. */
struct sim_host *sim_self_host(void);
void sim_set_clock(int64_t (*now_ns)(struct sim_host *host),
                   int64_t (*to_sim)(struct sim_host *host, int64_t host_ns));

/* That clock, and the moment of the simulation at which it shows host_ns. */
int64_t sim_host_now(struct sim_host *host);
int64_t sim_host_to_sim(struct sim_host *host, int64_t host_ns);

/* Started by pthread_create. */
bool sim_is_library_thread(void);

/* By a fiber. */
bool sim_mutex_held(const pthread_mutex_t *mutex);

/* How often a wait on a condition ends for no reason. */
void sim_set_spurious(unsigned per_million);

/* Sleeps until the descriptor of the simulation is readable, or until_ns. */
void sim_await_readable(int fd, int64_t until_ns);

/* What nothing that is right does: used after its end, destroyed in use. NULL: nothing yet. */
const char *sim_misuse(void);
void sim_set_misuse(const char *what);

#endif
