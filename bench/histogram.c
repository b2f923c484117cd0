/* SPDX-License-Identifier: MIT */
#include "histogram.h"

#define SUB_BUCKETS (1u << BENCH_SUB_BITS)

/* The bits shifted away are less than a sub-bucket; a value below two rows of them loses none. */
static uint32_t bucket_of(uint64_t value)
{
    uint32_t shift = 0;

    if (value >= 2 * SUB_BUCKETS)
        shift = 63u - (uint32_t)__builtin_clzll(value) - BENCH_SUB_BITS;
    return shift * SUB_BUCKETS + (uint32_t)(value >> shift);
}

static uint64_t largest_of(uint32_t bucket)
{
    uint32_t shift = bucket < SUB_BUCKETS ? 0 : bucket / SUB_BUCKETS - 1;

    return (((uint64_t)(bucket - shift * SUB_BUCKETS) + 1) << shift) - 1;
}

void bench_histogram_add(struct bench_histogram *histogram, uint64_t value)
{
    histogram->count++;
    histogram->buckets[bucket_of(value)]++;
    if (value > histogram->max)
        histogram->max = value;
}

void bench_histogram_merge(struct bench_histogram *into, const struct bench_histogram *from)
{
    into->count += from->count;
    for (uint32_t i = 0; i < BENCH_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
    if (from->max > into->max)
        into->max = from->max;
}

uint64_t bench_histogram_quantile(const struct bench_histogram *histogram, double share)
{
    uint64_t seen = 0;

    for (uint32_t i = 0; i < BENCH_BUCKETS && histogram->count != 0; i++) {
        seen += histogram->buckets[i];
        if (seen != 0 && (double)seen >= share * (double)histogram->count)
            return largest_of(i) < histogram->max ? largest_of(i) : histogram->max;
    }
    return histogram->max;
}
