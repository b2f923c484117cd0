/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/probe.c */
/* What slot probe tells people about a cluster. */
#include "etcd_kit.h"

#include <criterion/criterion.h>
#include <string.h>

static struct dlt_etcd server, other;
static struct dlt_session s;
static const char *hosts[4];
static char said[4096]; /* "name: found; advice\n" of each check */

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_etcd_stop(&server);
    dlt_etcd_stop(&other);
}

TestSuite(probe, .fini = tear_down, .timeout = 60);

static bool note(void *arg, const struct dlock_check *check)
{
    size_t len = strlen(said);

    (void)arg;
    cr_assert_eq(check->struct_size, sizeof *check);
    cr_assert_eq(check->clears, 0);
    (void)snprintf(said + len, sizeof said - len, "%s: %s; %s\n", check->name, check->found,
                   check->advice != NULL ? check->advice : "fine");
    return false;
}

static enum dlock_status probe(void)
{
    said[0] = '\0';
    memset(&s.info, 0, sizeof s.info);
    s.info.struct_size = sizeof s.info;
    s.err = (struct dlock_error)DLOCK_ERROR_INIT;
    return s.ops->probe(s.self, dlt_host_in(&s.host, 5000), &s.info, note, NULL, &s.err);
}

static void says(const char *text)
{
    cr_assert(strstr(said, text) != NULL, "\"%s\" is not in\n%s", text, said);
}

/* A session with members of `server`, and perhaps with a foreign member. */
static void open_with(const char *first, const char *second, const char *third)
{
    dlt_session_init(&s, &server);
    hosts[0] = first;
    hosts[1] = second;
    hosts[2] = third;
    s.target.hosts = hosts;
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

Test(probe, a_cluster)
{
    cr_assert(dlt_etcd_start_cluster(&server, 3, NULL), "%s", server.why);
    open_with(server.members[0].address, server.members[1].address, server.members[2].address);
    cr_assert_eq(probe(), DLOCK_OK, "%s", s.err.message);
    says(server.members[0].address);
    says(server.members[2].address);
    says("members: 3, in the URI 3; fine");
    says("alarms: none; fine");
    says("prefix: none");
    says("leader");
    says("follower");
    cr_assert_eq(strncmp(s.info.server, "etcd 3.", 7), 0, "%s", s.info.server);
    cr_assert_str_eq(s.info.endpoint, server.members[0].address);
    cr_assert_neq(s.info.caps & DLOCK_CAP_CONCURRENT, 0);
    cr_assert_eq(s.ops->probe(s.self, dlt_host_in(&s.host, 5000), &s.info, NULL, NULL, &s.err),
                 DLOCK_OK, "without anybody who is told");
    dlt_etcd_pause(&server, 0, true);
    cr_assert_eq(probe(), DLOCK_OK, "%s", s.err.message);
    says("no answer in time; the others serve without it");
    cr_assert_str_eq(s.info.endpoint, server.members[1].address);
    dlt_session_close(&s);
    open_with(server.members[1].address, NULL, NULL);
    cr_assert_eq(probe(), DLOCK_OK, "%s", s.err.message);
    says("members: 3, in the URI 1; name all members in the URI");
}

Test(probe, members_that_are_wrong)
{
    cr_assert(dlt_etcd_start(&server, NULL), "%s", server.why);
    cr_assert(dlt_etcd_start(&other, NULL), "%s", other.why);
    open_with(server.members[0].address, other.members[0].address, "127.0.0.1:1");
    cr_assert_eq(probe(), DLOCK_OK, "%s", s.err.message);
    says("another cluster");
    says("it serves no locks: correct it, or take it out of the URI");
    says("Connection refused; the others serve without it");
    says("members: 1, in the URI 3; while one member is down");
    dlt_etcd_kill(&server, 0);
    cr_assert_eq(probe(), DLOCK_UNAVAILABLE, "%d: %s", (int)s.err.status, s.err.message);
    cr_assert(strstr(s.err.message, server.members[0].address) != NULL, "%s", s.err.message);
}

Test(probe, rights_on_other_keys)
{
    cr_assert(dlt_etcd_start(&server, NULL), "%s", server.why);
    cr_assert(dlt_etcd_auth(&server, "locks/"), "%s", server.why);
    dlt_session_init(&s, &server);
    s.target.user = "u";
    s.target.password = "secret";
    dlt_session_prefix(&s, "/locks");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(probe(), DLOCK_OK, "%s", s.err.message);
    says("keys: 0 below the prefix; fine");
    says("prefix: locks/");
    dlt_session_close(&s);
    dlt_session_prefix(&s, "/other");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(probe(), DLOCK_OK, "%s", s.err.message);
    says("keys: no right to read all keys of the prefix; ");
    cr_assert(strstr(said, "secret") == NULL, "C17");
}

Test(probe, a_full_database)
{
    static const char *const args[] = {"--quota-backend-bytes", "100000", NULL};
    bool full = false;

    cr_assert(dlt_etcd_start(&server, args), "%s", server.why);
    for (int i = 0; i < 50 && !full; i++)
        full = strstr(dlt_etcd_ask(&server, "put big $(head -c 50000 /dev/zero | tr '\\0' x)"),
                      "space exceeded") != NULL;
    cr_assert(full);
    open_with(server.members[0].address, NULL, NULL);
    cr_assert_eq(probe(), DLOCK_OK, "%s", s.err.message);
    says("alarms: NOSPACE; no new lock is given");
}
