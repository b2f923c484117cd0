/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/batch.c plugins/mysql/lease_batch.c */
/* Is what a batch says true if its exchange is cut, or the server dies? (C4, C16, C19, BAT-2) */
#include "batch_fixture.h"

static void session_replace(void)
{
    dlt_session_close(&p);
    tell("kill fin");
    tell("pass");
    cr_assert_eq(dlt_session_open(&p), DLOCK_OK, "%s", p.err.message);
}

/* Whatever became of the request, the same tokens settle it, with numbers that rise. */
static void settle(void)
{
    session_replace();
    try_all(&many, &p);
    each_is(&many, DLOCK_OK);
    for (size_t i = 0; i < many.n; i++)
        cr_assert_gt(many.elements[i].grant.fence, 0);
    unlock_all(&many, &p);
    each_is(&many, DLOCK_OK);
}

LEASED(BAT_2_without_an_answer_all_are_unknown)
{
    warm_up(&p);
    tell("blackhole s2c");
    make(&many, &p, MANY, 1);
    due(&many, &p, 300);
    cr_assert_eq(p.ops->trylock_batch(p.self, many.ops, MANY, &p.err), DLOCK_OK);
    each_is(&many, DLOCK_UNKNOWN);
    settle();
}

/* After each byte of the answers. What is certain is so, and nobody has heard of BUSY or LOST. */
static bool cut_after(int bytes, bool unlocks)
{
    bool whole = true;
    char order[32];

    make(&many, &p, MANY, 1);
    if (unlocks)
        try_all(&many, &p);
    (void)snprintf(order, sizeof order, "cut s2c %d rst", bytes);
    tell(order);
    if (unlocks)
        unlock_all(&many, &p);
    else
        try_all(&many, &p);
    for (size_t i = 0; i < MANY; i++) {
        const enum dlock_status status = many.elements[i].status;

        cr_assert(status == DLOCK_OK || status == DLOCK_UNKNOWN, "%d bytes: %zu: %s: %s", bytes, i,
                  dlock_status_name((int)status), many.errors[i].message);
        whole = whole && status == DLOCK_OK;
        if (status == DLOCK_OK)
            cr_assert_eq(held(many.names[i]), !unlocks);
    }
    settle();
    return whole;
}

LEASED(BAT_2_an_answer_that_is_cut)
{
    warm_up(&p);
    for (int unlocks = 0; unlocks < 2; unlocks++)
        for (int bytes = 1; !cut_after(bytes, unlocks != 0); bytes += 61)
            continue;
}

/* BAT_2, C16: the server dies while it works on one of the names. */
struct killed {
    pthread_t thread;
    enum dlock_status status;
};

static void *killed_try(void *arg)
{
    struct killed *killed = arg;

    killed->status = p.ops->trylock_batch(p.self, many.ops, many.n, &p.err);
    return NULL;
}

static void kill_inside(const char *when, const char *table)
{
    struct killed killed;

    trigger(when, table, "NEW", "DO SLEEP(60)");
    make(&many, &p, MANY, 1);
    due(&many, &p, 20000);
    cr_assert_eq(pthread_create(&killed.thread, NULL, killed_try, &killed), 0);
    (void)await_sleep();
    dlt_maria_kill(&server);
    (void)pthread_join(killed.thread, NULL);
    cr_assert_eq(killed.status, DLOCK_OK);
    each_is(&many, DLOCK_UNKNOWN);
    cr_assert(dlt_maria_again(&server), "%s", server.why);
    cr_assert_str_eq(dlt_maria_ask(&server, "DROP TRIGGER t"), "");
    reopen(&u);
}

LEASED(BAT_2_C16_the_server_is_killed_inside_the_batch)
{
    uint64_t fence = 0;

    warm_up(&p);
    fence = many.elements[0].grant.fence;
    kill_inside(is_row() ? "UPDATE" : "INSERT", "names");
    for (size_t i = 0; i < MANY; i++)
        cr_assert(!held(many.names[i]), "one statement takes all, or none");
    settle();
    if (!is_row()) {
        kill_inside("UPDATE", "fences");
        for (size_t i = 0; i < MANY; i++)
            cr_assert(held(many.names[i]));
        settle();
    }
    make(&many, &p, MANY, 50);
    try_all(&many, &p);
    each_is(&many, DLOCK_OK);
    cr_assert_gt(many.elements[0].grant.fence, fence);
}

LEASED(BAT_2_what_was_not_sent_is_unavailable)
{
    warm_up(&p);
    tell("accept refuse");
    tell("kill fin");
    dlt_sleep_ms(100);
    make(&many, &p, MANY, 1);
    due(&many, &p, 5000);
    cr_assert_eq(p.ops->trylock_batch(p.self, many.ops, MANY, &p.err), DLOCK_UNAVAILABLE);
    unlock_all(&many, &p);
    each_is(&many, DLOCK_UNAVAILABLE);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_neq(many.errors[i].message[0], '\0');
}
