/* SPDX-License-Identifier: MIT */
/*
 * meter.h - a server's own figures: commands executed and processor time, read over a connection of
 * the meter. A store without a server has none. PostgreSQL, etcd and ZooKeeper have none here:
 * PostgreSQL counts late, and in many processes.
 */
#ifndef BENCH_METER_H
#define BENCH_METER_H

#include "work.h"

#include <stdint.h>

struct bench_meter;

/* Running totals, or the difference of two; negative: unknown. */
struct bench_tally {
    int64_t commands;   /* executed, also inside of scripts, without the meter's own */
    int64_t scripts;    /* calls of scripts */
    int64_t scripts_ns; /* time in scripts, as the server reports it */
    int64_t cpu_ns;     /* of the server; of all servers */
};

/* *out is NULL if the URI's store has no figures. 0, or -1 and why of BENCH_WHY_SIZE. */
int bench_meter_open(const char *uri, struct bench_meter **out, char *why);
/* Accepts NULL. */
void bench_meter_close(struct bench_meter *meter);

/* The figures are unknown if meter is NULL, and after a failure. */
void bench_meter_read(struct bench_meter *meter, struct bench_tally *tally);

struct bench_tally bench_tally_between(const struct bench_tally *before,
                                       const struct bench_tally *later);

#endif
