/* SPDX-License-Identifier: MIT */
/* struct_size.h - the sizes of structures that cross the border of the library. */
#ifndef DL_STRUCT_SIZE_H
#define DL_STRUCT_SIZE_H

#include <dlock/types.h>

#include <stddef.h>

/*
 * INVALID: struct_size is not a size that the structure ever had: nobody has set it, or the program
 * was built with a later header.
 * known: the size of the structure. what: its name, for the message.
 */
enum dlock_status dl_struct_size_check(size_t said, size_t known, const char *what,
                                       struct dlock_error *err);

#endif
