/* SPDX-License-Identifier: MIT */
/* strategy_test.h - for the file strategies.h of a store with strategies: a Criterion test in the
 * suite of that strategy, between begin(strategy) and end() of the file that has the test. */
#ifndef DLT_STRATEGY_TEST_H
#define DLT_STRATEGY_TEST_H

#include <criterion/criterion.h>

#define DLT_IN(strategy, name) \
    Test(strategy, name)       \
    {                          \
        begin(#strategy);      \
        name();                \
        end();                 \
    }

#endif
