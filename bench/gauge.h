/* SPDX-License-Identifier: MIT */
/* gauge.h - processor time, memory and sockets of processes, read from outside of them. */
#ifndef BENCH_GAUGE_H
#define BENCH_GAUGE_H

#include <stdint.h>
#include <sys/types.h>

struct bench_gauge {
    int64_t cpu_ns;    /* user and system, of all of them */
    int64_t memory_kb; /* resident, of the process with the most */
    int sockets;       /* of the process with the most */
};

/* A process that cannot be read counts as 0: it may be gone. */
void bench_gauge_read(const pid_t *pids, int count, struct bench_gauge *gauge);

/* The number-th of the numbers in a file's first line, from 0; 0: there is none. */
long long bench_gauge_number(const char *path, int number);

/* Resident memory of this process, in bytes. */
int64_t bench_gauge_resident(void);

#endif
