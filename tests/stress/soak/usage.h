/* SPDX-License-Identifier: MIT */
/* usage.h - what this process uses: heap, descriptors, threads. */
#ifndef SOAK_USAGE_H
#define SOAK_USAGE_H

#include <stdint.h>

struct usage {
    int64_t heap;     /* bytes in use */
    int64_t resident; /* bytes */
    int64_t descriptors, threads;
};

struct usage usage_now(void);

#endif
