/* SPDX-License-Identifier: MIT */
/*
 * process.h - the process of a holder or waiter, which its label names: "host:pid@space" or
 * "host:pid@space:text". A label proves nothing; what is found here is for people.
 */
#ifndef CLI_PROCESS_H
#define CLI_PROCESS_H

#include "lib/pid_space.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_HOST_SIZE 65

enum process_state {
    PROCESS_UNKNOWN,   /* the label names no process, or not its PID namespace */
    PROCESS_ELSEWHERE, /* on another host, or in another PID namespace */
    PROCESS_RUNS,
    PROCESS_STOPPED, /* by a signal, or by a debugger */
    PROCESS_ENDED    /* or its number belongs to another process now */
};

struct process {
    char host[PROCESS_HOST_SIZE];
    long pid;                      /* 0: the label names no process */
    char space[DL_PID_SPACE_SIZE]; /* "": not known */
    enum process_state state;
    char program[16]; /* its name as the kernel has it; "": not known */
    char command[16]; /* of dlock: the program that it runs; "": none, or not known */
};

/* Reads the label, and what this host knows of the process. held_ms: since when the process must
 * have been there; -1: not known. */
void process_read(struct process *process, const char *label, int64_t held_ms);

/* True: both labels name a process and its PID namespace, and it is the same one. */
bool process_is_same(const struct process *a, const struct process *b);

#define PROCESS_PARENTS_MOST 64

/* The process that started it, the one that started that, and so on; all on this host. Returns how
 * many: none if it does not run on this host. */
size_t process_parents(const struct process *process, long parents[PROCESS_PARENTS_MOST]);

/* True: it runs on this host, and has started this process, or a process that did, and so on. */
bool process_is_parent(const struct process *process);

/* True: it runs on this host, or is stopped there. */
bool process_is_here(const struct process *process);

/* "runs", "stopped", "ended", "elsewhere", "unknown" */
const char *process_state_word(enum process_state state);

/* What the kernel says of a process of this PID namespace. */
struct proc_stat {
    pid_t pid, parent, group;
    char state;                     /* 'R', 'S', 'T' ... */
    unsigned long long start_ticks; /* since the boot */
    char program[16];               /* its name as the kernel has it */
};

/* False: there is no such process, or it has ended (a zombie), or it is hidden. */
bool proc_stat_read(pid_t pid, struct proc_stat *out);

#endif
