/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/row_batch.c */
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
    dlt_batch_try(&many, &p);
    dlt_batch_is(&many, 0, many.n, DLOCK_OK);
    for (size_t i = 0; i < many.n; i++)
        cr_assert_gt(many.elements[i].grant.fence, 0);
    dlt_batch_unlock(&many, &p);
    dlt_batch_is(&many, 0, many.n, DLOCK_OK);
}

LEASED(BAT_2_without_an_answer_all_are_unknown)
{
    warm_up(&p);
    tell("blackhole s2c");
    dlt_batch_init(&many, &p, MANY, "b");
    p.call_ms = 300;
    dlt_batch_try(&many, &p);
    p.call_ms = CALL_MS;
    dlt_batch_is(&many, 0, many.n, DLOCK_UNKNOWN);
    settle();
}

/* After so many bytes of the answers: true, unless there are fewer. What is certain is so, and
 * nobody has heard of BUSY or LOST. */
static bool cut_after(int bytes, bool unlocks)
{
    bool cut = false;
    char order[32];

    dlt_batch_init(&many, &p, MANY, "b");
    if (unlocks)
        dlt_batch_try(&many, &p);
    (void)snprintf(order, sizeof order, "cut s2c %d rst", bytes);
    tell(order);
    if (unlocks)
        dlt_batch_unlock(&many, &p);
    else
        dlt_batch_try(&many, &p);
    for (size_t i = 0; i < MANY; i++) {
        const enum dlock_status status = many.elements[i].status;

        cr_assert(status == DLOCK_OK || status == DLOCK_UNKNOWN, "%d bytes: %zu: %s: %s", bytes, i,
                  dlock_status_name((int)status), many.errors[i].message);
        cut = cut || status != DLOCK_OK;
        if (status == DLOCK_OK)
            cr_assert_eq(held(many.names[i]), !unlocks);
    }
    settle();
    return cut;
}

LEASED(BAT_2_an_answer_that_is_cut)
{
    enum { STEP = 61, MOST = 100 * STEP };

    warm_up(&p);
    for (int unlocks = 0; unlocks < 2; unlocks++) {
        int bytes = 1;

        while (bytes < MOST && cut_after(bytes, unlocks != 0))
            bytes += STEP;
        cr_assert_gt(bytes, STEP, "no answer was cut");
        cr_assert_lt(bytes, MOST, "each answer was cut");
    }
}

/* BAT_2, C16: the server dies while it works on one of the names. */
static void *killed_try(void *arg)
{
    dlt_batch_try(&many, &p);
    return arg;
}

static void kill_inside(const char *when, const char *table)
{
    pthread_t thread;

    trigger(when, table, "NEW", "DO SLEEP(60)");
    dlt_batch_init(&many, &p, MANY, "b");
    p.call_ms = 20000;
    cr_assert_eq(pthread_create(&thread, NULL, killed_try, NULL), 0);
    (void)await_sleep();
    dlt_maria_kill(&server);
    (void)pthread_join(thread, NULL);
    p.call_ms = CALL_MS;
    dlt_batch_is(&many, 0, many.n, DLOCK_UNKNOWN);
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
    dlt_batch_init(&many, &p, MANY, "b");
    dlt_batch_try(&many, &p);
    dlt_batch_is(&many, 0, many.n, DLOCK_OK);
    cr_assert_gt(many.elements[0].grant.fence, fence);
}

LEASED(BAT_2_what_was_not_sent_is_unavailable)
{
    warm_up(&p);
    tell("accept refuse");
    tell("kill fin");
    dlt_sleep_ms(100);
    dlt_batch_init(&many, &p, MANY, "b");
    dlt_batch_due(&many, &p, 5000);
    cr_assert_eq(p.ops->trylock_batch(p.self, many.ops, MANY, &p.err), DLOCK_UNAVAILABLE);
    dlt_batch_unlock(&many, &p);
    dlt_batch_is(&many, 0, many.n, DLOCK_UNAVAILABLE);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_neq(many.errors[i].message[0], '\0');
}
