/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/row_batch.c */
/* Does each element of a batch have its own answer, whatever is in the way of the others? (C6, C13,
 * C19, BAT-1, BAT-4)
 */
#include "batch_fixture.h"

/* The longest names: not all of them have room in one exchange. Some begin with all of another. */
LEASED(BAT_1_many_long_names)
{
    static char longest[DLT_BATCH_MOST][256];

    dlt_batch_init(&many, &s, DLT_BATCH_MOST, "b");
    for (size_t i = 0; i < DLT_BATCH_MOST; i++) {
        (void)snprintf(longest[i], sizeof longest[i], "%0255zu", i);
        many.requests[i].req.name = (const unsigned char *)longest[i];
        many.requests[i].req.name_len = i % 2 == 0 ? 255 : (uint32_t)(100 + i);
    }
    for (int turn = 0; turn < 2; turn++) {
        dlt_batch_try(&many, &s);
        dlt_batch_is(&many, 0, many.n, DLOCK_OK);
        dlt_batch_unlock(&many, &s);
        dlt_batch_is(&many, 0, many.n, DLOCK_OK);
    }
}

/* C13: a name that is free, and reserved for the first waiter. */
LEASED(BAT_1_a_name_that_is_reserved)
{
    warm_up(&s);
    cr_assert_str_eq(dlt_maria_ask(&server,
                                   "UPDATE f_%s SET next_token = 'w', next_us = 9000000 +"
                                   " TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
                                   " WHERE name = 'b002'",
                                   is_row() ? "names" : "fences"),
                     "");
    dlt_batch_init(&many, &s, MANY, "b");
    dlt_batch_try(&many, &s);
    dlt_batch_others_are(&many, 2, DLOCK_OK);
    dlt_batch_is(&many, 2, 3, DLOCK_BUSY);
    cr_assert(!held("b002"));
}

/* A holder that died, and a lease that ran out before it was given back. */
LEASED(BAT_1_leases_that_are_over)
{
    dlt_batch_init(&many, &s, MANY, "b");
    dlt_batch_try(&many, &s);
    dlt_batch_is(&many, 0, many.n, DLOCK_OK);
    cr_assert_str_eq(
        dlt_maria_ask(&server, "UPDATE f_names SET until_us = 1 WHERE name IN ('b001', 'b005')"),
        "");
    dlt_batch_unlock(&many, &s);
    for (size_t i = 0; i < MANY; i++)
        dlt_batch_is(&many, i, i + 1, i == 1 || i == 5 ? DLOCK_LOST : DLOCK_OK);
    dlt_batch_init(&many, &s, MANY, "b");
    dlt_batch_try(&many, &s);
    dlt_batch_is(&many, 0, many.n, DLOCK_OK);
}

/* C19: a batch costs the server some statements, and not some for each name. */
LEASED(C19_a_batch_is_one_exchange)
{
    const unsigned n = 64;
    int64_t sent = 0;

    dlt_batch_init(&many, &p, n, "b");
    for (int turn = 0; turn < 2; turn++) {
        sent = dlt_proxy_count(&proxy, 0, "c2s.frames");
        dlt_batch_try(&many, &p);
        dlt_batch_is(&many, 0, many.n, DLOCK_OK);
        dlt_batch_unlock(&many, &p);
        dlt_batch_is(&many, 0, many.n, DLOCK_OK);
        cr_assert_eq(dlt_proxy_count(&proxy, 0, "c2s.frames") - sent, turn == 0 ? 3 : 2);
    }
}

/* ---- somebody is in the way of one name ---- */

#define REFUSE "SIGNAL SQLSTATE '45000'"

/* An error that leaves open what happened, and comes whenever the name is touched. */
LEASED(BAT_1_one_bad_name_among_good_ones)
{
    warm_up(&s);
    trigger(is_row() ? "UPDATE" : "INSERT", "names", "NEW", REFUSE);
    dlt_batch_init(&many, &s, MANY, "b");
    dlt_batch_try(&many, &s);
    dlt_batch_others_are(&many, 3, DLOCK_OK);
    dlt_batch_is(&many, 3, 4, DLOCK_UNKNOWN);
    cr_assert_eq(many.errors[3].code, 1644, "%s", many.errors[3].message);
    cr_assert(!held("b003"));
    cr_assert_str_eq(dlt_maria_ask(&server, "DROP TRIGGER t"), "");
    dlt_batch_try(&many, &s);
    dlt_batch_is(&many, 0, many.n, DLOCK_OK); /* the same tokens [TRY-5] */
    trigger(is_row() ? "UPDATE" : "DELETE", "names", "OLD", REFUSE);
    dlt_batch_unlock(&many, &s);
    dlt_batch_others_are(&many, 3, DLOCK_OK);
    dlt_batch_is(&many, 3, 4, DLOCK_UNKNOWN);
    cr_assert(held("b003"));
    cr_assert_str_eq(dlt_maria_ask(&server, "DROP TRIGGER t"), "");
    dlt_batch_unlock(&many, &s);
    dlt_batch_is(&many, 3, 4, DLOCK_OK);
}

/* An error that ends the connection (1153, as 2008 in the client) and that says CONFIG (or NOMEM)
 * of a single statement: which statements of the exchange were executed is not known. */
LEASED(BAT_2_an_error_that_ends_the_connection_is_UNKNOWN)
{
    warm_up(&s);
    trigger("UPDATE", is_row() ? "names" : "fences", "NEW", REFUSE " SET MYSQL_ERRNO = 1153");
    dlt_batch_init(&many, &s, MANY, "b");
    dlt_batch_try(&many, &s);
    dlt_batch_is(&many, 0, MANY, DLOCK_UNKNOWN);
    cr_assert_eq(many.errors[0].code, 1153, "%s", many.errors[0].message);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_eq(held(many.names[i]), !is_row());
    cr_assert_str_eq(dlt_maria_ask(&server, "DROP TRIGGER t"), "");
    reopen(&s);
    dlt_batch_try(&many, &s);
    dlt_batch_is(&many, 0, MANY, DLOCK_OK);
}

/* Between the row and its number: who has the row gets a number, or gives the row back. */
static void BAT_1_C6_one_number_that_cannot_be_made(void);
DLT_IN(insert, BAT_1_C6_one_number_that_cannot_be_made)
static void BAT_1_C6_one_number_that_cannot_be_made(void)
{
    char id[32];
    uint64_t fences[MANY];
    pthread_t thread;

    dlt_batch_init(&many, &s, MANY, "b");
    dlt_batch_try(&many, &s);
    dlt_batch_is(&many, 0, many.n, DLOCK_OK);
    for (size_t i = 0; i < MANY; i++)
        fences[i] = many.elements[i].grant.fence;
    dlt_batch_unlock(&many, &s);
    row_hold_table = "fences";
    (void)snprintf(id, sizeof id, "%s", row_hold_start(&thread, "b003"));
    dlt_batch_init(&many, &s, MANY, "b");
    dlt_batch_try(&many, &s);
    dlt_batch_others_are(&many, 3, DLOCK_OK);
    dlt_batch_is(&many, 3, 4, DLOCK_BUSY);
    for (size_t i = 0; i < MANY; i++)
        cr_assert(i == 3 || many.elements[i].grant.fence > fences[i]);
    cr_assert(!held("b003"), "it was given back");
    row_hold_end(thread, id);
}

/* The single call of that name uses up the time. The rows of the others are there, and may not be
 * called "certainly not taken". */
static void BAT_2_what_the_batch_took_is_not_UNAVAILABLE(void);
DLT_IN(insert, BAT_2_what_the_batch_took_is_not_UNAVAILABLE)
static void BAT_2_what_the_batch_took_is_not_UNAVAILABLE(void)
{
    char id[32];
    pthread_t thread;

    dlt_batch_init(&many, &s, MANY, "b");
    dlt_batch_try(&many, &s);
    dlt_batch_unlock(&many, &s);
    row_hold_table = "fences";
    (void)snprintf(id, sizeof id, "%s", row_hold_start(&thread, "b003"));
    dlt_batch_init(&many, &s, MANY, "b");
    dlt_batch_due(&many, &s, 300);
    (void)s.ops->trylock_batch(s.self, many.ops, many.n, &s.err);
    row_hold_end(thread, id);
    for (size_t i = 0; i < MANY; i++)
        cr_assert(many.elements[i].status == DLOCK_OK || many.elements[i].status == DLOCK_UNKNOWN ||
                      !held(many.names[i]),
                  "%s is %s, and taken", many.names[i],
                  dlock_status_name((int)many.elements[i].status));
    cr_assert_eq(many.elements[MANY - 1].status, DLOCK_UNKNOWN, "the time was not used up");
}

LEASED(BAT_1_somebody_sits_on_the_row_of_one_name)
{
    char id[32];
    pthread_t thread;

    warm_up(&s);
    dlt_request(&t, &b, "b003", 'h', TTL_MS);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK); /* so that strategy insert has a row */
    (void)snprintf(id, sizeof id, "%s", row_hold_start(&thread, "b003"));
    dlt_batch_init(&many, &s, MANY, "b");
    dlt_batch_try(&many, &s);
    dlt_batch_others_are(&many, 3, DLOCK_OK);
    dlt_batch_is(&many, 3, 4, DLOCK_BUSY);
    row_hold_end(thread, id);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_try(&s, &many.requests[3]), DLOCK_OK, "%s", s.err.message);
    (void)snprintf(id, sizeof id, "%s", row_hold_start(&thread, "b003"));
    dlt_batch_unlock(&many, &s);
    dlt_batch_others_are(&many, 3, DLOCK_OK);
    dlt_batch_is(&many, 3, 4, DLOCK_UNAVAILABLE);
    row_hold_end(thread, id);
    dlt_batch_unlock(&many, &s);
    dlt_batch_is(&many, 3, 4, DLOCK_OK);
}

/* A name that was BUSY is looked at, and its row is not locked: the answer comes at once although
 * somebody sits on the row, and half of a second is left. */
LEASED(BAT_1_a_name_that_was_BUSY_is_looked_at)
{
    char id[32];
    pthread_t thread;

    dlt_request(&t, &b, "b003", 'h', TTL_MS);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK);
    dlt_batch_init(&many, &s, MANY, "b");
    dlt_batch_try(&many, &s);
    dlt_batch_is(&many, 3, 4, DLOCK_BUSY);
    (void)snprintf(id, sizeof id, "%s", row_hold_start(&thread, "b003"));
    for (int turn = 0; turn < 5; turn++) {
        dlt_batch_try(&many, &s);
        dlt_batch_is(&many, 3, 4, DLOCK_BUSY);
        cr_assert_gt(many.elements[3].grant.holder_ms, 0, "it was looked at, and not waited for");
    }
    row_hold_end(thread, id);
}
