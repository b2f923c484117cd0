/* SPDX-License-Identifier: MIT */
#include "sys/struct_size.h"
#include "sys/error.h"

#define SIZE_MOST 4096 /* no structure comes near; more was never set */

enum dlock_status dl_struct_size_check(size_t said, size_t first, const char *what,
                                       struct dlock_error *err)
{
    if (said >= first && said <= SIZE_MOST)
        return DLOCK_OK;
    return dl_error(err, DLOCK_INVALID,
                    "%s.struct_size is %zu, want sizeof(struct %s): its _INIT macro sets it", what,
                    said, what);
}
