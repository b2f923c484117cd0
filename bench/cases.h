/* SPDX-License-Identifier: MIT */
/* cases.h - the names of the workloads of bench_suite (suite.h). */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#define ALONE    "1 thread"
#define NAMES(n) #n " threads, " #n " names"
#define APART    "8 processes, 8 names"
#define PASSING  "hand-off to another process"
#define PUSHING  "8 processes, 1 name, 1 ms + 1 ms"
#define PAUSING  "8 threads, 1 name, 1 ms + 1 ms"
#define EMPTY    "8 threads, 1 name, empty"
#define HUNDRED  "100 waiters in 20 processes, 5 ms"
#define ASLEEP   "99 waiters asleep in 20 processes"
#define FEW      "10,000 leases, renewed"
#define LEASES   "100,000 leases, renewed"
#define OPENING  "open, lock, unlock, close"
#define RUNNING  "dlock run NAME -- true"
#define KILLED   "kill -9 of a holder, to the next lock"
#define CLOSING  "close with 1,000 locks held"
#define SILENT   "the same, of a silent store"
#define MIX      "8 threads, 1 name, 90 of 100 shared"
#define WAIT(n)  #n " processes, 1 name, 1 ms held"

#endif
