/* SPDX-License-Identifier: MIT */
#include "spread.h"

/* The number-th smallest value, from 0. There are few values. */
static double smallest(const double *values, int count, int number)
{
    for (int i = 0; i < count; i++) {
        int below = 0, same = 0;

        for (int j = 0; j < count; j++) {
            below += values[j] < values[i];
            same += values[j] == values[i];
        }
        if (below <= number && number < below + same)
            return values[i];
    }
    return values[0];
}

struct bench_spread bench_spread_of(const double *values, int count)
{
    return (struct bench_spread){
        .median =
            (smallest(values, count, (count - 1) / 2) + smallest(values, count, count / 2)) / 2,
        .min = smallest(values, count, 0),
        .max = smallest(values, count, count - 1),
    };
}
