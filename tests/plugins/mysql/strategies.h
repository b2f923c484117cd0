/* SPDX-License-Identifier: MIT */
/* strategies.h - a test for some strategies: Criterion tests of that name in the suites "row",
 * "insert" and "session", each between begin(strategy) and end() of the file that uses it. */
#ifndef DLT_STRATEGIES_H
#define DLT_STRATEGIES_H

#include "strategy_test.h"

/* Those whose locks are leases. */
#define LEASED(name)        \
    static void name(void); \
    DLT_IN(row, name)       \
    DLT_IN(insert, name)    \
    static void name(void)

#define PINNED(name)        \
    static void name(void); \
    DLT_IN(session, name)   \
    static void name(void)

#define EACH(name)          \
    static void name(void); \
    DLT_IN(row, name)       \
    DLT_IN(insert, name)    \
    DLT_IN(session, name)   \
    static void name(void)

#endif
