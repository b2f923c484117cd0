/* SPDX-License-Identifier: MIT */
/* Tests: plugins/zookeeper/slot.c plugins/zookeeper/take.c plugins/zookeeper/queue.c */
/* Tests: plugins/zookeeper/unlock.c plugins/zookeeper/admin.c */
/* Is a permit of a semaphore one holder's only, also beside waiters, sessions that end and programs
 * that know no limits? */
#include "name_kit.h"
#include "permit_calls.h"

#include <inttypes.h>
#include <stdlib.h>

Test(permits, C21_a_waiter_that_may_choose_first_and_is_gone)
{
    open_semaphore("dead", 2);
    want_permit(&s, &a, 0);
    want_permit(&t, &b, 1);
    queue(&u, &c);
    queue(&s, &d);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(refresh(&s, &d), DLOCK_BUSY, "two are free, and the first one has not chosen");
    dlt_session_close(&u);
    for (int i = 0; i < 1500 && refresh(&s, &d) == DLOCK_BUSY; i++)
        dlt_sleep_ms(10);
    cr_assert_eq(refresh(&s, &d), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.grant.permit, 0);
    cr_assert_eq(dlt_session_open(&u), DLOCK_OK);
    close_all();
}

/* The waiters of the name, by the first letters of their tokens; each holder is told so many. */
static void want_waiters(const char *want, size_t holders_want)
{
    struct dlt_queued waiters[4];
    struct dlt_holder holders[4];
    size_t count = 4;

    cr_assert_eq(dlt_list_waiters(&t, "job", waiters, &count), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(count, strlen(want), "%zu waiters, want %s", count, want);
    for (size_t i = 0; i < count; i++) {
        char hex[3];

        (void)snprintf(hex, sizeof hex, "%02x", want[i]);
        cr_assert_eq(strncmp(waiters[i].owner, hex, 2), 0, "%zu: %s", i, waiters[i].owner);
        cr_assert_eq(waiters[i].position, i);
    }
    count = 4;
    cr_assert_eq(dlt_inspect(&t, "job", holders, &count), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(count, holders_want);
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(holders[i].waiters, strlen(want), "%u", holders[i].waiters);
}

Test(permits, C13_a_waiter_that_may_choose_and_does_not_is_shown)
{
    open_semaphore("shown", 2);
    want_permit(&s, &a, 0);
    want_permit(&t, &b, 1);
    queue(&u, &c);
    queue(&s, &d);
    cr_assert_eq(s.grant.queue_position, 1);
    want_waiters("cd", 2);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    want_waiters("cd", 1);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    want_waiters("cd", 0);
    cr_assert_eq(refresh(&u, &c), DLOCK_OK);
    want_waiters("d", 1);
    cr_assert_eq(refresh(&s, &d), DLOCK_OK);
    want_waiters("", 2);
    close_all();
}

#define MANY 70 /* more than the client asks for at once */

/* A waiter that may choose, and does not, is one more for each of them. */
Test(permits, C13_each_of_many_holders_is_shown_with_the_same_waiters)
{
    static struct dlt_request many[MANY];
    static struct dlt_holder holders[MANY + 1];
    size_t count = MANY + 1;

    open_semaphore("many", MANY + 1);
    want_permit(&t, &b, 0);
    for (uint32_t i = 0; i < MANY; i++) {
        dlt_request(&s, &many[i], "job", (unsigned char)i, DLT_ZK_TTL_MS);
        many[i].req.token[0] = 1;
        many[i].req.limit = MANY + 1;
        want_permit(&s, &many[i], i + 1);
    }
    queue(&u, &c);
    cr_assert_eq(dlt_unlock(&t, &b), DLOCK_OK);
    cr_assert_eq(dlt_inspect(&t, "job", holders, &count), DLOCK_OK, "%s", t.err.message);
    cr_assert_eq(count, MANY, "%zu holders", count);
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(holders[i].waiters, 1, "holder %zu: %u waiters", i, holders[i].waiters);
    for (uint32_t i = 0; i < MANY; i++)
        forget(&s, &many[i]);
    close_all();
}

/* By its own request, and by one that knows the token only. */
Test(permits, UNL_1_a_waiter_that_may_choose_holds_nothing)
{
    struct dlt_request again;

    open_semaphore("waits", 2);
    want_permit(&s, &a, 0);
    want_permit(&t, &b, 1);
    queue(&u, &c);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&u, &c), DLOCK_LOST);
    dlt_request(&u, &again, "job", 'c', DLT_ZK_TTL_MS);
    again.req.limit = 2;
    cr_assert_eq(dlt_unlock(&u, &again), DLOCK_LOST);
    cr_assert_eq(dlt_try(&s, &d), DLOCK_BUSY, "the entry stays");
    cr_assert_eq(refresh(&u, &c), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(u.grant.permit, 0);
    cr_assert_eq(dlt_unlock(&u, &again), DLOCK_OK, "%s", u.err.message);
    cr_assert_eq(nodes_count("job", ""), 1);
    forget(&u, &again);
    forget(&s, &d);
    close_all();
}

/* Packets of the client, as the server counts them; -1: it knows no such client. */
static long packets_of(const struct dlt_session *session)
{
    const char *text = dlt_zk_word(&server.members[0], "cons");
    const char *end = NULL, *at = NULL;
    char sid[40];

    (void)snprintf(sid, sizeof sid, "sid=0x%" PRIx64 ",", session_id(session));
    end = strstr(text, sid);
    for (const char *found = strstr(text, "recved="); found != NULL && found < end;
         found = strstr(found + 1, "recved="))
        at = found;
    return at != NULL ? strtol(at + strlen("recved="), NULL, 10) : -1;
}

/* A permit may be free as soon as the node of another limit goes, which may take long. */
Test(permits, C21_a_call_that_only_tries_does_not_keep_the_server_busy)
{
    long packets = 0;

    open_semaphore("patient", 3);
    want_permit(&s, &a, 0);
    (void)dlt_zk_ask(&server, "create -s %s/job/_c_old-__WRIT__", base);
    packets = packets_of(&t);
    cr_assert_geq(packets, 0, "%s", dlt_zk_word(&server.members[0], "cons"));
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "it is before us");
    packets = packets_of(&t) - packets;
    cr_assert_gt(packets, 4, "it asked once more: the node may go at once");
    cr_assert_lt(packets, 40, "%ld packets", packets);
    cr_assert_eq(nodes_count("job", ""), 2, "a refusal leaves no node");
    close_all();
}

/* A node of a lock behind a permit: of a program that knows no limits. */
Test(permits, C21_programs_that_know_no_limits_wait_and_keep_permits_out)
{
    open_semaphore("old", 2);
    want_permit(&s, &a, 0);
    (void)dlt_zk_ask(&server, "create -s %s/job/_c_old-__WRIT__", base);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_BUSY, "it is before us");
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&t, &b), DLOCK_CONFIG, "it has the name now");
    close_all();
}
