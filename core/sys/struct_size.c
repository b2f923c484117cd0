/* SPDX-License-Identifier: MIT */
#include "sys/struct_size.h"
#include "sys/error.h"

enum dlock_status dl_struct_size_check(size_t said, size_t known, const char *what,
                                       struct dlock_error *err)
{
    if (said == known)
        return DLOCK_OK;
    return dl_error(err, DLOCK_INVALID,
                    "%s.struct_size is %zu, want %zu, the sizeof of the structure: its _INIT macro "
                    "sets it",
                    what, said, known);
}
