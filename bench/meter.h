/* SPDX-License-Identifier: MIT */
/*
 * meter.h - what a store says of itself: commands executed and processor time, read over a
 * connection of the meter's own. A store without a server says
 * nothing, and neither does PostgreSQL, which counts late and in many processes.
 */
#ifndef BENCH_METER_H
#define BENCH_METER_H

#include "work.h"

#include <stdint.h>

struct bench_meter;

/* Running totals, or the difference of two; negative: the store does not tell. */
struct bench_tally {
    int64_t commands;   /* executed, those inside of scripts included; the meter's own are not */
    int64_t scripts;    /* calls of scripts, */
    int64_t scripts_ns; /* and how long the server was in them, by its own account */
    int64_t cpu_ns;     /* of the server; of all servers */
};

/* *out is NULL if the URI's store has nothing to tell. 0, or -1 and why of BENCH_WHY_SIZE. */
int bench_meter_open(const char *uri, struct bench_meter **out, char *why);
/* NULL is fine. */
void bench_meter_close(struct bench_meter *meter);

/* meter may be NULL; then, and after a failure, the store does not tell. */
void bench_meter_read(struct bench_meter *meter, struct bench_tally *tally);

struct bench_tally bench_tally_between(const struct bench_tally *before,
                                       const struct bench_tally *later);

#endif
