/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/row_lease.c plugins/postgresql/statements.c
 * plugins/postgresql/row_inspect.c */
/* Tests: plugins/postgresql/row_listener.c */
/* Semaphores and kept names of strategy row: what the functions count, grant and keep. (LIM, KEP)
 */
#include "row_kit.h"

static struct dlt_request d, e;

static void limit(struct dlt_request *request, uint32_t most)
{
    request->req.limit = most;
}

static void open_permits(const char *test, uint32_t most)
{
    open_all(test);
    dlt_request(&s, &d, "job", 'd', 60000);
    dlt_request(&s, &e, "job", 'e', 60000);
    limit(&a, most);
    limit(&b, most);
    limit(&c, most);
    cr_assert_eq(s.info.caps & (DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP),
                 DLOCK_CAP_LIMIT | DLOCK_CAP_KEEP);
}

static uint64_t last_fence; /* of the grants of the name, whoever got them */

static void permit_try(struct dlt_session *session, struct dlt_request *request, uint32_t permit)
{
    cr_assert_eq(dlt_try(session, request), DLOCK_OK, "%s", session->err.message);
    cr_assert_eq(session->grant.permit, permit, "permit %u", session->grant.permit);
}

static void granted(struct dlt_session *session, struct dlt_request *request, uint32_t permit)
{
    permit_try(session, request, permit);
    cr_assert_gt(session->grant.fence, last_fence, "%llu after %llu",
                 (unsigned long long)session->grant.fence, (unsigned long long)last_fence);
    last_fence = session->grant.fence + session->grant.fence_room;
}

static enum dlock_status keep(struct dlt_session *session, struct dlt_request *request, int64_t ms)
{
    enum dlock_status status = DLOCK_INTERNAL;

    request->req.keep_ms = ms;
    status = dlt_unlock(session, request);
    request->req.keep_ms = 0;
    return status;
}

struct shown {
    unsigned count, permits, kept; /* bits of permits */
    uint32_t limit;
    int64_t remaining_ms;
};

static bool shown_add(void *arg, const struct dlock_holder *holder)
{
    struct shown *shown = arg;

    cr_assert_eq(holder->mode, DLOCK_EXCLUSIVE);
    cr_assert_eq(holder->owner[0] == '\0', holder->kept, "owner %s", holder->owner);
    cr_assert_str_eq(holder->label, "host:1:test");
    shown->count++;
    shown->permits |= 1u << holder->permit;
    shown->kept |= (holder->kept ? 1u : 0u) << holder->permit;
    shown->limit = holder->limit;
    shown->remaining_ms = holder->remaining_ms;
    return false;
}

/* By inspect, and by list. */
static struct shown show(void)
{
    struct shown shown = {0}, listed = {0};
    const int64_t deadline_ns = dlt_host_in(s.shared, s.call_ms);

    cr_assert_eq(s.ops->inspect(s.self, (const unsigned char *)"job", 3, deadline_ns, shown_add,
                                &shown, &s.err),
                 DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(
        s.ops->list(s.self, (const unsigned char *)"j", 1, deadline_ns, shown_add, &listed, &s.err),
        DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(shown.permits, listed.permits);
    cr_assert_eq(shown.kept, listed.kept);
    cr_assert_eq(shown.limit, listed.limit);
    return shown;
}

/* A row that is left of the token, whatever made it, becomes the permit. */
Test(permits, LIM_1_a_row_of_the_same_token)
{
    open_permits("left", 2);
    granted(&s, &a, 0);
    for (int i = 1; i < 3; i++) {
        const char *answer = dlt_postgres_ask(
            &server,
            "SELECT row_left_permit_add('job', '\\x61616161616161616161616161616161', 2, %d,"
            " clock_timestamp(), clock_timestamp() + interval '1 min', 'host:1:test')",
            i);

        cr_assert_str_eq(answer, i == 1 ? "1" : "0", "%s", answer);
    }
    cr_assert_eq(show().count, 1);
    cr_assert_eq(show().permits, 1);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(show().count, 0);
    close_all();
}

/* The row of the name is made again from what is left. */
Test(permits, LIM_1_after_the_row_was_removed_by_hand)
{
    open_permits("hand", 2);
    granted(&s, &a, 0);
    administer("DELETE FROM row_hand_lease");
    granted(&t, &b, 1);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY);
    administer("DELETE FROM row_hand_lease");
    cr_assert_eq(dlt_try(&s, &d), DLOCK_CONFIG);
    close_all();
}

Test(permits, CRASH_SAFE_what_is_kept_outlives_a_crash)
{
    cr_assert(dlt_postgres_start(&server, NULL), "%s", server.why);
    open_permits("crash", 2);
    granted(&s, &a, 0);
    granted(&t, &b, 1);
    cr_assert_eq(keep(&t, &b, 60000), DLOCK_OK);
    dlt_session_close(&u);
    dlt_session_close(&t);
    dlt_session_close(&s);
    dlt_postgres_kill(&server);
    cr_assert(dlt_postgres_again(&server), "%s", server.why);
    open_permits("crash", 2);
    cr_assert_eq(dlt_try(&u, &c), DLOCK_BUSY);
    cr_assert_eq(show().permits, 3);
    cr_assert_eq(show().kept, 2);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    granted(&u, &c, 0);
    close_all();
}
