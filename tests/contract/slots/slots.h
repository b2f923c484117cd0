/* SPDX-License-Identifier: MIT */
/* slots.h - the cases of dlock-slot-check: what the slots of a plugin promise. cases.def is the
 * table. */
#ifndef DLT_SLOTS_H
#define DLT_SLOTS_H

#include "conformance.h"

#define DLT_SLOT(name, ...) void dlt_slots_##name(struct dlt_run *run);
#include "cases.def"
#undef DLT_SLOT

#endif
