/* SPDX-License-Identifier: MIT */
/* Tests: plugins/memory/plugin.c plugins/memory/lease.c plugins/memory/store.c */
/* Tests: plugins/memory/inspect.c */
/* Does each slot of memory:// keep its clauses of plugin.h? Time is virtual. */
#include "memory_fixture.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fixture f;
static struct dlt_request a, b;

static void set_up(void)
{
    fixture_init(&f, dlock_plugin_memory(), 0);
    dlt_request_init(&a, &f.host, "job", 'a', 1000);
    dlt_request_init(&b, &f.host, "job", 'b', 1000);
}

static void tear_down(void)
{
    if (f.self != NULL)
        fixture_close(&f);
}

TestSuite(memory, .init = set_up, .fini = tear_down);

Test(memory, OPN_reports_caps_within_the_descriptor)
{
    cr_assert_eq(f.info.caps, DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE |
                                  DLOCK_CAP_WATCH | DLOCK_CAP_QUEUE | DLOCK_CAP_CONCURRENT |
                                  DLOCK_CAP_PRIVATE | DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP |
                                  DLOCK_CAP_DATA);
    cr_assert_eq(f.info.caps & ~f.plugin->caps, 0);
    cr_assert_str_eq(f.info.endpoint, "x");
}

Test(memory, OPN_refuses_what_the_uri_cannot_mean)
{
    struct fixture g = f;

    dlt_target_init(&g.target, "memory", NULL, "");
    cr_expect_eq(fixture_open(&g), DLOCK_INVALID);
    fixture_close(&g);
    dlt_target_init(&g.target, "memory", "x", "/path");
    cr_expect_eq(fixture_open(&g), DLOCK_INVALID);
    fixture_close(&g);
    dlt_target_init(&g.target, "memory", "x", "");
    g.target.hosts[1] = "y";
    cr_expect_eq(fixture_open(&g), DLOCK_INVALID);
    fixture_close(&g);
    dlt_target_init(&g.target, "memory", "x", "");
    g.target.target.user = "u";
    cr_expect_eq(fixture_open(&g), DLOCK_INVALID);
    cr_expect_str_eq(g.err.origin, "memory");
    fixture_close(&g);
}

Test(memory, OPN_a_forked_child_is_refused)
{
    int status = 0;
    pid_t pid = fork();

    cr_assert_geq(pid, 0);
    if (pid == 0) {
        struct fixture g = f;

        _exit(fixture_open(&g) == DLOCK_FORKED && strstr(g.err.message, "forked child") ? 0 : 1);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

Test(memory, TRY_2_a_lease_ends_at_its_time_and_not_before)
{
    cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
    f.host.now_ns += 1000 * DLT_NS_PER_MS - 1;
    cr_assert_eq(fixture_try(&f, &b), DLOCK_BUSY);
    cr_assert_eq(f.grant.holder_ms, 1);
    f.host.now_ns += 1;
    cr_assert_eq(fixture_try(&f, &b), DLOCK_OK);
}

Test(memory, TRY_6_fences_rise_past_the_room_over_unlock_expiry_break_and_the_store_itself)
{
    uint64_t last = 0;

    for (int round = 0; round < 8; round++) {
        cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
        cr_assert_gt(f.grant.fence, last);
        last = f.grant.fence + f.grant.fence_room;
        switch (round % 4) {
        case 0:
            cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
            break;
        case 1:
            dlt_host_advance(&f.host, 1000);
            break;
        case 2:
            cr_assert_eq(f.ops->break_lock(f.self, a.req.name, a.req.name_len, NULL,
                                           a.req.deadline_ns, &f.err),
                         DLOCK_OK);
            break;
        default:
            cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
            fixture_close(&f); /* the store goes: no session, no lease */
            cr_assert_eq(fixture_open(&f), DLOCK_OK);
        }
    }
}

struct heard {
    unsigned calls, stop_after;
    struct dlock_holder last;
    char owner[64], label[64];
};

static bool hear(void *arg, const struct dlock_holder *lease)
{
    struct heard *heard = arg;

    heard->last = *lease;
    (void)snprintf(heard->owner, sizeof heard->owner, "%s", lease->owner);
    (void)snprintf(heard->label, sizeof heard->label, "%s", lease->label);
    heard->calls++;
    return heard->calls == heard->stop_after;
}

Test(memory, inspect_tells_the_holder)
{
    struct heard heard = {0};

    cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
    dlt_host_advance(&f.host, 250);
    cr_assert_eq(f.ops->inspect(f.self, a.req.name, 3, a.req.deadline_ns, hear, &heard, &f.err),
                 DLOCK_OK);
    cr_assert_eq(heard.calls, 1);
    cr_assert_eq(heard.last.remaining_ms, 750);
    cr_assert_eq(heard.last.held_ms, 250);
    cr_assert_eq(heard.last.fence, f.grant.fence);
    cr_assert_eq(heard.last.waiters, 0);
    cr_assert_str_eq(heard.owner, "61616161616161616161616161616161");
    cr_assert_str_eq(heard.label, "host:1:test");
    dlt_host_advance(&f.host, 750);
    cr_assert_eq(f.ops->inspect(f.self, a.req.name, 3, a.req.deadline_ns, hear, &heard, &f.err),
                 DLOCK_OK);
    cr_assert_eq(heard.calls, 1, "an expired lease is not a holder");
}

static unsigned listed(const char *prefix, unsigned stop_after)
{
    struct heard heard = {.stop_after = stop_after};
    const unsigned char *bytes = (const unsigned char *)prefix;
    uint32_t len = prefix == NULL ? 0 : (uint32_t)strlen(prefix);

    cr_assert_eq(f.ops->list(f.self, bytes, len, a.req.deadline_ns, hear, &heard, &f.err),
                 DLOCK_OK);
    return heard.calls;
}

Test(memory, list_tells_live_names_by_prefix)
{
    static const char *const names[] = {"a", "ab", "ab\xff", "abc", "b", "z"};

    for (unsigned char i = 0; i < 6; i++) {
        dlt_request_init(&a, &f.host, names[i], i, i == 5 ? 10 : 1000);
        cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
    }
    dlt_host_advance(&f.host, 10);
    cr_expect_eq(listed(NULL, 0), 5);
    cr_expect_eq(listed("a", 0), 4);
    cr_expect_eq(listed("ab", 0), 3);
    cr_expect_eq(listed("abcd", 0), 0);
    cr_expect_eq(listed(NULL, 2), 2, "non-zero stops");
}

static bool check_heard(void *arg, const struct dlock_check *check)
{
    cr_assert_str_eq(check->name, "reach");
    ++*(unsigned *)arg;
    return false;
}

Test(memory, probe_says_how_far_it_reaches)
{
    unsigned calls = 0;

    f.info = (struct dlock_session_info){0};
    cr_assert_eq(f.ops->probe(f.self, a.req.deadline_ns, &f.info, check_heard, &calls, &f.err),
                 DLOCK_OK);
    cr_assert_eq(calls, 1);
    cr_assert_neq(f.info.caps, 0);
    cr_assert_eq(f.ops->probe(f.self, a.req.deadline_ns, &f.info, NULL, NULL, &f.err), DLOCK_OK);
}
