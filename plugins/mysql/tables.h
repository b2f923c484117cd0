/* SPDX-License-Identifier: MIT */
/*
 * tables.h - when the tables were checked last, by any connection of a client. A check costs the
 * server milliseconds, and a client makes many connections at once.
 */
#ifndef MY_TABLES_H
#define MY_TABLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MY_TABLES_CHECK_NS INT64_C(5000000000)

struct my_tables {
    _Atomic int64_t checked_ns; /* 0: check them next time */
    atomic_bool has_permits;    /* {permits} was there then, or was made */
    atomic_bool has_data;       /* the same of {data}; false: this user may not read it */
    _Atomic int64_t reaped_ns;  /* the last look for rows of {data} that nobody needs; 0: none */
};

static inline bool my_tables_checked(const struct my_tables *tables, int64_t now_ns)
{
    const int64_t checked_ns = atomic_load(&tables->checked_ns);

    return checked_ns != 0 && now_ns - checked_ns < MY_TABLES_CHECK_NS;
}

#endif
