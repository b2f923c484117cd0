/* SPDX-License-Identifier: MIT */
/* strategies.h - a test for each strategy: Criterion tests of that name in the suites "row" and
 * "session", each between begin(strategy) and end() of the file that uses it. */
#ifndef DLT_STRATEGIES_H
#define DLT_STRATEGIES_H

#include "strategy_test.h"

#define EACH(name)          \
    static void name(void); \
    DLT_IN(row, name)       \
    DLT_IN(session, name)   \
    static void name(void)

#endif
