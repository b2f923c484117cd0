/* SPDX-License-Identifier: MIT */
/* subjects.h - the stores that were asked for, their limits and their rivals. */
#ifndef BENCH_SUBJECTS_H
#define BENCH_SUBJECTS_H

#include "plan.h"

#define BENCH_SUBJECTS_MAX 128

struct bench_subjects {
    struct bench_subject all[BENCH_SUBJECTS_MAX];
    int count;
};

/* "URI" or "LABEL=URI". 0, or -1 and why of BENCH_WHY_SIZE: no URI, or too many. */
int bench_subjects_add(struct bench_subjects *subjects, const char *text, char *why);

/* Adds each store a second time, by dlock_op_start: one thread of a process does everything. */
void bench_subjects_add_async(struct bench_subjects *subjects);

/* Add limits, which are the bare parts of these stores, and other libraries on the same stores. */
void bench_subjects_add_limits(struct bench_subjects *subjects);
void bench_subjects_add_rivals(struct bench_subjects *subjects);

/* Non-zero: the two subjects use the same servers, or the same file. */
int bench_subjects_same_store(const struct bench_subject *one, const struct bench_subject *other);

/* Opens the meters. 0, or -1 and why. */
int bench_subjects_open(struct bench_subjects *subjects, char *why);
void bench_subjects_close(struct bench_subjects *subjects);

#endif
