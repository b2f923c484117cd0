/* SPDX-License-Identifier: MIT */
/*
 * rival.h - other lock libraries. Each is in a program of its own language, which runs the same
 * workload and prints one line of JSON (bench/rivals/README.md).
 */
#ifndef BENCH_RIVAL_H
#define BENCH_RIVAL_H

#include "plan.h"

struct bench_rival {
    const char *label;
    enum bench_kind kind;       /* of the store that it is compared on */
    const char *const *command; /* ends with NULL; "%" stands for the directory of the programs */
    unsigned fits;
};

extern const struct bench_rival bench_rivals[];
extern const int bench_rival_count;

/* Adds the figures of one round, or the reason why there are none. */
void bench_rival_run(const struct bench_subject *subject, const char *directory,
                     const struct bench_load *load, int64_t duration_ns,
                     struct bench_figures *figures);

#endif
