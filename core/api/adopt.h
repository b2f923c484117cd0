/* SPDX-License-Identifier: MIT */
/*
 * adopt.h - dlock_adopt: takes over a lease that another program holds, by its token.
 */
#ifndef DL_ADOPT_H
#define DL_ADOPT_H

#include "hold/handle.h"

enum dlock_status dl_adopt(struct dlock_handle *lock, const char *token, struct dlock_error *err);

#endif
