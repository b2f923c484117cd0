/* SPDX-License-Identifier: MIT */
/*
 * rival.h - lock libraries of others, each in a program of its own language that is given the same
 * workload and prints one line of JSON (bench/rivals/README.md).
 */
#ifndef BENCH_RIVAL_H
#define BENCH_RIVAL_H

#include "plan.h"

struct bench_rival {
    const char *label;
    enum bench_kind kind;       /* of the store that it is compared on */
    const char *const *command; /* up to NULL; "%" stands for the directory of the programs */
    unsigned fits;
};

extern const struct bench_rival bench_rivals[];
extern const int bench_rival_count;

/* Adds one round's figures, or says why there are none. */
void bench_rival_run(const struct bench_subject *subject, const char *directory,
                     const struct bench_load *load, int64_t duration_ns,
                     struct bench_figures *figures);

#endif
