/* SPDX-License-Identifier: MIT */
#include "fence.h"
#include "lib/time.h"

#include <stdlib.h>

#define US_PER_MS     1000
#define FIRST_US      1000 /* by which the first estimate is too great, rather than too small */
#define RISE_MOST_US  1000 /* with one answer: it may have been late */
#define ERROR_MOST_US 5000 /* of an estimate that is too great */
#define FORGETS       64   /* a smaller error shrinks by this part with each answer */
#define OUTLIER_SHARE 4    /* a clock by this part of the ttl ahead of others is not followed */

static int by_value(const void *a, const void *b)
{
    const int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

    return (one > other) - (one < other);
}

static bool counts(const struct redlock_fence_vote *vote, int64_t number, int64_t ttl_ms)
{
    return vote->clock_us > 0 && vote->number <= number &&
           number + REDLOCK_FENCE_NUMBERS <= vote->clock_us + ttl_ms * US_PER_MS;
}

static struct redlock_fence_choice choice_of(const struct redlock_fence_vote *votes, unsigned count,
                                             int64_t number, int64_t ttl_ms)
{
    struct redlock_fence_choice choice = {.number = number};

    for (unsigned i = 0; i < count; i++) {
        if (counts(&votes[i], number, ttl_ms) && votes[i].number == number)
            choice.agreed++;
        else if (counts(&votes[i], number, ttl_ms))
            choice.behind |= 1u << i;
    }
    return choice;
}

struct redlock_fence_choice redlock_fence_choose(const struct redlock_fence_vote *votes,
                                                 unsigned count, unsigned need, int64_t ttl_ms)
{
    struct redlock_fence_choice best = {.number = 0};

    for (unsigned i = 0; i < count; i++) {
        struct redlock_fence_choice choice;

        if (votes[i].clock_us == 0 || (best.number != 0 && votes[i].number >= best.number))
            continue;
        choice = choice_of(votes, count, votes[i].number, ttl_ms);
        if (choice.agreed + (unsigned)__builtin_popcount(choice.behind) >= need)
            best = choice;
    }
    return best;
}

int64_t redlock_fence_spread_us(const struct redlock_fence_vote *votes, unsigned count,
                                unsigned need)
{
    int64_t clocks[REDLOCK_NODES_MAX], least = INT64_MAX;
    unsigned n = 0;

    for (unsigned i = 0; i < count; i++)
        if (votes[i].clock_us > 0)
            clocks[n++] = votes[i].clock_us;
    if (n < need)
        return 0;
    qsort(clocks, n, sizeof *clocks, by_value);
    for (unsigned i = 0; i + need <= n; i++)
        if (clocks[i + need - 1] - clocks[i] < least)
            least = clocks[i + need - 1] - clocks[i];
    return least;
}

int64_t redlock_fence_ahead_us(const struct redlock_fence_vote *votes, unsigned count,
                               unsigned need)
{
    int64_t ahead[REDLOCK_NODES_MAX];
    unsigned n = 0;

    for (unsigned i = 0; i < count; i++)
        if (votes[i].clock_us > 0)
            ahead[n++] = votes[i].number - votes[i].clock_us;
    if (n < need)
        return 0;
    qsort(ahead, n, sizeof *ahead, by_value);
    return ahead[need - 1] > 0 ? ahead[need - 1] : 0;
}

void redlock_fence_first(struct redlock_fence_clocks *clocks, unsigned node, int64_t clock_us,
                         int64_t read_ns)
{
    int64_t unknown = 0;

    if (clock_us > 0)
        (void)atomic_compare_exchange_strong(&clocks->ahead_us[node], &unknown,
                                             clock_us - read_ns / DL_NS_PER_US + FIRST_US);
}

/* The estimate rises fast and falls slowly: a number that is a little too great costs nothing, and
 * one that is too small costs a second round. */
static int64_t estimate(int64_t known, int64_t seen)
{
    if (seen > known + RISE_MOST_US)
        return known + RISE_MOST_US;
    if (seen >= known)
        return seen;
    if (seen < known - ERROR_MOST_US)
        return seen + ERROR_MOST_US;
    return known - (known - seen + FORGETS - 1) / FORGETS;
}

void redlock_fence_note(struct redlock_fence_clocks *clocks, unsigned node, int64_t clock_us,
                        int64_t sent_ns)
{
    int64_t seen = clock_us - sent_ns / DL_NS_PER_US;
    int64_t known = atomic_load_explicit(&clocks->ahead_us[node], memory_order_relaxed);

    atomic_store_explicit(&clocks->ahead_us[node], known == 0 ? seen : estimate(known, seen),
                          memory_order_relaxed);
}

int64_t redlock_fence_guess(const struct redlock_fence_clocks *clocks, unsigned count,
                            unsigned need, int64_t ttl_ms, int64_t now_ns)
{
    int64_t ahead[REDLOCK_NODES_MAX], most = 0;
    unsigned n = 0;

    for (unsigned i = 0; i < count; i++) {
        ahead[n] = atomic_load_explicit(&clocks->ahead_us[i], memory_order_relaxed);
        n += ahead[n] != 0;
    }
    if (n < need)
        return 0;
    qsort(ahead, n, sizeof *ahead, by_value);
    most = ahead[need - 1];
    for (unsigned i = need; i < n; i++)
        if (ahead[i] - ahead[need - 1] <= ttl_ms * US_PER_MS / OUTLIER_SHARE)
            most = ahead[i];
    return now_ns / DL_NS_PER_US + most;
}
