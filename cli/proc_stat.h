/* SPDX-License-Identifier: MIT */
/* proc_stat.h - what the kernel says of a process of this PID namespace. */
#ifndef CLI_PROC_STAT_H
#define CLI_PROC_STAT_H

#include <stdbool.h>
#include <sys/types.h>

struct proc_stat {
    pid_t pid, parent, group;
    char state;                     /* 'R', 'S', 'T' ... */
    unsigned long long start_ticks; /* since the boot */
    char program[16];               /* its name as the kernel has it */
};

/* False: there is no such process, or it has ended (a zombie), or it is hidden. */
bool proc_stat_read(pid_t pid, struct proc_stat *out);

#endif
