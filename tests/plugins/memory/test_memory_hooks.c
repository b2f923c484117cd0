/* SPDX-License-Identifier: MIT */
/* Do the hooks do to a call what they say, so that tests of core can rest on them? */
#include "memory_fixture.h"

#include <pthread.h>
#include <string.h>

static struct fixture f;
static struct dlt_request a, b;

static void set_up(void)
{
    fixture_init(&f, dlock_plugin_memory_hooked(), 0);
    dlt_request_init(&a, &f.host, "job", 'a', 1000);
    dlt_request_init(&b, &f.host, "job", 'b', 1000);
}

static void tear_down(void)
{
    fixture_close(&f);
}

TestSuite(hooks, .init = set_up, .fini = tear_down);

static void fault(enum memory_slot slot, enum memory_fault_kind kind)
{
    struct memory_fault added = {.kind = kind, .status = DLOCK_AUTH};

    cr_assert_eq(memory_hooks_fault("x", slot, &added), 0);
}

Test(hooks, calls_are_counted_and_the_last_request_is_kept)
{
    struct memory_seen seen;

    cr_assert_eq(memory_hooks_last("x", MEMORY_TRYLOCK, &seen), 0);
    cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_BUSY);
    cr_assert_eq(memory_hooks_calls("x", MEMORY_TRYLOCK), 2);
    cr_assert_eq(memory_hooks_calls("x", MEMORY_OPEN), 1);
    cr_assert_eq(memory_hooks_last("x", MEMORY_TRYLOCK, &seen), 1);
    cr_assert_eq(seen.req, &b.req);
    cr_assert_eq(seen.name_len, 3);
    cr_assert_eq(memcmp(seen.name, "job", 3), 0);
    cr_assert_eq(seen.token[0], 'b');
    cr_assert_eq(seen.ttl_ms, 1000);
    cr_assert_str_eq(seen.label, "host:1:test");
    memory_hooks_reset("x");
    cr_assert_eq(memory_hooks_calls("x", MEMORY_TRYLOCK), 0);
}

Test(hooks, a_lost_request_was_not_executed)
{
    fault(MEMORY_TRYLOCK, MEMORY_LOST_REQUEST);
    cr_assert_eq(fixture_try(&f, &a), DLOCK_UNKNOWN);
    cr_assert_eq(f.err.status, DLOCK_UNKNOWN);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_OK);
}

Test(hooks, a_lost_reply_was_executed)
{
    fault(MEMORY_TRYLOCK, MEMORY_LOST_REPLY);
    cr_assert_eq(fixture_try(&f, &a), DLOCK_UNKNOWN);
    cr_assert_eq(f.grant.lease_ms, 0);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_BUSY);
    fault(MEMORY_UNLOCK, MEMORY_LOST_REPLY);
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_UNKNOWN);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_OK);
}

Test(hooks, a_renewal_that_is_lost_says_so_for_each_element)
{
    cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
    dlt_host_advance(&f.host, 500);
    fault(MEMORY_RENEW, MEMORY_LOST_REQUEST);
    cr_assert_eq(fixture_renew(&f, &a), DLOCK_UNKNOWN);
    fault(MEMORY_RENEW, MEMORY_REFUSE);
    cr_assert_eq(fixture_renew(&f, &a), DLOCK_AUTH);
    dlt_host_advance(&f.host, 499);
    fault(MEMORY_RENEW, MEMORY_LOST_REPLY);
    cr_assert_eq(fixture_renew(&f, &a), DLOCK_UNKNOWN);
    dlt_host_advance(&f.host, 999);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_BUSY, "the lost reply was of a renewal");
}

Test(hooks, a_late_request_is_executed_when_it_is_delivered)
{
    enum dlock_status last = DLOCK_INTERNAL;

    fault(MEMORY_TRYLOCK, MEMORY_LATE_REQUEST);
    cr_assert_eq(fixture_try(&f, &a), DLOCK_UNKNOWN);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_OK);
    cr_assert_eq(memory_hooks_deliver("x", &last), 1);
    cr_assert_eq(last, DLOCK_BUSY);
    fault(MEMORY_RENEW, MEMORY_LATE_REQUEST);
    cr_assert_eq(fixture_renew(&f, &b), DLOCK_UNKNOWN);
    fault(MEMORY_UNLOCK, MEMORY_LATE_REQUEST);
    cr_assert_eq(fixture_unlock(&f, &b), DLOCK_UNKNOWN);
    cr_assert_eq(fixture_try(&f, &a), DLOCK_BUSY);
    cr_assert_eq(memory_hooks_deliver("x", &last), 2);
    cr_assert_eq(last, DLOCK_OK);
    cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
    cr_assert_eq(memory_hooks_deliver("x", &last), 0);
}

Test(hooks, a_lost_leave_may_or_may_not_have_been_executed)
{
    cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
    cr_assert_eq(fixture_enqueue(&f, &b), DLOCK_BUSY);
    fault(MEMORY_LEAVE, MEMORY_LOST_REQUEST);
    cr_assert_eq(fixture_leave(&f, &b), DLOCK_UNKNOWN);
    cr_assert_eq(fixture_refresh(&f, &b), DLOCK_BUSY);
    cr_assert_eq(f.grant.flags, DLOCK_GRANT_QUEUED);
    fault(MEMORY_LEAVE, MEMORY_LOST_REPLY);
    cr_assert_eq(fixture_leave(&f, &b), DLOCK_UNKNOWN);
    cr_assert_eq(fixture_refresh(&f, &b), DLOCK_BUSY);
    cr_assert_eq(f.grant.flags, 0);
    fault(MEMORY_LEAVE, MEMORY_REFUSE);
    cr_assert_eq(fixture_leave(&f, &b), DLOCK_AUTH);
    cr_assert_eq(memory_hooks_calls("x", MEMORY_LEAVE), 3);
}

Test(hooks, a_late_leave_and_a_late_enqueue_are_executed_when_delivered)
{
    enum dlock_status last = DLOCK_INTERNAL;

    cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
    fault(MEMORY_TRYLOCK, MEMORY_LATE_REQUEST);
    cr_assert_eq(fixture_enqueue(&f, &b), DLOCK_UNKNOWN);
    cr_assert_eq(fixture_leave(&f, &b), DLOCK_OK, "it overtakes the other");
    cr_assert_eq(memory_hooks_deliver("x", &last), 1);
    cr_assert_eq(last, DLOCK_BUSY);
    fault(MEMORY_LEAVE, MEMORY_LATE_REQUEST);
    cr_assert_eq(fixture_leave(&f, &b), DLOCK_UNKNOWN);
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
    cr_assert_eq(fixture_try(&f, &a), DLOCK_BUSY, "granted to the place that was left over");
    cr_assert_eq(f.grant.holder_ms, b.req.ttl_ms, "which is less than waiter_lease");
    cr_assert_eq(memory_hooks_deliver("x", &last), 1);
    cr_assert_eq(last, DLOCK_OK);
    cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
}

Test(hooks, a_grant_that_is_lost_is_found_by_a_refresh)
{
    cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
    cr_assert_eq(fixture_enqueue(&f, &b), DLOCK_BUSY);
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_OK);
    fault(MEMORY_WATCH, MEMORY_LOST_REPLY);
    cr_assert_eq(fixture_watch(&f, &b, 0), DLOCK_TIMEOUT);
    cr_assert_eq(f.grant.fence, 0);
    fault(MEMORY_WATCH, MEMORY_LOST_REPLY);
    f.ops->interrupt(f.self, &b.req);
    cr_assert_eq(fixture_watch(&f, &b, 1000), DLOCK_CANCELED);
    cr_assert_eq(fixture_refresh(&f, &b), DLOCK_OK);
    f.ops->forget(f.self, &b.req);
}

Test(hooks, a_refusal_has_the_status_of_the_test_and_its_turn)
{
    struct memory_fault later = {
        .kind = MEMORY_REFUSE, .status = DLOCK_PROTOCOL, .skip = 1, .times = 2};

    cr_assert_eq(memory_hooks_fault("x", MEMORY_TRYLOCK, &later), 0);
    cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_PROTOCOL);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_PROTOCOL);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_BUSY);
    cr_assert_eq(memory_hooks_fault("x", MEMORY_TRYLOCK, &later), 0);
    memory_hooks_heal("x", MEMORY_TRYLOCK);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_BUSY);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_BUSY);
}

Test(hooks, a_dead_session_stays_dead_and_a_new_one_lives)
{
    struct fixture g = f;

    fault(MEMORY_TRYLOCK, MEMORY_DIE);
    cr_assert_eq(fixture_try(&f, &a), DLOCK_AUTH);
    cr_assert_eq(fixture_try(&f, &a), DLOCK_UNAVAILABLE);
    cr_assert_eq(fixture_renew(&f, &a), DLOCK_UNAVAILABLE);
    cr_assert_eq(fixture_unlock(&f, &a), DLOCK_UNAVAILABLE);
    cr_assert_eq(fixture_open(&g), DLOCK_OK);
    cr_assert_eq(fixture_try(&g, &a), DLOCK_OK);
    fixture_close(&g);
    memory_hooks_revive("x");
    cr_assert_eq(fixture_try(&f, &b), DLOCK_BUSY);
}

Test(hooks, a_limited_store_announces_less)
{
    uint32_t without = DLOCK_CAP_CONCURRENT | DLOCK_CAP_WATCH;
    uint32_t left = DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE | DLOCK_CAP_FENCE | DLOCK_CAP_PRIVATE |
                    DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP | DLOCK_CAP_DATA;
    const struct dlock_plugin *plugin = dlock_plugin_memory_limited("poor", without);
    struct fixture g = f;

    cr_assert_eq(plugin->caps, left);
    cr_assert_null(plugin->ops->watch);
    cr_assert_null(plugin->ops->dequeue, "a queue needs watches");
    cr_assert_null(plugin->ops->interrupt);
    cr_assert_eq(plugin, dlock_plugin_memory_limited("poor", without));
    dlt_target_init(&g.target, "memory", "poor", "");
    g.ops = plugin->ops;
    cr_assert_eq(fixture_open(&g), DLOCK_OK);
    cr_assert_eq(g.info.caps, left);
    cr_assert_eq(fixture_try(&g, &a), DLOCK_OK);
    g.ops->forget(NULL, &a.req);
    fixture_close(&g);
    cr_assert_neq(f.info.caps & without, 0, "other stores have it all");
}

Test(hooks, a_store_without_readers_cannot_downgrade)
{
    const struct dlock_plugin *plugin = dlock_plugin_memory_limited("poor", DLOCK_CAP_RWLOCK);

    cr_assert_eq(f.plugin->caps & ~plugin->caps, DLOCK_CAP_RWLOCK | DLOCK_CAP_DOWNGRADE);
    cr_assert_not_null(plugin->ops->dequeue);
    plugin = dlock_plugin_memory_limited("poor", DLOCK_CAP_QUEUE);
    cr_assert_eq(f.plugin->caps & ~plugin->caps, DLOCK_CAP_QUEUE);
    cr_assert_null(plugin->ops->dequeue);
}

Test(hooks, killed_sessions_answer_nothing_more)
{
    memory_hooks_kill_sessions("x");
    cr_assert_eq(fixture_try(&f, &a), DLOCK_UNAVAILABLE);
}

Test(hooks, the_clock_of_the_store_is_not_the_clock_of_deadlines)
{
    memory_hooks_clock_set("x", 0);
    cr_assert_eq(fixture_try(&f, &a), DLOCK_OK);
    dlt_host_advance(&f.host, 5000);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_BUSY);
    memory_hooks_clock_advance("x", 1000);
    cr_assert_eq(fixture_try(&f, &b), DLOCK_OK);
}

Test(hooks, faults_of_one_store_do_not_reach_another)
{
    struct fixture g = f;

    dlt_target_init(&g.target, "memory", "y", "");
    cr_assert_eq(fixture_open(&g), DLOCK_OK);
    fault(MEMORY_TRYLOCK, MEMORY_REFUSE);
    cr_assert_eq(fixture_try(&g, &a), DLOCK_OK);
    cr_assert_eq(memory_hooks_calls("y", MEMORY_TRYLOCK), 1);
    cr_assert_eq(memory_hooks_calls("x", MEMORY_TRYLOCK), 0);
    fixture_close(&g);
}

static void *trier(void *arg)
{
    return (void *)(intptr_t)fixture_try(&f, arg);
}

static enum dlock_status join(pthread_t thread)
{
    void *result = NULL;

    cr_assert_eq(pthread_join(thread, &result), 0);
    return (enum dlock_status)(intptr_t)result;
}

Test(hooks, a_reply_that_is_held_comes_when_it_is_let_go)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_grant grant = {0};
    pthread_t thread;

    fault(MEMORY_TRYLOCK, MEMORY_HELD_REPLY);
    cr_assert_eq(pthread_create(&thread, NULL, trier, &a), 0);
    cr_assert_eq(memory_hooks_await("x", MEMORY_TRYLOCK, 1, 10000), 0);
    while (memory_hooks_held("x") == 0)
        (void)sched_yield();
    cr_assert_eq(f.ops->trylock(f.self, &b.req, &grant, &err), DLOCK_BUSY, "it was executed");
    memory_hooks_go("x");
    cr_assert_eq(join(thread), DLOCK_OK);
    cr_assert_eq(memory_hooks_held("x"), 0);
}

Test(hooks, late_and_slow_follow_the_clock_of_the_host)
{
    struct memory_fault late = {.kind = MEMORY_LATE_REPLY, .ms = 7};
    struct memory_fault slow = {.kind = MEMORY_SLOW, .ms = 100};
    pthread_t thread;

    cr_assert_eq(memory_hooks_fault("x", MEMORY_TRYLOCK, &slow), 0);
    cr_assert_eq(memory_hooks_fault("x", MEMORY_TRYLOCK, &late), 0);
    cr_assert_eq(pthread_create(&thread, NULL, trier, &a), 0);
    cr_assert_eq(memory_hooks_await("x", MEMORY_TRYLOCK, 1, 10000), 0);
    dlt_host_advance(&f.host, 100);
    memory_hooks_wake("x");
    cr_assert_eq(join(thread), DLOCK_OK);
    cr_assert_eq(f.grant.lease_ms, 1000, "it was executed at the end of the delay");
    cr_assert_eq(pthread_create(&thread, NULL, trier, &b), 0);
    cr_assert_eq(memory_hooks_await("x", MEMORY_TRYLOCK, 2, 10000), 0);
    f.host.now_ns = b.req.deadline_ns + 7 * DLT_NS_PER_MS;
    memory_hooks_wake("x");
    cr_assert_eq(join(thread), DLOCK_BUSY);
}

Test(hooks, an_open_can_be_refused)
{
    struct fixture g = f;

    fault(MEMORY_OPEN, MEMORY_REFUSE);
    cr_assert_eq(fixture_open(&g), DLOCK_AUTH);
    fixture_close(&g);
    cr_assert_eq(fixture_open(&g), DLOCK_OK);
    fixture_close(&g);
}

Test(hooks, the_table_is_full_at_its_bound)
{
    struct memory_fault added = {.kind = MEMORY_REFUSE, .status = DLOCK_AUTH};
    int count = 0;

    while (memory_hooks_fault("x", MEMORY_LIST, &added) == 0 && count < 1000)
        count++;
    cr_assert(count >= 16 && count < 1000, "%d", count);
}
