/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/row_batch.c */
/* Tests: plugins/postgresql/row_lease.c plugins/postgresql/statements.c */
/* Batches of strategy row: does each element have its own answer, whatever is wrong with others?
 * (C19, BAT-1, BAT-4)
 */
#include "batch_fixture.h"

#include <stdlib.h>

static void tear_down(void)
{
    close_all();
    dlt_postgres_stop(&server);
}

TestSuite(batch, .init = server_start, .fini = tear_down, .timeout = 300);

static int64_t ask_number(const char *sql)
{
    return strtoll(dlt_postgres_ask(&server, "%s", sql), NULL, 10);
}

/* ---- what is usual ---- */

Test(batch, BAT_1_many_names_are_one_commit)
{
    int64_t before = 0;

    open_all("one");
    names_make(64);
    before = ask_number("SELECT txid_current()");
    dlt_batch_try(&batch, by);
    dlt_batch_is(&batch, 0, 64, DLOCK_OK);
    cr_assert_eq(ask_number("SELECT txid_current()"), before + 2);
    for (size_t i = 0; i < 64; i++) {
        cr_assert_gt(batch.elements[i].grant.fence, 0);
        cr_assert_eq(batch.elements[i].grant.lease_ms, 60000);
        cr_assert_eq(batch.elements[i].grant.waiters, 0);
        cr_assert(is_held(i));
    }
    dlt_batch_unlock(&batch, by);
    dlt_batch_is(&batch, 0, 64, DLOCK_OK);
    cr_assert_eq(ask_number("SELECT txid_current()"), before + 4);
    dlt_batch_unlock(&batch, by);
    dlt_batch_is(&batch, 0, 64, DLOCK_LOST);
}

/* ---- one that is wrong ---- */

Test(batch, BAT_1_somebody_sits_on_the_row_of_one_name)
{
    pthread_t sitter;

    open_all("sit");
    names_make(MANY);
    sitter = sit("sit_lease");
    dlt_batch_try(&batch, by);
    dlt_batch_others_are(&batch, JOB, DLOCK_OK);
    dlt_batch_is(&batch, JOB, JOB + 1, DLOCK_BUSY);
    cr_assert_not_null(strstr(batch.errors[JOB].message, "lock timeout"), "%s",
                       batch.errors[JOB].message);
    sit_end(sitter, "sit_lease");
    dlt_batch_try(&batch, by);
    dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
    sitter = sit("sit_lease");
    dlt_batch_unlock(&batch, by);
    dlt_batch_others_are(&batch, JOB, DLOCK_OK);
    dlt_batch_is(&batch, JOB, JOB + 1, DLOCK_UNAVAILABLE);
    sit_end(sitter, "sit_lease");
    dlt_batch_unlock(&batch, by);
    dlt_batch_others_are(&batch, JOB, DLOCK_LOST);
    dlt_batch_is(&batch, JOB, JOB + 1, DLOCK_OK);
}

/* Among readers, whose rows are waited for, and in a table in which no batch looks before. */
Test(batch, BAT_1_somebody_sits_on_a_row_that_is_waited_for)
{
    pthread_t sitter;

    open_all("wait");
    names_make(MANY);
    for (size_t i = 0; i < MANY; i++)
        batch.requests[i].req.mode = DLOCK_SHARED;
    sitter = sit("wait_lease");
    dlt_batch_try(&batch, by);
    dlt_batch_others_are(&batch, JOB, DLOCK_OK);
    dlt_batch_is(&batch, JOB, JOB + 1, DLOCK_BUSY);
    sit_end(sitter, "wait_lease");
    dlt_batch_try(&batch, by);
    dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
    sitter = sit("wait_reader");
    dlt_batch_unlock(&batch, by);
    dlt_batch_others_are(&batch, JOB, DLOCK_OK);
    dlt_batch_is(&batch, JOB, JOB + 1, DLOCK_UNAVAILABLE);
    sit_end(sitter, "wait_reader");
    cr_assert(is_held(JOB));
}

/* Names without a row are not among those that are left for exchanges of their own. */
Test(batch, BAT_1_somebody_sits_on_a_row_among_new_names)
{
    pthread_t sitter;
    int64_t before = 0;

    open_all("new");
    names_make(MANY);
    dlt_batch_init(&batch, by, 64, "x");
    (void)snprintf(batch.names[JOB], sizeof batch.names[JOB], "job");
    batch.requests[JOB].req.name_len = 3;
    sitter = sit("new_lease");
    before = ask_number("SELECT txid_current()");
    dlt_batch_try(&batch, by);
    dlt_batch_others_are(&batch, JOB, DLOCK_OK);
    dlt_batch_is(&batch, JOB, JOB + 1, DLOCK_BUSY);
    cr_assert_lt(ask_number("SELECT txid_current()"), before + 32);
    sit_end(sitter, "new_lease");
}

/* Each of those that are locked waits for most of the time that is left. */
Test(batch, BAT_1_those_that_are_locked_are_asked_for_last)
{
    pthread_t sitter;

    open_all("last");
    names_make(MANY);
    for (size_t i = 0; i < MANY - 1; i++) {
        (void)snprintf(batch.names[i], sizeof batch.names[i], "job");
        batch.requests[i].req.name_len = 3;
        batch.requests[i].req.mode = DLOCK_SHARED;
    }
    batch.requests[MANY - 1].req.limit = 2;
    sitter = sit("last_lease");
    by->call_ms = 3000;
    dlt_batch_try(&batch, by);
    for (size_t i = 0; i < MANY - 1; i++)
        cr_assert_neq(batch.elements[i].status, DLOCK_OK);
    dlt_batch_is(&batch, MANY - 1, MANY, DLOCK_OK);
    sit_end(sitter, "last_lease");
}

static void refuse_job(const char *table, const char *when)
{
    cr_assert_str_empty(
        dlt_postgres_ask(&server,
                         "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
                         " $$BEGIN RAISE EXCEPTION 'not this one'; END$$;"
                         "CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON row_%s FOR EACH ROW"
                         " WHEN (NEW.name = 'job' AND %s) EXECUTE FUNCTION refuse()",
                         table, when));
}

/* A trigger of the administrator refuses the row of one name. */
Test(batch, BAT_1_an_error_of_one_fails_no_other)
{
    open_all("error");
    names_make(MANY);
    refuse_job("error_lease", "NEW.until > '-infinity'");
    dlt_batch_try(&batch, by);
    dlt_batch_others_are(&batch, JOB, DLOCK_OK);
    dlt_batch_is(&batch, JOB, JOB + 1, DLOCK_CONFIG);
    cr_assert_not_null(strstr(batch.errors[JOB].message, "not this one"));
    administer("DROP TRIGGER refuse ON row_error_lease");
    dlt_batch_try(&batch, by);
    dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
    refuse_job("error_lease", "NEW.until = '-infinity'");
    dlt_batch_unlock(&batch, by);
    dlt_batch_others_are(&batch, JOB, DLOCK_OK);
    dlt_batch_is(&batch, JOB, JOB + 1, DLOCK_CONFIG);
    cr_assert(is_held(JOB));
}

Test(batch, BAT_1_an_error_of_one_reader_fails_no_other)
{
    open_all("reader");
    names_make(MANY);
    for (size_t i = 0; i < MANY; i++)
        batch.requests[i].req.mode = DLOCK_SHARED;
    refuse_job("reader_reader", "true");
    dlt_batch_try(&batch, by);
    dlt_batch_others_are(&batch, JOB, DLOCK_OK);
    dlt_batch_is(&batch, JOB, JOB + 1, DLOCK_CONFIG);
    cr_assert(!is_held(JOB));
}
