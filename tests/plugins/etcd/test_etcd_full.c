/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/renew.c plugins/etcd/unlock.c plugins/etcd/take.c */
/* A cluster whose space is exhausted (NOSPACE) refuses every transaction, and one with a small
 * --max-txn-ops refuses large ones. What is held stays held and can be renewed and unlocked; a new
 * lock is refused for lack of space. */
#include "etcd_kit.h"

#include <criterion/criterion.h>
#include <string.h>

#define LEASES 6 /* more than are renewed one by one */
#define TTL_MS 10000

static struct dlt_etcd server;
static struct dlt_session s, t;
static struct dlt_request held[LEASES], fresh;
static char names[LEASES][8];

static void tear_down(void)
{
    dlt_session_close(&t);
    dlt_session_close(&s);
    dlt_etcd_stop(&server);
}

TestSuite(full, .fini = tear_down, .timeout = 60);

static void fill(void)
{
    bool refused = false;

    for (int i = 0; i < 50 && !refused; i++)
        refused = strstr(dlt_etcd_ask(&server, "put big $(head -c 50000 /dev/zero | tr '\\0' x)"),
                         "space exceeded") != NULL;
    cr_assert(refused);
}

static void open_and_hold(const char *const *args)
{
    cr_assert(dlt_etcd_start(&server, args), "%s", server.why);
    dlt_session_init(&s, &server);
    dlt_session_init(&t, &server);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    for (int i = 0; i < LEASES; i++) {
        (void)snprintf(names[i], sizeof names[i], "n%d", i);
        dlt_request(&s, &held[i], names[i], (unsigned char)('a' + i), TTL_MS);
        cr_assert_eq(dlt_try(&s, &held[i]), DLOCK_OK, "%s", s.err.message);
    }
}

static void open_and_fill(void)
{
    static const char *const args[] = {"--quota-backend-bytes", "100000", NULL};

    open_and_hold(args);
    fill();
}

/* All of them in one call; each has to be OK. */
static void renew_all(int n)
{
    struct dlock_lease_op ops[LEASES];

    for (int i = 0; i < n; i++)
        ops[i] = (struct dlock_lease_op){.req = dlt_due(&s, &held[i], 5000)};
    cr_assert_eq(dlt_renew_many(s.ops, s.self, ops, (size_t)n, dlt_host_in(&s.host, 5000), &s.err),
                 DLOCK_OK, "%s", s.err.message);
    for (int i = 0; i < n; i++) {
        cr_assert_eq(ops[i].status, DLOCK_OK, "%d of %d: %s", i, n, s.err.message);
        cr_assert_eq(ops[i].grant.lease_ms, TTL_MS);
    }
}

Test(full, C14_many_locks_are_renewed_by_members_that_take_small_transactions_only)
{
    static const char *const args[] = {"--max-txn-ops", "5", NULL};

    open_and_hold(args);
    for (int i = 0; i < 2; i++)
        renew_all(LEASES);
}

Test(full, C14_what_is_held_is_renewed_and_unlocked)
{
    open_and_fill();
    renew_all(1);
    renew_all(LEASES);
    for (int i = 0; i < LEASES; i++) {
        cr_assert_eq(dlt_unlock(&s, &held[i]), DLOCK_OK, "%s", s.err.message);
        cr_assert_eq(dlt_unlock(&s, &held[i]), DLOCK_LOST);
    }
}

/* A client that is opened now works, too: it can inspect and break. */
Test(full, TRY_4_a_new_lock_is_refused_and_none_is_left_behind)
{
    size_t count = 1;
    struct dlt_holder holder;
    enum dlock_status status = DLOCK_OK;

    open_and_fill();
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK, "%s", t.err.message);
    dlt_request(&t, &fresh, "fresh", 'z', TTL_MS);
    status = dlt_try(&t, &fresh);
    cr_assert(status == DLOCK_UNAVAILABLE || status == DLOCK_UNKNOWN, "%d: %s", (int)status,
              t.err.message);
    cr_assert(strstr(t.err.message, "space") != NULL, "%s", t.err.message);
    cr_assert_str_eq(dlt_etcd_ask(&server, "get --prefix --keys-only fresh"), "");
    cr_assert_eq(dlt_inspect(&t, "n0", &holder, &count), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(count, 1);
    cr_assert_eq(dlt_break(&t, "n0", NULL), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_renew(&s, &held[0]), DLOCK_LOST);
    cr_assert_eq(dlt_unlock(&t, &fresh), DLOCK_LOST);
}
