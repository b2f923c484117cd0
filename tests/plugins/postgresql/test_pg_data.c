/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/row_lease.c plugins/postgresql/statements.c */
/* Do label and data of a holder leave the tables with its claim? A copy of the database would have
 * them. (C24, DAT) */
#include "batch_calls.h"
#include "row_kit.h"

static char prefix[64];

static void begin(const char *test)
{
    open_all(test);
    (void)snprintf(prefix, sizeof prefix, "row_%s_", test);
    for (int i = 0; i < 3; i++) {
        struct dlock_request *const req = &(struct dlt_request *[]){&a, &b, &c}[i]->req;

        req->label = "labelled";
        req->data = (const unsigned char *)"published";
        req->data_len = 9;
    }
}

/* The rows with this text, "lease/reader". */
static const char *rows(const char *text)
{
    return dlt_postgres_ask(&server,
                            "SELECT (SELECT count(*) FROM %slease WHERE position('%s'::bytea IN"
                            " label) > 0) || '/' || (SELECT count(*) FROM %sreader WHERE"
                            " position('%s'::bytea IN label) > 0)",
                            prefix, text, prefix, text);
}

static void are_gone(void)
{
    cr_assert_str_eq(rows("published"), "0/0");
    cr_assert_str_eq(rows("labelled"), "0/0");
}

static void take(struct dlt_session *session, struct dlt_request *request)
{
    cr_assert_eq(dlt_try(session, request), DLOCK_OK, "%s", session->err.message);
}

Test(data, C24_end_with_a_release)
{
    begin("release");
    take(&s, &a);
    cr_assert_str_eq(rows("published"), "1/0");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    are_gone();
    close_all();
}

/* The waiter has left: the row says that there is one. */
Test(data, C24_end_with_a_release_to_nobody)
{
    begin("nobody");
    take(&s, &a);
    b.req.ttl_ms = 1;
    queue(&t, &b);
    (void)dlt_postgres_ask(&server, "DELETE FROM %squeue", prefix);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    are_gone();
    close_all();
}

Test(data, C24_end_with_a_release_of_many)
{
    static struct dlt_batch batch;

    begin("many");
    dlt_batch_init(&batch, &s, 3, "n");
    for (size_t i = 0; i < batch.n; i++) {
        batch.requests[i].req.data = a.req.data;
        batch.requests[i].req.data_len = a.req.data_len;
    }
    dlt_batch_try(&batch, &s);
    cr_assert_str_eq(rows("published"), "3/0");
    dlt_batch_unlock(&batch, &s);
    dlt_batch_is(&batch, 0, batch.n, DLOCK_OK);
    are_gone();
    close_all();
}

Test(data, C24_end_with_a_break)
{
    begin("break");
    take(&s, &a);
    cr_assert_eq(dlt_break(&s, "job", NULL), DLOCK_OK);
    are_gone();
    close_all();
}

Test(data, C24_go_along_with_a_downgrade)
{
    begin("down");
    take(&s, &a);
    cr_assert_eq(downgrade(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_eq(rows("published"), "0/1");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    are_gone();
    close_all();
}

/* A lease that ended by itself: the next holder is a reader, and has a row of its own. */
Test(data, C24_end_with_the_next_reader)
{
    begin("reader");
    a.req.ttl_ms = 20;
    take(&s, &a);
    dlt_sleep_ms(50);
    b.req.mode = DLOCK_SHARED;
    b.req.data_len = 0;
    take(&t, &b);
    cr_assert_str_eq(rows("published"), "0/0");
    close_all();
}

/* A kept name has the label of the last holder, and no data. */
Test(data, C24_C22_what_is_kept_has_none)
{
    static const uint32_t limits[] = {0, 2};

    begin("kept");
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        a.req.limit = limits[i];
        take(&s, &a);
        a.req.keep_ms = 60000;
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
        a.req.keep_ms = 0;
        cr_assert_str_eq(rows("published"), "0/0");
        cr_assert_str_eq(rows("labelled"), "0/1");
        cr_assert_eq(dlt_break(&s, "job", NULL), DLOCK_OK);
        are_gone();
    }
    close_all();
}
