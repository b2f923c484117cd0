/* SPDX-License-Identifier: MIT */
/*
 * oracle.h - do two claims overlap now? Asked in shared memory by those who claim, at the moment at
 * which they do, so that it sees what is shorter than the history can tell.
 *
 * A claim counts until the end of the lease that its holder has last heard of: what a stopped
 * process left behind says nothing afterwards. Each thread has a place of its own and writes there
 * before it looks at the others, so that of two who overlap at least one sees the other.
 */
#ifndef TORTURE_ORACLE_H
#define TORTURE_ORACLE_H

#include "shared.h"

#include <history.h>

/* The claim of the thread at `place` begins: attempt, mode and permit are those of the record.
 * Claims with other permits do not overlap with it. */
void oracle_enter(struct shared *shared, uint32_t name, unsigned place,
                  const struct dlt_record *record, int64_t until_ns);

/* It goes on until then; looks around once more. */
void oracle_extend(struct shared *shared, uint32_t name, unsigned place, int64_t until_ns);

/* Exclusive from now on no more. */
void oracle_downgrade(struct shared *shared, uint32_t name, unsigned place);

/* Any thread may call it, also for another's place; harmless twice. */
void oracle_leave(struct shared *shared, uint32_t name, unsigned place);

/* The attempt by which the thread at `place` claims it exclusively; 0: it does not. */
uint64_t oracle_claims(const struct shared *shared, uint32_t name, unsigned place);

#endif
