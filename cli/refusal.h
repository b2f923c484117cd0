/* SPDX-License-Identifier: MIT */
/* refusal.h - what the command prints when a lock was not acquired, and its exit code. */
#ifndef CLI_REFUSAL_H
#define CLI_REFUSAL_H

#include "acquire.h"

struct refusal {
    bool skip_quietly;  /* nothing is printed if another owner holds the lock */
    long conflict_code; /* the exit code then; -1: that of the status */
};

/* True: another owner holds the lock. */
bool refusal_is_conflict(const struct acquire *acquire);

/* Prints why the lock was not acquired, and returns the exit code. rules: NULL: the usual ones. */
int refusal_report(struct acquire *acquire, const struct refusal *rules);

/* What a command does with its lock. Returns the exit code. */
typedef int refusal_use_fn(struct acquire *acquire, const struct signals *signals);

/* Acquires the lock and calls use; or prints why not. Frees what it acquired. Returns the exit
 * code. */
int refusal_or_use(struct acquire *acquire, refusal_use_fn *use);

#endif
