/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/lease_batch.c plugins/postgresql/columns.c */
/* Tests: plugins/postgresql/lease.c plugins/postgresql/statements.c */
/* Batches of strategy row: does each element have its own answer, whatever is wrong with others?
 * (C19, BAT-1, BAT-4)
 */
#include "batch_fixture.h"

#include <stdlib.h>

static struct dlt_batch other;

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

Test(batch, BAT_1_more_than_leave_at_once)
{
    open_all("more");
    names_make(DLT_BATCH_MOST);
    dlt_batch_try(&batch, by);
    dlt_batch_is(&batch, 0, DLT_BATCH_MOST, DLOCK_OK);
    dlt_batch_unlock(&batch, by);
    dlt_batch_is(&batch, 0, DLT_BATCH_MOST, DLOCK_OK);
}

/* In the three ways in which an element can be sent: the usual one, the one that waits, alone. */
Test(batch, TRY_5_TRY_6_a_token_keeps_its_lease_and_fences_rise)
{
    uint64_t fences[MANY];

    open_all("again");
    names_make(MANY);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < MANY; i++)
            batch.requests[i].req.mode =
                round == 1 || (round == 2 && i == 5) ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
        dlt_batch_try(&batch, by);
        dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
        for (size_t i = 0; i < MANY; i++) {
            const uint64_t fence = batch.elements[i].grant.fence;

            cr_assert(round == 0 || fence > fences[i], "%s in round %d", batch.names[i], round);
            fences[i] = fence;
        }
        dlt_batch_try(&batch, by);
        dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
        for (size_t i = 0; i < MANY; i++) {
            cr_assert_eq(batch.elements[i].grant.fence, fences[i]);
            fences[i] += batch.elements[i].grant.fence_room;
        }
        dlt_batch_unlock(&batch, by);
        dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
    }
}

/* The rows that a batch asks for, all in one call: what each kind of request is told. */
Test(batch, BAT_1_LIM_1_KEP_1_each_has_its_own_answer)
{
    enum { HELD, READER, PERMIT, OTHER_LIMIT, NEW, QUEUED };

    open_all("mixed");
    dlt_batch_init(&other, &t, MANY, "n");
    other.requests[READER].req.mode = DLOCK_SHARED;
    other.requests[PERMIT].req.limit = 2;
    other.requests[OTHER_LIMIT].req.limit = 3;
    dlt_batch_try(&other, &t);
    dlt_batch_is(&other, 0, MANY, DLOCK_OK);
    dlt_batch_init(&batch, by, MANY, "n");
    batch.requests[READER].req.mode = DLOCK_SHARED;
    batch.requests[PERMIT].req.limit = batch.requests[OTHER_LIMIT].req.limit = 2;
    (void)snprintf(batch.names[NEW], sizeof batch.names[NEW], "new0");
    batch.requests[QUEUED].req.flags = DLOCK_REQ_ENQUEUE;
    dlt_batch_try(&batch, by);
    dlt_batch_is(&batch, HELD, HELD + 1, DLOCK_BUSY);
    dlt_batch_is(&batch, READER, PERMIT + 1, DLOCK_OK);
    dlt_batch_is(&batch, OTHER_LIMIT, OTHER_LIMIT + 1, DLOCK_CONFIG);
    dlt_batch_is(&batch, NEW, NEW + 1, DLOCK_OK);
    dlt_batch_is(&batch, QUEUED, MANY, DLOCK_BUSY);
    cr_assert_gt(batch.elements[HELD].grant.holder_ms, 50000);
    cr_assert_eq(other.elements[PERMIT].grant.permit, 0);
    cr_assert_eq(batch.elements[PERMIT].grant.permit, 1);
    cr_assert_not_null(strstr(batch.errors[OTHER_LIMIT].message, " 3 "), "%s",
                       batch.errors[OTHER_LIMIT].message);
    cr_assert(batch.elements[QUEUED].grant.flags & DLOCK_GRANT_QUEUED);
    cr_assert_eq(batch.elements[QUEUED].grant.queue_position, 0);
    batch.requests[PERMIT].req.flags = batch.requests[NEW].req.flags = DLOCK_REQ_KEEP;
    batch.requests[PERMIT].req.keep_ms = batch.requests[NEW].req.keep_ms = 60000;
    dlt_batch_unlock(&batch, by);
    dlt_batch_is(&batch, HELD, HELD + 1, DLOCK_LOST);
    dlt_batch_is(&batch, READER, PERMIT + 1, DLOCK_OK);
    dlt_batch_is(&batch, OTHER_LIMIT, OTHER_LIMIT + 1, DLOCK_LOST);
    dlt_batch_is(&batch, NEW, NEW + 1, DLOCK_OK);
    cr_assert(is_held(NEW), "it is kept");
    dlt_batch_unlock(&other, &t);
    dlt_batch_is(&other, 0, MANY, DLOCK_OK);
    cr_assert_eq(refresh(&s, &batch.requests[QUEUED]), DLOCK_OK, "an unlock has passed it on");
}

Test(batch, BAT_4_elements_of_one_name_exclude_each_other)
{
    size_t got = 0;

    open_all("same");
    names_make(MANY);
    for (size_t i = 1; i < MANY; i++)
        memcpy(batch.names[i], batch.names[0], sizeof batch.names[0]);
    batch.requests[JOB].req.name_len = batch.requests[0].req.name_len;
    for (size_t round = 0; round < 2; round++) {
        dlt_batch_try(&batch, by);
        got = 0;
        for (size_t i = 0; i < MANY; i++)
            got += batch.elements[i].status == DLOCK_OK;
        cr_assert_eq(got, 1, "%zu have it", got);
    }
    dlt_batch_unlock(&batch, by);
    got = 0;
    for (size_t i = 0; i < MANY; i++)
        got += batch.elements[i].status == DLOCK_OK;
    cr_assert_eq(got, 1);
}

/* The connection that hears the messages may take longer than one watch. */
static bool listens(struct dlt_session *session, struct dlt_request *request)
{
    enum dlock_status status = DLOCK_UNAVAILABLE;

    for (int i = 0; i < 100 && status != DLOCK_BUSY; i++)
        status = dlt_watch(session, request, 100);
    return status == DLOCK_BUSY;
}

/* Waiters of another client are told of each name that is passed on. */
Test(batch, WAT_1_the_grant_of_each_waiter_is_told)
{
    uint64_t fences[MANY];

    open_all("told");
    names_make(MANY);
    dlt_batch_try(&batch, by);
    dlt_batch_init(&other, &t, MANY, "n");
    memcpy(other.names, batch.names, sizeof other.names);
    other.requests[JOB].req.name_len = 3;
    for (size_t i = 0; i < MANY; i++)
        queue(&t, &other.requests[i]);
    cr_assert(listens(&t, &other.requests[0]), "%s", t.err.message);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_eq(refresh(&t, &other.requests[i]), DLOCK_BUSY);
    for (size_t i = 0; i < MANY; i++)
        fences[i] = batch.elements[i].grant.fence;
    dlt_batch_unlock(&batch, by);
    dlt_batch_is(&batch, 0, MANY, DLOCK_OK);
    for (size_t i = 0; i < MANY; i++) {
        cr_assert_eq(dlt_watch(&t, &other.requests[i], 20000), DLOCK_OK, "%s", t.err.message);
        cr_assert_gt(t.grant.fence, fences[i]);
    }
    dlt_batch_unlock(&other, &t);
    dlt_batch_is(&other, 0, MANY, DLOCK_OK);
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
