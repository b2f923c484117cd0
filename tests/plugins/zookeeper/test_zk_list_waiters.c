/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/admin.c */
/* Does list_waiters show each waiter of a name once, in the order of the queue? (C13) */
#include "admin_fixture.h"

#define MOST 200

static struct dlt_queued waiters[MOST];
static size_t count;

TestSuite(waiters, .fini = tear_down, .timeout = 170);

static void shown(size_t want)
{
    count = MOST;
    cr_assert_eq(dlt_list_waiters(&t, "job", waiters, &count), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(count, want, "%zu waiters, want %zu", count, want);
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(waiters[i].position, i);
}

Test(waiters, in_order_with_mode_and_label)
{
    begin_open("waiters");
    shown(0);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    shown(0);
    b.req.flags = c.req.flags = DLOCK_REQ_ENQUEUE;
    b.req.mode = DLOCK_SHARED;
    b.req.label = "host:1:reader\x01";
    cr_assert_eq(dlt_try(&s, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_try(&t, &c), DLOCK_BUSY);
    shown(2);
    cr_assert_str_eq(waiters[0].owner, "62626262626262626262626262626262");
    cr_assert_str_eq(waiters[0].label, "host:1:reader?");
    cr_assert_eq(waiters[0].mode, DLOCK_SHARED);
    cr_assert_str_eq(waiters[1].owner, "63636363636363636363636363636363");
    cr_assert_eq(waiters[1].mode, DLOCK_EXCLUSIVE);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK); /* b holds the name */
    shown(1);
    cr_assert_str_eq(waiters[0].owner, "63636363636363636363636363636363");
}

/* Those of other programs, too, and more than one exchange has. */
Test(waiters, behind_many_readers)
{
    char label[24];

    begin_open("queue");
    for (size_t i = 0; i < 20; i++)
        (void)foreign("job", "_c_1b2a3c4d-0000-4000-8000-000000000003-__READ__", "");
    shown(0);
    for (size_t i = 0; i < 150; i++) {
        (void)snprintf(label, sizeof label, "w%zu", i);
        (void)foreign("job",
                      i % 2 == 0 ? "_c_1b2a3c4d-0000-4000-8000-000000000004-__WRIT__"
                                 : "_c_1b2a3c4d-0000-4000-8000-000000000005-__READ__",
                      label);
    }
    (void)foreign("job", "note-", "of no concern");
    shown(150);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(label, sizeof label, "w%zu", i);
        cr_assert_str_eq(waiters[i].label, label);
        cr_assert_eq(waiters[i].mode, i % 2 == 0 ? DLOCK_EXCLUSIVE : DLOCK_SHARED);
    }
    count = 1; /* the callback wants no more */
    cr_assert_eq(dlt_list_waiters(&t, "job", waiters, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
}

Test(waiters, INVALID_no_path)
{
    begin("paths");
    dlt_session_option(&t, "key", "raw");
    open_one(&t);
    count = MOST;
    cr_assert_eq(dlt_list_waiters(&t, "a//b", waiters, &count), DLOCK_INVALID);
}
