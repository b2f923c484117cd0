/* SPDX-License-Identifier: MIT */
/* Tests: plugins/mysql/row_batch.c */
/* Has each name of a batch its own answer, if a lease runs out between the two statements of an
 * unlock? (BAT-1, UNL-1) */
#include "batch_fixture.h"
#include "query.h"

#define NOW "TIMESTAMPDIFF(MICROSECOND,TIMESTAMP'1970-01-01 00:00:00',UTC_TIMESTAMP(6))"

/* The linker puts this one before that of the plugin (-Wl,--wrap=my_query_script). */
enum dlock_status __real_my_query_script(struct my_connection *conn, const char *text,
                                         struct my_results *results, struct dlock_error *err);
enum dlock_status __wrap_my_query_script(struct my_connection *conn, const char *text,
                                         struct my_results *results, struct dlock_error *err);

/* A statement that is executed between the two of the next script; NULL: none. */
static const char *between;

enum dlock_status __wrap_my_query_script(struct my_connection *conn, const char *text,
                                         struct my_results *results, struct dlock_error *err)
{
    const char *rest = between != NULL ? strchr(text, ';') : NULL;
    char *longer = NULL;
    enum dlock_status status = DLOCK_INTERNAL;

    if (rest == NULL)
        return __real_my_query_script(conn, text, results, err);
    cr_assert_geq(asprintf(&longer, "%.*s;%s%s", (int)(rest - text), text, between, rest), 0);
    between = NULL;
    status = __real_my_query_script(conn, longer, results, err);
    free(longer);
    cr_assert_eq(results->count, 3, "%s", err->message);
    mysql_free_result(results->list[1]);
    results->list[1] = results->list[2];
    results->affected[1] = results->affected[2];
    results->count = 2;
    return status;
}

static void all_take(void)
{
    dlt_batch_init(&many, &s, MANY, "b");
    dlt_batch_try(&many, &s);
    dlt_batch_is(&many, 0, many.n, DLOCK_OK);
}

/* A lease that ran out, and is there as long as nobody takes the name. */
LEASED(BAT_1_UNL_1_a_lease_that_runs_out_beside_its_unlock)
{
    all_take();
    between = "UPDATE f_names SET until_us = " NOW " - 1000 WHERE name = 'b003'";
    dlt_batch_unlock(&many, &s);
    cr_assert_null(between);
    dlt_batch_others_are(&many, 3, DLOCK_OK);
    dlt_batch_is(&many, 3, 4, DLOCK_LOST);
    dlt_batch_unlock(&many, &s);
    dlt_batch_is(&many, 0, many.n, DLOCK_LOST);
    all_take();
}

LEASED(BAT_1_UNL_1_two_leases_that_run_out_beside_their_unlock)
{
    all_take();
    between = "UPDATE f_names SET until_us = " NOW " - 1000 WHERE name IN ('b000', 'b007')";
    dlt_batch_unlock(&many, &s);
    dlt_batch_is(&many, 0, 1, DLOCK_LOST);
    dlt_batch_is(&many, 1, 7, DLOCK_OK);
    dlt_batch_is(&many, 7, 8, DLOCK_LOST);
}

/* Somebody else has the name already. Strategy insert deletes rows, and cannot tell which names it
 * has ended of those whose rows are gone or another owner's. */
LEASED(BAT_1_UNL_1_a_name_that_is_taken_beside_its_unlock)
{
    all_take();
    between =
        "UPDATE f_names SET token = 'other', until_us = " NOW " + 60000000 WHERE name = 'b003'";
    dlt_batch_unlock(&many, &s);
    if (is_row()) {
        dlt_batch_others_are(&many, 3, DLOCK_OK);
        dlt_batch_is(&many, 3, 4, DLOCK_LOST);
    } else {
        dlt_batch_is(&many, 0, many.n, DLOCK_UNKNOWN);
    }
    cr_assert(held("b003"), "the other owner's lock stays");
    for (int i = 0; i < MANY; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "b%03d", i);
        cr_assert_eq(held(name), i == 3, "%s", name);
    }
}
