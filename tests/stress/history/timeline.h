/* SPDX-License-Identifier: MIT */
/*
 * timeline.h - a picture (SVG) of what happened to one name around a moment: a line for each
 * thread, on it its claims and the calls that led to them; across all of them what the nemesis did.
 */
#ifndef DLT_TIMELINE_H
#define DLT_TIMELINE_H

#include "check.h"

/* The history is sorted. Draws from window_ns before the violation to as long after it. False:
 * errno. */
bool dlt_timeline_write(const char *path, const struct dlt_history *history,
                        const struct dlt_violation *violation, int64_t window_ns);

#endif
