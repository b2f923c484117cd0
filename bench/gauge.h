/* SPDX-License-Identifier: MIT */
/* gauge.h - what processes take of the machine, read from outside of them. */
#ifndef BENCH_GAUGE_H
#define BENCH_GAUGE_H

#include <stdint.h>
#include <sys/types.h>

struct bench_gauge {
    int64_t cpu_ns;    /* user and system, of all of them */
    int64_t memory_kb; /* resident, of the one that has most */
    int sockets;       /* of the one that has most */
};

/* What cannot be read counts as nothing: a process may be gone. */
void bench_gauge_read(const pid_t *pids, int count, struct bench_gauge *gauge);

/* The number-th of the numbers in a file's first line, from 0; 0: there is none. */
long long bench_gauge_number(const char *path, int number);

/* Resident memory of this process, in bytes. */
int64_t bench_gauge_resident(void);

#endif
