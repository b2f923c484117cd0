/* SPDX-License-Identifier: MIT */
/*
 * log.h - the history of one process, in a file of its own that is mapped and shared, so that it
 * outlives SIGKILL.
 *
 * Any number of threads append, without a lock: a place is taken by one atomic addition, so that
 * logging does not put the clients in step. A record whose writer was killed inside it is left out
 * by the reader. After fork the child opens a log of its own.
 */
#ifndef DLT_LOG_H
#define DLT_LOG_H

#include "history.h"

struct dlt_log;

/* A new file for up to `capacity` records; sparse, so that it may be large. NULL: errno says why.
 */
struct dlt_log *dlt_log_open(const char *path, size_t capacity);
void dlt_log_close(struct dlt_log *log);

/* What stands for this process in the history, in place of its pid: where pids are used again
 * within a run, something that is not. Before the first record. */
void dlt_log_call(struct dlt_log *log, int32_t pid);

/* CLOCK_BOOTTIME straight from the kernel, past any library that shifts it. */
int64_t dlt_log_now_ns(void);

/* An attempt_id that no other process has while what stands for it is not used again. */
uint64_t dlt_log_attempt(struct dlt_log *log);

/* Fills pid unless it is set, tid and seq, and clock_ns unless it is set. A full log counts what it
 * cannot keep, and the reader refuses it. */
void dlt_log_write(struct dlt_log *log, const struct dlt_record *record);

/* Appends a file to a history. 0; or -1, with the reason in why. */
int dlt_log_read(const char *path, struct dlt_history *history, char *why, size_t why_size);

#endif
