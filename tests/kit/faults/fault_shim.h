/* SPDX-License-Identifier: MIT */
/* fault_shim.h - shared by the parts of libdlockfault.so: the plan (fault_plan.c), and the
 * functions that it is asked in: memory (fault_memory.c), files (fault_file.c), the rest
 * (fault_system.c). */
#ifndef DLT_FAULT_SHIM_H
#define DLT_FAULT_SHIM_H

#include "fault.h"
#include "shim.h"

/* Counts a call. 0: it may go on; else the errno that it is to fail with. *len, unless NULL,
 * becomes less where the plan is to transfer less. Touches nothing but the mapped file. */
int fault_meets(enum dlt_fault_kind kind, size_t *len);

/* The caller, by an address of its code, is in the library that the plan spares. */
bool fault_spares(const void *caller);

/* Not zero: this thread's calls are left alone. */
extern _Thread_local unsigned fault_exempt;

/* For a function that answers a failure with `value` and errno. */
#define FAULT_RETURN(kind, len, value)          \
    do {                                        \
        int met_error = fault_meets(kind, len); \
                                                \
        if (met_error != 0) {                   \
            errno = met_error;                  \
            return value;                       \
        }                                       \
    } while (0)

#endif
