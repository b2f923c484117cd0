/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redlock/quorum.c */
/*
 * What do N answers mean together? All of them, for N = 1 to 9: as a verdict counts votes and does
 * not look at who cast them, every way to split N into the five kinds of votes is every case.
 */
#include "quorum.h"

#include <criterion/criterion.h>

#define NODES_MAX 9

/* Calls fn for every tally of every N. */
static void each_tally(void (*fn)(const struct redlock_quorum_tally *tally))
{
    for (unsigned nodes = 1; nodes <= NODES_MAX; nodes++) {
        struct redlock_quorum_tally t = {.nodes = nodes, .need = redlock_quorum_need(nodes)};

        for (t.yes = 0; t.yes <= nodes; t.yes++)
            for (t.no = 0; t.yes + t.no <= nodes; t.no++)
                for (t.silent = 0; t.yes + t.no + t.silent <= nodes; t.silent++)
                    for (t.refused = 0; t.yes + t.no + t.silent + t.refused <= nodes; t.refused++) {
                        t.open = nodes - t.yes - t.no - t.silent - t.refused;
                        fn(&t);
                    }
    }
}

#define SHOWN   "of %u: %u yes, %u no, %u refused, %u silent, %u open"
#define SHOW(t) (t)->nodes, (t)->yes, (t)->no, (t)->refused, (t)->silent, (t)->open

/* C1: two majorities have a node in common, and a minority beside one is none. */
Test(quorum, need_is_more_than_half)
{
    for (unsigned nodes = 1; nodes <= NODES_MAX; nodes++) {
        cr_expect_gt(2 * redlock_quorum_need(nodes), nodes);
        cr_expect_leq(2 * (redlock_quorum_need(nodes) - 1), nodes);
    }
}

Test(quorum, votes_are_counted)
{
    static const enum redlock_quorum_vote votes[] = {
        QUORUM_YES, QUORUM_NO, QUORUM_YES, QUORUM_SILENT, QUORUM_OPEN, QUORUM_REFUSED, QUORUM_YES};
    struct redlock_quorum_tally tally = redlock_quorum_count(votes, 7);

    cr_expect_eq(tally.nodes, 7u);
    cr_expect_eq(tally.need, 4u);
    cr_expect_eq(tally.yes, 3u);
    cr_expect_eq(tally.no, 1u);
    cr_expect_eq(tally.refused, 1u);
    cr_expect_eq(tally.silent, 1u);
    cr_expect_eq(tally.open, 1u);
}

/* ---- a request for a lock ---- */

/* TRY-1, C1: won by a majority of the configured nodes that said yes, and by nothing else. */
static void won_by_majority(const struct redlock_quorum_tally *t)
{
    cr_expect_eq(redlock_quorum_acquired(t) == QUORUM_WON, t->yes > t->nodes / 2, SHOWN, SHOW(t));
}

Test(quorum, TRY_1_won_by_a_majority_alone)
{
    each_tally(won_by_majority);
}

/* C1: of two requests whose votes are those of the same nodes at most one is won, as no node says
 * yes to both. */
static void rival_loses(const struct redlock_quorum_tally *t)
{
    struct redlock_quorum_tally rival = {.nodes = t->nodes, .need = t->need};

    if (redlock_quorum_acquired(t) != QUORUM_WON)
        return;
    rival.yes = t->nodes - t->yes; /* all that this one did not get */
    rival.no = t->yes;
    cr_expect_neq(redlock_quorum_acquired(&rival), QUORUM_WON, SHOWN, SHOW(t));
}

Test(quorum, C1_two_are_never_won)
{
    each_tally(rival_loses);
}

/* TRY-3, TRY-4: LOST and SHORT are definite. Whatever the open and the silent do yet, it is no
 * majority; while an open one could make it one there is no verdict; and the silent ones, if they
 * could, make it unsure. */
static void definite(const struct redlock_quorum_tally *t)
{
    unsigned could = t->yes + t->open + t->silent;

    switch (redlock_quorum_acquired(t)) {
    case QUORUM_WON:
        break;
    case QUORUM_LOST:
        cr_expect_lt(could, t->need, SHOWN, SHOW(t));
        cr_expect_gt(t->no, 0u, SHOWN, SHOW(t)); /* because of a holder */
        cr_expect_geq(could + t->no, t->need, SHOWN, SHOW(t));
        break;
    case QUORUM_SHORT:
        cr_expect_lt(could + t->no, t->need, SHOWN, SHOW(t));
        break;
    case QUORUM_WAIT:
        cr_expect_gt(t->open, 0u, SHOWN, SHOW(t));
        cr_expect_geq(t->yes + t->open, t->need, SHOWN, SHOW(t));
        break;
    case QUORUM_UNSURE:
        cr_expect_gt(t->silent, 0u, SHOWN, SHOW(t));
        cr_expect_geq(could, t->need, SHOWN, SHOW(t));
        break;
    }
}

Test(quorum, TRY_4_a_no_is_definite)
{
    each_tally(definite);
}

/* No open node is waited for in vain, and a verdict stands whatever the open ones answer. */
static void stands(const struct redlock_quorum_tally *t)
{
    enum redlock_quorum_verdict verdict = redlock_quorum_acquired(t);

    if (t->open == 0) {
        cr_expect_neq(verdict, QUORUM_WAIT, SHOWN, SHOW(t));
        return;
    }
    for (int answer = 0; answer < 4; answer++) {
        struct redlock_quorum_tally next = *t;

        next.open--;
        next.yes += answer == 0;
        next.no += answer == 1;
        next.refused += answer == 2;
        next.silent += answer == 3;
        if (verdict == QUORUM_WON || verdict == QUORUM_LOST || verdict == QUORUM_SHORT)
            cr_expect_neq(redlock_quorum_acquired(&next), QUORUM_WAIT, SHOWN, SHOW(&next));
        if (verdict == QUORUM_WON)
            cr_expect_eq(redlock_quorum_acquired(&next), QUORUM_WON, SHOWN, SHOW(&next));
        else if (verdict != QUORUM_WAIT)
            cr_expect_neq(redlock_quorum_acquired(&next), QUORUM_WON, SHOWN, SHOW(&next));
    }
}

Test(quorum, an_early_verdict_stands)
{
    each_tally(stands);
}

/* ---- renewal ---- */

/* REN-2: by a majority that holds it; LOST when there cannot be one; nothing else is definite. */
static void renewed(const struct redlock_quorum_tally *t)
{
    enum redlock_quorum_verdict verdict = redlock_quorum_renewed(t);

    cr_expect_eq(verdict == QUORUM_WON, t->yes >= t->need, SHOWN, SHOW(t));
    cr_expect_eq(verdict == QUORUM_LOST, t->yes < t->need && t->nodes - t->no < t->need, SHOWN,
                 SHOW(t));
    if (verdict == QUORUM_WAIT)
        cr_expect_gt(t->open, 0u, SHOWN, SHOW(t));
    if (t->open == 0)
        cr_expect_neq(verdict, QUORUM_WAIT, SHOWN, SHOW(t));
}

Test(quorum, REN_2_renewed_by_a_majority_that_holds_it)
{
    each_tally(renewed);
}

/* ---- release ---- */

/* UNL-1: OK only if a majority holds it no more, LOST only if no majority held it. */
static void released(const struct redlock_quorum_tally *t)
{
    enum redlock_quorum_verdict verdict = redlock_quorum_released(t);

    if (verdict == QUORUM_WON)
        cr_expect(t->yes > 0 && t->yes + t->no >= t->need, SHOWN, SHOW(t));
    if (verdict == QUORUM_LOST)
        cr_expect_lt(t->yes + t->open, t->need, SHOWN, SHOW(t));
    if (t->yes >= t->need)
        cr_expect_eq(verdict, QUORUM_WON, SHOWN, SHOW(t));
    if (t->open == 0) {
        cr_expect_neq(verdict, QUORUM_WAIT, SHOWN, SHOW(t));
        cr_expect_eq(verdict == QUORUM_SHORT || verdict == QUORUM_UNSURE,
                     t->yes < t->need && t->nodes - t->no >= t->need && t->yes + t->no < t->need,
                     SHOWN, SHOW(t));
    }
    /* UNL-2: not sent is not unknown, and the other way round. */
    if (verdict == QUORUM_SHORT)
        cr_expect(t->silent == 0 && t->yes == 0, SHOWN, SHOW(t));
}

Test(quorum, UNL_1_released_by_a_majority)
{
    each_tally(released);
}

/* ---- moments ---- */

/* TRY-2: a majority counts as long as this, and no longer. */
Test(quorum, the_lease_that_a_majority_counts)
{
    int64_t leases[] = {900, 100, 500, 700, 300};

    cr_expect_eq(redlock_quorum_least(leases, 5, 3), 500);
    cr_expect_eq(redlock_quorum_least(leases, 5, 5), 100);
    cr_expect_eq(redlock_quorum_least(leases, 5, 1), 900);
    cr_expect_eq(redlock_quorum_least(leases, 2, 3), 0, "fewer than a majority count nothing");
}

/* TRY-3: holder_ms is when enough nodes are free, not when all are. */
Test(quorum, the_moment_when_enough_are_free)
{
    int64_t left[] = {900, 100, 500};

    cr_expect_eq(redlock_quorum_latest(left, 3, 1), 100);
    cr_expect_eq(redlock_quorum_latest(left, 3, 2), 500);
    cr_expect_eq(redlock_quorum_latest(left, 3, 4), -1);
    cr_expect_eq(redlock_quorum_latest(left, 0, 1), -1);
}
