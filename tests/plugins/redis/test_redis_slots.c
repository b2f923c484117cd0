/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/plugin.c plugins/redis/lease.c plugins/redis/renew.c */
/* Tests: plugins/redis/call/call.c plugins/resp/reply.c plugins/resp/keys.c */
/* Does one session keep the clauses of plugin.h, on a real server? */
#include "redis_kit.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct dlt_redis server;
static struct dlt_session s;
static struct dlt_request a, b, c;

static void set_up(void)
{
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
    cr_assert_eq(dlt_session_start(&s, &server), DLOCK_OK);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&s, &b, "job", 'b', 60000);
    dlt_request(&s, &c, "job", 'c', 60000);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_redis_stop(&server);
}

/* As a user for whom there are other keys, too. */
static void reopen(const char *option, const char *value)
{
    dlt_session_close(&s);
    dlt_session_trusted(&s);
    dlt_session_option(&s, option, value);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

TestSuite(slots, .init = set_up, .fini = tear_down);

/* Failures T48: the clock goes on where the counter is lost. */
Test(slots, TRY_6_the_fence_rises_though_the_counter_is_lost)
{
    uint64_t last = 0;

    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    last = s.grant.fence + s.grant.fence_room;
    (void)dlt_redis_ask(&server, "FLUSHALL");
    dlt_sleep_ms(2);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    cr_assert_gt(s.grant.fence, last);
}

/* ... and the counter where the clock went back. */
Test(slots, TRY_6_the_fence_rises_though_the_clock_went_back)
{
    const uint64_t ahead = UINT64_C(3000000000000000);

    (void)dlt_redis_ask(&server, "HSET dl:{job}:m f %llu", (unsigned long long)ahead);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(s.grant.fence, ahead + 32);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    cr_assert_eq(s.grant.fence, ahead + 64);
}

/* ... and where it is none that we can have written. */
Test(slots, TRY_6_a_counter_that_is_no_number_is_lost)
{
    static const char *const foreign[] = {"inf", "-inf", "nan", "1e300", "-5", "x", ""};
    struct dlt_holder holders[4];

    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        const char *value = foreign[i][0] != '\0' ? foreign[i] : "\"\"";
        size_t count = 4;
        uint64_t last = 0;

        (void)dlt_redis_ask(&server, "HSET dl:{job}:m f %s", value);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s: %s", value, s.err.message);
        last = s.grant.fence;
        cr_assert_gt(last, UINT64_C(1500000000000000), "%s", value);
        (void)dlt_redis_ask(&server, "HSET dl:{job}:m f %s", value);
        cr_assert_eq(dlt_enqueue(&s, &b), DLOCK_BUSY, "%s: %s", value, s.err.message);
        s.ops->forget(s.self, &b.req);
        cr_assert_eq(dlt_inspect(&s, "job", holders, &count), DLOCK_OK, "%s: %s", value,
                     s.err.message);
        cr_assert_eq(dlt_leave(&s, &b), DLOCK_OK);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s: %s", value, s.err.message);
        cr_assert_geq(s.grant.fence, last, "%s", value);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    }
}

/* Who asks again has the lease that there is, and a number of its own. */
Test(slots, TRY_2_a_repeated_request_whose_counter_is_lost)
{
    const enum dlock_mode modes[] = {DLOCK_EXCLUSIVE, DLOCK_SHARED};

    for (int i = 0; i < 2; i++) {
        uint64_t last = 0;

        dlt_request(&s, &a, "job", 'a', 60000);
        a.req.mode = modes[i];
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        last = s.grant.fence;
        (void)dlt_redis_ask(&server, "DEL dl:{job}:m");
        dlt_sleep_ms(2);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
        cr_assert_gt(s.grant.fence, last);
        cr_assert_gt(strtol(dlt_redis_ask(&server, "TTL dl:{job}:m"), NULL, 10), 80000);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    }
}

/* Each of them was the last one, so that the set of readers ended by itself. */
Test(slots, TRY_2_nothing_is_kept_of_readers_who_died)
{
    long first = 0;

    for (unsigned char i = 0; i < 4; i++) {
        dlt_request(&s, &a, "job", (unsigned char)('a' + i), 20);
        a.req.mode = DLOCK_SHARED;
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
        if (i == 0)
            first = strtol(dlt_redis_ask(&server, "HLEN dl:{job}:m"), NULL, 10);
        dlt_sleep_ms(60);
    }
    cr_assert_eq(strtol(dlt_redis_ask(&server, "HLEN dl:{job}:m"), NULL, 10), first);
    cr_assert_gt(strtol(dlt_redis_ask(&server, "TTL dl:{job}:m"), NULL, 10), 80000);
}

/* ... and what the living keep alive holds no crowd of the dead. */
Test(slots, TRY_2_dead_readers_do_not_pile_up_beside_a_living_one)
{
    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    for (unsigned char i = 0; i < 20; i++) {
        dlt_request(&s, &b, "job", (unsigned char)('A' + i), 1);
        b.req.mode = DLOCK_SHARED;
        cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
        dlt_sleep_ms(3);
    }
    cr_assert_leq(strtol(dlt_redis_ask(&server, "ZCARD dl:{job}:r"), NULL, 10), 3);
    cr_assert_leq(strtol(dlt_redis_ask(&server, "HLEN dl:{job}:m"), NULL, 10), 4);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
}

/* TRY-7: with key=raw a name could be an auxiliary key. */
Test(slots, TRY_7_raw_names_meet_no_auxiliary_key)
{
    struct dlt_holder holders[4];
    size_t count = 4;

    reopen("key", "raw");
    dlt_request(&s, &b, "dl:{job}:m", 'b', 60000);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_INVALID);
    cr_assert(strstr(s.err.message, "dl:{") != NULL, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "SET dl:{other} x PX 60000"); /* of a client without key=raw */
    cr_assert_eq(dlt_break(&s, "dl:{other}", NULL), DLOCK_INVALID);
    cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS dl:{other}"), "1");
    cr_assert_eq(dlt_inspect(&s, "dl:{other}", holders, &count), DLOCK_INVALID);
    count = 4;
    cr_assert_eq(dlt_list(&s, "", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(holders[0].name, "job");
    dlt_request(&s, &b, "dl:", 'b', 60000);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
}

/* TRY-7: ... nor the record of the failover guard. */
Test(slots, TRY_7_raw_names_meet_no_record_of_the_guard)
{
    static const char *const names[] = {"dl:!", "dl:!{7}", "dl:!{7}:s"};
    struct dlt_holder holders[4];
    size_t count = 4;

    reopen("key", "raw");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)dlt_redis_ask(&server, "SET %s record PX 60000", names[i]);
        dlt_request(&s, &b, names[i], 'b', 60000);
        cr_assert_eq(dlt_try(&s, &b), DLOCK_INVALID, "%s", names[i]);
        cr_assert(strstr(s.err.message, "dl:!") != NULL, "%s", s.err.message);
        cr_assert_eq(dlt_break(&s, names[i], NULL), DLOCK_INVALID);
        cr_assert_eq(dlt_inspect(&s, names[i], holders, &count), DLOCK_INVALID);
        count = 4;
    }
    cr_assert_eq(dlt_list(&s, "", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 0, "the list has no record");
}

/* The counter of the name becomes the server's clock and so many microseconds. */
static void counter_set(int64_t ahead_us)
{
    long long seconds = 0, us = 0;

    cr_assert_eq(sscanf(dlt_redis_ask(&server, "TIME"), "%lld %lld", &seconds, &us), 2);
    (void)dlt_redis_ask(&server, "HSET dl:{job}:m f %lld",
                        (long long)(seconds * 1000000 + us + ahead_us));
}

/* C6: grants without a pause use up 32 numbers each. A server that forgets the counter begins at
 * its clock. */
Test(slots, TRY_6_fences_wait_for_the_clock)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_enqueue(&s, &b), DLOCK_BUSY);
    counter_set(1500000);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    dlt_request(&s, &a, "job", 'c', 60000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY);
    cr_assert_eq(dlt_refresh(&s, &b), DLOCK_BUSY);
    cr_assert_neq(s.grant.flags & DLOCK_GRANT_QUEUED, 0u, "it keeps its place");
    dlt_sleep_ms(700);
    cr_assert_eq(dlt_refresh(&s, &b), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &b), DLOCK_OK);
    counter_set(1500000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY);
    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY);
    counter_set(INT64_C(7200) * 1000000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "the clock was set back");
}

static void publish(struct dlt_request *request)
{
    static const unsigned char data[] = "published";

    request->req.data = data;
    request->req.data_len = sizeof data;
}

static bool is_published(void)
{
    return strstr(dlt_redis_ask(&server, "HGETALL dl:{job}:m"), "published") != NULL ||
           strcmp(dlt_redis_ask(&server, "HEXISTS dl:{job}:m h"), "1") == 0;
}

/* They are not in the server any more, where a copy of its files would have them. */
Test(slots, C24_data_end_with_a_release_and_a_break_also_in_the_server)
{
    publish(&a);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert(is_published());
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    cr_assert_not(is_published());
    dlt_request(&s, &a, "job", 'c', 60000);
    publish(&a);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_break(&s, "job", NULL), DLOCK_OK);
    cr_assert_not(is_published());
}

Test(slots, C24_data_of_a_lease_that_was_adopted_end_with_its_release)
{
    publish(&a);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    dlt_request(&s, &b, "job", 'a', 60000);
    b.req.flags = DLOCK_REQ_ADOPT;
    cr_assert_eq(dlt_renew(&s, &b), DLOCK_OK, "%s", s.err.message);
    cr_assert(is_published());
    b.req.flags = 0;
    cr_assert_eq(dlt_unlock(&s, &b), DLOCK_OK);
    cr_assert_not(is_published());
}

/* TRY-6: what is known of a lease lasts longer than it, however long that is. */
Test(slots, TRY_6_the_counter_outlives_the_longest_lease)
{
    const int64_t week_ms = INT64_C(7) * 24 * 3600 * 1000;

    dlt_request(&s, &a, "job", 'a', week_ms);
    dlt_request(&s, &b, "two", 'b', 5000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_gt(strtoll(dlt_redis_ask(&server, "PTTL dl:{job}:m"), NULL, 10), week_ms);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    b.req.ttl_ms = week_ms;
    cr_assert_eq(dlt_renew(&s, &b), DLOCK_OK);
    cr_assert_gt(strtoll(dlt_redis_ask(&server, "PTTL dl:{two}:m"), NULL, 10), week_ms);

    /* A reader who comes later, for a while, cuts nothing short. */
    dlt_request(&s, &a, "three", 'a', 5000);
    dlt_request(&s, &b, "three", 'b', week_ms / 7);
    a.req.mode = b.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    a.req.ttl_ms = week_ms;
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    cr_assert_gt(strtoll(dlt_redis_ask(&server, "PTTL dl:{three}:m"), NULL, 10), week_ms);
}

/* A key that is something else is found before anything is written; giving back needs none but the
 * lock's. */
Test(slots, UNL_1_what_is_given_back_is_given_back)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "SET dl:{job}:r x");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST, "nor does it read");
    cr_assert_eq(dlt_try(&s, &b), DLOCK_CONFIG, "%s", s.err.message);
    cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS dl:{job}"), "0");
    (void)dlt_redis_ask(&server, "DEL dl:{job}:r");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "ZADD dl:{job}:q 1 x");
    (void)dlt_redis_ask(&server, "SET dl:{job}:w x");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "given back, though it cannot be passed on");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
}

/* C11, TRY-7: what would be another key, another name, or the end of a command. */
Test(slots, TRY_7_names_are_bytes_and_meet_nothing_else)
{
    static const struct {
        const char *bytes;
        uint32_t len;
    } names[] = {
        {"job", 3},         {"JOB", 3},           {"job ", 4},     {"job\0x", 5},
        {"job\0y", 5},      {"job}:m", 6},        {"{job}", 5},    {"job:m", 5},
        {"%6A%6F%62", 9},   {"job\r\nDEL x", 10}, {"\xff\xfe", 2}, {"}", 1},
        {"{", 1},           {"%s%n", 4},          {"*", 1},        {"dl:{job}", 8},
        {"dl:{job}:m", 10}, {"dl:{job}:r", 10},
    };
    unsigned char longest[255];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        a.req.name = (const unsigned char *)names[i].bytes;
        a.req.name_len = names[i].len;
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%zu: %s", i, s.err.message);
        b.req.name = a.req.name;
        b.req.name_len = a.req.name_len;
        cr_assert_eq(dlt_try(&s, &b), DLOCK_BUSY, "%zu", i);
    }
    memset(longest, 0xff, sizeof longest);
    a.req.name = longest;
    a.req.name_len = sizeof longest;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    longest[254] = 0xfe;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "another name");
}

Test(slots, CONFIG_of_a_key_that_is_something_else)
{
    (void)dlt_redis_ask(&server, "LPUSH dl:{job} x");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_CONFIG);
    cr_assert(strstr(s.err.message, "something else") != NULL, "%s", s.err.message);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_LOST);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_LOST);
    cr_assert_str_eq(dlt_redis_ask(&server, "LLEN dl:{job}"), "1");
}

Test(slots, raw_key_is_the_name_and_has_no_shared_mode)
{
    struct dlt_holder holders[4];
    size_t count = 4;

    reopen("key", "raw");
    cr_assert_eq(s.info.caps, DLOCK_CAP_FENCE | DLOCK_CAP_CONCURRENT | DLOCK_CAP_DATA);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_str_eq(dlt_redis_ask(&server, "GET job"), "61616161616161616161616161616161");
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
    (void)dlt_redis_ask(&server, "SET job somebody PX 60000");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY);
    cr_assert_gt(s.grant.holder_ms, 50000);
    cr_assert_eq(dlt_inspect(&s, "job", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(holders[0].owner, "somebody");
    cr_assert_str_eq(holders[0].label, "", "not the one of the holder before");
    cr_assert_eq(holders[0].fence, 0);
    a.req.mode = DLOCK_SHARED;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_UNSUPPORTED);
}

Test(slots, prefixes_and_databases_are_stores_of_their_own)
{
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    reopen("prefix", "app1:");
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    cr_assert_str_eq(dlt_redis_ask(&server, "EXISTS dl:{job} app1:{job}"), "2");
    reopen("db", "3");
    cr_assert_eq(dlt_try(&s, &c), DLOCK_OK);
}
