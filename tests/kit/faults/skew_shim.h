/* SPDX-License-Identifier: MIT */
/* skew_shim.h - shared by the two halves of libdlockskew.so: what it answers (skew_read.c), and the
 * deadlines that it hands to the kernel (skew_wait.c). */
#ifndef DLT_SKEW_SHIM_H
#define DLT_SKEW_SHIM_H

#include "shim.h"
#include "skew.h"

/* How far the clock is off now. */
int64_t skew_offset(clockid_t id);

struct timespec skew_added(const struct timespec *at, int64_t ns);

#endif
