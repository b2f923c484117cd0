/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/unlock.c plugins/etcd/lease_pool.c */
/*
 * A lease carries one key: if the cluster may not have deleted that key, nobody keeps its lease
 * alive, and the name is free when it ends (C4, UNL-2, DEQ-3).
 */
#include "name_kit.h"
#include "proxy_client.h"

#define TTL_MS   3000
#define SHORT_MS 300
#define LATE_MS  1500 /* an expiry */

static struct dlt_proxy proxy;

static void tell(const char *line)
{
    cr_assert(dlt_proxy_tell(&proxy, "%s", line), "%s: %s", line, proxy.answer);
}

/* s behind a proxy, and t beside it. */
static void open_behind(const char *test)
{
    cr_assert(dlt_etcd_borrow(&server), "%s", server.why);
    cr_assert(dlt_proxy_start(&proxy, server.members[0].address, "http2", NULL), "%s",
              proxy.answer);
    (void)snprintf(path, sizeof path, "%s_%s", dlt_path(), test);
    client_init(&s);
    client_init(&t);
    (void)snprintf(s.address, sizeof s.address, "%s", proxy.address);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_session_open(&t), DLOCK_OK, "%s", t.err.message);
}

/* The call of the slot gets no answer, and the cluster no request. */
static void in_doubt(enum dlock_status (*call)(struct dlt_session *, struct dlt_request *))
{
    const int64_t usual_ms = s.call_ms;

    tell("blackhole c2s");
    s.call_ms = SHORT_MS;
    cr_assert_eq(call(&s, &a), DLOCK_UNKNOWN, "%s", s.err.message);
    s.call_ms = usual_ms;
    tell("kill rst");
    tell("pass");
}

/* The client goes on with another name, and renews that one for longer than a lease. */
static void go_on(void)
{
    dlt_request(&s, &c, "another", 'c', TTL_MS);
    cr_assert_eq(dlt_try(&s, &c), DLOCK_OK, "%s", s.err.message);
    for (int64_t ms = 0; ms < TTL_MS + LATE_MS; ms += SHORT_MS) {
        dlt_sleep_ms(SHORT_MS);
        cr_assert_eq(dlt_renew(&s, &c), DLOCK_OK, "%s", s.err.message);
    }
}

static void end(void)
{
    cr_assert_eq(dlt_unlock(&s, &c), DLOCK_OK, "%s", s.err.message);
    dlt_session_close(&s);
    dlt_session_close(&t);
    (void)dlt_proxy_stop(&proxy);
}

Test(doubt, UNL_2_the_lease_of_an_unlock_in_doubt_is_not_used_again)
{
    open_behind("doubt");
    dlt_request(&s, &a, "job", 'a', TTL_MS);
    dlt_request(&t, &b, "job", 'b', TTL_MS);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    in_doubt(dlt_unlock);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "the request did get there");
    go_on();
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    end();
}

Test(doubt, DEQ_3_the_lease_of_a_dequeue_in_doubt_is_not_used_again)
{
    open_behind("entry");
    dlt_request(&s, &a, "job", 'a', TTL_MS);
    dlt_request(&t, &b, "job", 'b', 60000);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "%s", t.err.message);
    a.req.flags = DLOCK_REQ_ENQUEUE;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY, "%s", s.err.message);
    cr_assert(s.grant.flags & DLOCK_GRANT_QUEUED);
    in_doubt(dlt_dequeue);
    go_on();
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    dlt_request(&t, &b, "job", 'b', TTL_MS);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_OK, "the entry is still there");
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    end();
}
