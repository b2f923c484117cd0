/* SPDX-License-Identifier: MIT */
/*
 * struct_size.h - structures of the public headers, which may grow at their ends, between programs
 * that were built against different headers.
 */
#ifndef DL_STRUCT_SIZE_H
#define DL_STRUCT_SIZE_H

#include <dlock/types.h>

#include <stddef.h>

/* The size of a structure that ends with that member. */
#define DL_SIZE_TO(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

/*
 * How many bytes both sides know.
 * said: the structure's struct_size; less than the first published size means that size.
 * first: the first published size.
 * known: the size that this library knows.
 */
static inline size_t dl_struct_size(size_t said, size_t first, size_t known)
{
    size_t size = said > first ? said : first;

    return size < known ? size : known;
}

/*
 * INVALID: nobody has set the size of an application's structure. It is less than the first
 * published size, or absurd; members would be passed over without a word.
 * what: the structure's name, for the message.
 */
enum dlock_status dl_struct_size_check(size_t said, size_t first, const char *what,
                                       struct dlock_error *err);

#endif
