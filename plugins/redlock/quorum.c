/* SPDX-License-Identifier: MIT */
#include "quorum.h"

#include <stdlib.h>

unsigned redlock_quorum_need(unsigned nodes)
{
    return nodes / 2 + 1;
}

struct redlock_quorum_tally redlock_quorum_count(const enum redlock_quorum_vote *votes,
                                                 unsigned nodes)
{
    struct redlock_quorum_tally tally = {.nodes = nodes, .need = redlock_quorum_need(nodes)};

    for (unsigned i = 0; i < nodes; i++) {
        tally.open += votes[i] == QUORUM_OPEN;
        tally.yes += votes[i] == QUORUM_YES;
        tally.no += votes[i] == QUORUM_NO;
        tally.refused += votes[i] == QUORUM_REFUSED;
        tally.silent += votes[i] == QUORUM_SILENT;
    }
    return tally;
}

enum redlock_quorum_verdict redlock_quorum_acquired(const struct redlock_quorum_tally *tally)
{
    if (tally->yes >= tally->need)
        return QUORUM_WON;
    if (tally->yes + tally->open + tally->silent < tally->need)
        return tally->nodes - tally->refused < tally->need ? QUORUM_SHORT : QUORUM_LOST;
    return tally->yes + tally->open >= tally->need ? QUORUM_WAIT : QUORUM_UNSURE;
}

enum redlock_quorum_verdict redlock_quorum_renewed(const struct redlock_quorum_tally *tally)
{
    if (tally->yes >= tally->need)
        return QUORUM_WON;
    if (tally->nodes - tally->no < tally->need)
        return QUORUM_LOST;
    if (tally->open > 0)
        return QUORUM_WAIT;
    return tally->yes + tally->silent >= tally->need ? QUORUM_UNSURE : QUORUM_SHORT;
}

enum redlock_quorum_verdict redlock_quorum_released(const struct redlock_quorum_tally *tally)
{
    if (tally->yes >= tally->need)
        return QUORUM_WON;
    if (tally->nodes - tally->no < tally->need)
        return QUORUM_LOST;
    if (tally->open > 0)
        return QUORUM_WAIT;
    if (tally->yes + tally->no >= tally->need)
        return tally->yes > 0 ? QUORUM_WON : QUORUM_LOST;
    return tally->silent > 0 || tally->yes > 0 ? QUORUM_UNSURE : QUORUM_SHORT;
}

static int ascending(const void *a, const void *b)
{
    int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

    return (one > other) - (one < other);
}

int64_t redlock_quorum_least(int64_t *values, size_t count, unsigned need)
{
    if (need == 0 || count < need)
        return 0;
    qsort(values, count, sizeof *values, ascending);
    return values[count - need];
}

int64_t redlock_quorum_latest(int64_t *values, size_t count, unsigned need)
{
    if (need == 0 || count < need)
        return -1;
    qsort(values, count, sizeof *values, ascending);
    return values[need - 1];
}
