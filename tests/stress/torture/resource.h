/* SPDX-License-Identifier: MIT */
/*
 * resource.h - something that fencing tokens protect: it takes a write only with a token that is
 * not below any that it saw, in one step with the write.
 */
#ifndef TORTURE_RESOURCE_H
#define TORTURE_RESOURCE_H

#include "shared.h"

#include "../history/log.h"

/* Writes to the resource of record->name_id with record->fence, and notes the try and the answer.
 * False: refused. */
bool resource_write(struct shared *shared, struct dlt_log *log, const struct dlt_record *record);

#endif
