/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/admin.c */
/* What people see of locks, dlock's and other programs', and how they end them; and the rights that
 * this takes. */
#include "admin_fixture.h"

#define DIGEST_U "digest:u:8xJeoMakDQaA8NkfWetBIBym4mk="
#define MOST     600

static struct dlt_holder holders[MOST];
static size_t count;

TestSuite(admin, .fini = tear_down, .timeout = 170);

static void inspect(const char *name, size_t want)
{
    count = MOST;
    cr_assert_eq(dlt_inspect(&t, name, holders, &count), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(count, want, "%zu holders of %s, want %zu", count, name, want);
}

static enum dlock_status list(const char *prefix, size_t want)
{
    enum dlock_status status = DLOCK_INTERNAL;

    count = MOST;
    status = dlt_list(&t, prefix, holders, &count);
    cr_assert_eq(count, want, "%zu holders of %s, want %zu: %s", count, prefix, want,
                 t.err.message);
    return status;
}

/* ---- inspect ---- */

Test(admin, inspect_tells_what_is_known_of_a_holder)
{
    begin_open("inspect");
    inspect("job", 0);
    a.req.label = "host:1:nightly\x01";
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    inspect("job", 1);
    cr_assert_str_eq(holders[0].name, "job");
    cr_assert_str_eq(holders[0].owner, "61616161616161616161616161616161");
    cr_assert_str_eq(holders[0].label, "host:1:nightly?");
    cr_assert_eq(holders[0].mode, DLOCK_EXCLUSIVE);
    cr_assert_eq(holders[0].fence, s.grant.fence);
    cr_assert_eq(holders[0].waiters, 0);
    cr_assert_eq(holders[0].remaining_ms, -1);
    cr_assert_eq(holders[0].held_ms, -1);
    c.req.flags = DLOCK_REQ_ENQUEUE;
    cr_assert_eq(dlt_try(&t, &c), DLOCK_BUSY);
    inspect("job", 1);
    cr_assert_eq(holders[0].waiters, 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    inspect("job", 1);
    cr_assert_str_eq(holders[0].owner, "63636363636363636363636363636363");
    cr_assert_eq(dlt_dequeue(&t, &c), DLOCK_OK);
    inspect("job", 0);
}

Test(admin, inspect_tells_all_readers)
{
    begin_open("readers");
    a.req.mode = b.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    c.req.flags = DLOCK_REQ_ENQUEUE;
    cr_assert_eq(dlt_try(&t, &c), DLOCK_BUSY);
    inspect("job", 2);
    cr_assert_eq(holders[0].mode, DLOCK_SHARED);
    cr_assert_str_eq(holders[0].owner, "61616161616161616161616161616161");
    cr_assert_str_eq(holders[1].owner, "62626262626262626262626262626262");
    cr_assert_lt(holders[0].fence, holders[1].fence);
    cr_assert_eq(holders[0].waiters, 1);
    cr_assert_eq(holders[1].waiters, 1);
}

Test(admin, inspect_shows_other_programs)
{
    static const struct {
        const char *prefix, *owner;
        enum dlock_mode mode;
    } programs[] = {{"_c_1b2a3c4d-0000-4000-8000-000000000001-lock-",
                     "1b2a3c4d-0000-4000-8000-000000000001", DLOCK_EXCLUSIVE},
                    {"_c_1b2a3c4d-0000-4000-8000-000000000002-__WRIT__",
                     "1b2a3c4d-0000-4000-8000-000000000002", DLOCK_EXCLUSIVE},
                    {"_c_1b2a3c4d-0000-4000-8000-000000000003-__READ__",
                     "1b2a3c4d-0000-4000-8000-000000000003", DLOCK_SHARED},
                    {"0123456789abcdef0123456789abcdef__lock__", "0123456789abcdef0123456789abcdef",
                     DLOCK_EXCLUSIVE},
                    {"0123456789abcdef0123456789abcde0__rlock__",
                     "0123456789abcdef0123456789abcde0", DLOCK_SHARED}};
    char name[16];

    begin_open("foreign");
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        (void)snprintf(name, sizeof name, "n%zu", i);
        (void)foreign(name, "note-", "of no concern");
        inspect(name, 0);
        (void)foreign(name, programs[i].prefix, "10.0.0.7");
        (void)foreign(name, "_c_00000000-0000-4000-8000-000000000000-lock-", "waits");
        inspect(name, 1);
        cr_assert_str_eq(holders[0].owner, programs[i].owner);
        cr_assert_str_eq(holders[0].label, "10.0.0.7");
        cr_assert_eq(holders[0].mode, programs[i].mode);
        cr_assert_eq(holders[0].waiters, 1);
        cr_assert_gt(holders[0].fence, 0);
        cr_assert_eq(holders[0].fence % 32, 0);
    }
}

Test(admin, inspect_of_more_readers_than_one_exchange_has)
{
    begin_open("crowd");
    for (size_t i = 0; i < 150; i++)
        (void)foreign("job", "_c_1b2a3c4d-0000-4000-8000-000000000003-__READ__", "");
    inspect("job", 150);
    for (size_t i = 1; i < count; i++)
        cr_assert_lt(holders[i - 1].fence, holders[i].fence, "reader %zu", i);
}

/* A follower may not know yet what a client at another server was told. */
Test(admin, inspect_at_another_server_is_not_late)
{
    cr_assert(dlt_zk_start_cluster(&server, 3, NULL), "%s", server.why);
    for (int i = 0; i < 3; i++) {
        if (i == dlt_zk_leader(&server))
            continue;
        dlt_session_init_at(s.ops == NULL ? &s : &t, server.members[i].address);
    }
    patient(&s);
    patient(&t);
    open_one(&s);
    open_one(&t);
    for (int i = 0; i < 300; i++) {
        dlt_request(&s, &a, "job", 'a', DLT_ZK_TTL_MS);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        inspect("job", 1);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
        inspect("job", 0);
    }
}

Test(admin, INVALID_a_name_that_is_no_path)
{
    begin("nopath");
    dlt_session_option(&t, "key", "raw");
    open_one(&t);
    count = MOST;
    cr_assert_eq(dlt_inspect(&t, "a//b", holders, &count), DLOCK_INVALID);
    cr_assert_eq(dlt_break(&t, "a/../b", NULL), DLOCK_INVALID);
    cr_assert(strstr(t.err.message, "key=raw") != NULL, "%s", t.err.message);
}

/* ---- list ---- */

Test(admin, list_of_names_by_their_beginning)
{
    static const char *const names[] = {"ab", "a/b", "a", "b", "\x01\xff%", "a%2Fb"};

    begin_open("list");
    cr_assert_eq(list("", 0), DLOCK_OK);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct dlt_request request;

        dlt_request(&s, &request, names[i], (unsigned char)('a' + i), DLT_ZK_TTL_MS);
        cr_assert_eq(dlt_try(&s, &request), DLOCK_OK, "%s: %s", names[i], s.err.message);
    }
    cr_assert_eq(list("", 6), DLOCK_OK);
    cr_assert_eq(list("a", 4), DLOCK_OK);
    cr_assert_eq(list("a/", 1), DLOCK_OK);
    cr_assert_str_eq(holders[0].name, "a/b");
    cr_assert_eq(list("a%", 1), DLOCK_OK);
    cr_assert_str_eq(holders[0].name, "a%2Fb");
    cr_assert_eq(list("\x01", 1), DLOCK_OK);
    cr_assert_str_eq(holders[0].name, "\x01\xff%");
    cr_assert_eq(list("abc", 0), DLOCK_OK);
    (void)foreign("a%2fc", "_c_1b2a3c4d-0000-4000-8000-000000000001-lock-", "");
    (void)foreign("c%", "_c_1b2a3c4d-0000-4000-8000-000000000001-lock-", "");
    cr_assert_eq(list("", 6), DLOCK_OK, "nodes whose names dlock does not make");
}

Test(admin, list_of_many_names_and_of_its_end)
{
    char name[16];

    begin_open("many");
    for (size_t i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof name, "%03zu", i);
        (void)foreign(name, "_c_1b2a3c4d-0000-4000-8000-000000000003-__READ__", "");
        if (i % 3 == 0)
            (void)foreign(name, "_c_1b2a3c4d-0000-4000-8000-000000000003-__READ__", "");
    }
    cr_assert_eq(list("", 400), DLOCK_OK);
    cr_assert_eq(list("1", 133), DLOCK_OK);
    count = 7;
    cr_assert_eq(dlt_list(&t, "", holders, &count), DLOCK_OK, "the caller wants no more");
    cr_assert_eq(count, 7);
}

Test(admin, list_of_raw_names_is_that_of_a_tree)
{
    begin("raw");
    dlt_session_option(&t, "key", "raw");
    open_one(&t);
    (void)foreign("a", "_c_1b2a3c4d-0000-4000-8000-000000000001-lock-", "");
    (void)foreign("a/b", "_c_1b2a3c4d-0000-4000-8000-000000000001-lock-", "");
    (void)foreign("a/bc", "0123456789abcdef0123456789abcdef__lock__", "");
    (void)dlt_zk_client_ask(&other, "create %s/x", base);
    (void)foreign("x/y", "_c_1b2a3c4d-0000-4000-8000-000000000001-__WRIT__", "");
    cr_assert_eq(list("", 4), DLOCK_OK);
    cr_assert_eq(list("a/b", 2), DLOCK_OK);
    cr_assert_eq(list("a/bc", 1), DLOCK_OK);
    cr_assert_str_eq(holders[0].name, "a/bc");
    cr_assert_eq(list("x/y", 1), DLOCK_OK);
    cr_assert_eq(list("y", 0), DLOCK_OK);
    inspect("x/y", 1);
    inspect("x", 0);
}

Test(admin, list_without_a_base_is_empty)
{
    begin("nobase");
    (void)dlt_zk_ask(&server, "delete %s", base);
    open_one(&t);
    cr_assert_eq(list("", 0), DLOCK_OK, "%s", t.err.message);
    inspect("job", 0);
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_NOT_HELD);
}

/* ---- break ---- */

Test(admin, BRK_1_all_readers_at_once)
{
    begin_open("breakall");
    for (size_t i = 0; i < 200; i++)
        (void)foreign("job", "_c_1b2a3c4d-0000-4000-8000-000000000003-__READ__", "");
    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)foreign("job", "_c_1b2a3c4d-0000-4000-8000-000000000004-__WRIT__", "");
    cr_assert_eq(dlt_break(&t, "job", "61616161616161616161616161616161"), DLOCK_OK);
    inspect("job", 200);
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_OK, "%s", t.err.message);
    inspect("job", 1);
    cr_assert_str_eq(holders[0].owner, "1b2a3c4d-0000-4000-8000-000000000004");
    cr_assert_eq(dlt_break(&t, "job", holders[0].owner), DLOCK_OK, "of another program");
    inspect("job", 0);
}

/* ---- rights ---- */

static void user(struct dlt_session *session, const char *name)
{
    session->target.user = name;
    session->target.password = "secret";
}

Test(admin, the_least_rights)
{
    const char *path = NULL;

    begin("rights");
    cr_assert_str_eq(dlt_zk_ask(&server, "setAcl %s " DIGEST_U ":cr", base), "");
    user(&s, "u");
    open_one(&s);
    dlt_request(&s, &a, "job", 'a', DLT_ZK_TTL_MS);
    dlt_request(&s, &b, "job", 'b', DLT_ZK_TTL_MS);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    path = dlt_zk_ask(&server, "getAcl %s/job", base);
    cr_assert_str_eq(path, DIGEST_U ":cdrwa", "%s", path);
    b.req.flags = DLOCK_REQ_ENQUEUE;
    cr_assert_eq(dlt_try(&s, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    count = MOST;
    cr_assert_eq(dlt_list(&s, "", holders, &count), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(count, 1);
    cr_assert_eq(dlt_break(&s, "job", NULL), DLOCK_OK, "%s", s.err.message);
    count = MOST;
    cr_assert_eq(dlt_inspect(&s, "job", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 0);
}

Test(admin, AUTH_a_user_without_rights)
{
    begin("norights");
    cr_assert_str_eq(dlt_zk_ask(&server, "setAcl %s " DIGEST_U ":cdrwa", base), "");
    user(&s, "u");
    open_one(&s);
    user(&t, "v");
    open_one(&t);
    dlt_request(&s, &a, "job", 'a', DLT_ZK_TTL_MS);
    dlt_request(&t, &c, "job", 'c', DLT_ZK_TTL_MS);
    cr_assert_eq(dlt_try(&t, &c), DLOCK_AUTH, "no node of a name is made");
    cr_assert(strstr(t.err.message, "secret") == NULL, "C17");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &c), DLOCK_AUTH);
    count = MOST;
    cr_assert_eq(dlt_inspect(&t, "job", holders, &count), DLOCK_AUTH);
    cr_assert_eq(list("", 0), DLOCK_AUTH);
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_AUTH);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
}

Test(admin, AUTH_a_list_has_what_may_be_read)
{
    begin("some");
    open_one(&t);
    (void)foreign("closed", "_c_1b2a3c4d-0000-4000-8000-000000000001-lock-", "");
    (void)foreign("open", "_c_1b2a3c4d-0000-4000-8000-000000000001-lock-", "label");
    (void)dlt_zk_ask(&server, "setAcl %s/closed " DIGEST_U ":r", base);
    cr_assert_eq(list("", 1), DLOCK_AUTH);
    cr_assert_str_eq(holders[0].name, "open");
    cr_assert(strstr(t.err.message, "not be read: 1") != NULL, "%s", t.err.message);
    cr_assert_eq(list("open", 1), DLOCK_OK, "%s", t.err.message);
}

Test(admin, a_holder_whose_label_may_not_be_read)
{
    const char *node = NULL;

    begin_open("label");
    node = foreign("job", "_c_1b2a3c4d-0000-4000-8000-000000000001-lock-", "label");
    cr_assert_str_eq(dlt_zk_ask(&server, "setAcl %s/job/%s " DIGEST_U ":r", base, node), "");
    inspect("job", 1);
    cr_assert_str_eq(holders[0].label, "");
    /* ZooKeeper 3.9 does not tell its number either. */
    cr_assert(holders[0].fence > 0 || strstr(t.info.server, "3.8.0") == NULL, "%s", t.info.server);
}

Test(admin, acl_open_lets_everybody_in)
{
    begin("everybody");
    user(&s, "u");
    dlt_session_option(&s, "acl", "open");
    open_one(&s);
    open_one(&t);
    dlt_request(&s, &a, "job", 'a', DLT_ZK_TTL_MS);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    inspect("job", 1);
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_OK, "%s", t.err.message);
}

/* enforce.auth.enabled: the session is closed at its first request. */
Test(admin, AUTH_servers_that_want_a_login)
{
    static const char *const lines[] = {"-Dzookeeper.enforce.auth.enabled=true",
                                        "-Dzookeeper.enforce.auth.schemes=digest", NULL};

    (void)snprintf(base, sizeof base, "/enforced");
    cr_assert(dlt_zk_start(&server, lines), "%s", server.why);
    session_init(&s);
    session_init(&t);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(dlt_session_open(&t), DLOCK_AUTH, "%s", t.err.message);
        cr_assert(strstr(t.err.message, "pass_file=") != NULL, "%s", t.err.message);
        dlt_session_close(&t);
        session_init(&t);
    }
    user(&s, "u");
    open_one(&s);
    dlt_request(&s, &a, "job", 'a', DLT_ZK_TTL_MS);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    base[0] = '\0'; /* nothing to delete: who asks has not logged in */
}

/* ---- while nobody answers ---- */

Test(admin, UNAVAILABLE_at_servers_that_stand_still)
{
    int64_t begun_ns = 0;

    begin("still");
    dlt_zk_stop(&server);
    cr_assert(dlt_zk_start(&server, NULL), "%s", server.why);
    session_init(&s);
    session_init(&t);
    open_one(&s);
    open_one(&t);
    dlt_request(&s, &a, "job", 'a', DLT_ZK_TTL_MS);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    dlt_zk_pause(&server, 0, true);
    t.call_ms = 300;
    begun_ns = dlt_host_now(&t.host);
    count = MOST;
    cr_assert_eq(dlt_inspect(&t, "job", holders, &count), DLOCK_UNAVAILABLE);
    cr_assert_eq(dlt_list(&t, "", holders, &count), DLOCK_UNAVAILABLE);
    cr_assert_eq(dlt_break(&t, "job", NULL), DLOCK_UNAVAILABLE, "nothing was deleted");
    cr_assert(dlt_host_within(&t.host, begun_ns, 1200), "%s", dlt_within_text());
    dlt_zk_pause(&server, 0, false);
}
