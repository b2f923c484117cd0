/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/inspect.c */
/* Do inspect and list show the holders, all of them, and nothing else? */
#include "redis_kit.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct dlt_redis server;
static struct dlt_session s;
static struct dlt_request a, b;

static void set_up(void)
{
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
    cr_assert_eq(dlt_session_start(&s, &server), DLOCK_OK);
    dlt_request(&s, &a, "job", 'a', 60000);
    dlt_request(&s, &b, "job", 'b', 60000);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_redis_stop(&server);
}

static void reopen(const char *option, const char *value)
{
    dlt_session_close(&s);
    dlt_session_option(&s, option, value);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
}

TestSuite(look, .init = set_up, .fini = tear_down);

/* Values of other programs may be long, and keys not for us. */
static bool count_one(void *arg, const struct dlock_holder *lease)
{
    (void)lease;
    ++*(int *)arg;
    return 0;
}

/* A message has the key, and not what the server calls the script. */
static void foreign(enum dlock_status status, const char *key)
{
    cr_assert_eq(status, DLOCK_CONFIG, "%s: %d, %s", key, (int)status, s.err.message);
    cr_assert(strstr(s.err.message, key) != NULL, "%s", s.err.message);
    cr_assert(strstr(s.err.message, "script") == NULL, "%s", s.err.message);
}

/* C12: what is no lock is neither free nor held nor broken, and is in nobody's way. */
Test(look, a_key_that_is_something_else)
{
    static const char *const names[] = {"lock", "queue", "readers"};
    static const char *const ends[] = {"", ":q", ":r"};
    struct dlt_holder holders[8];

    dlt_session_trusted(&s);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t count = 8;
        char key[64];

        (void)dlt_redis_ask(&server, "LPUSH dl:{%s}%s 1", names[i], ends[i]);
        (void)snprintf(key, sizeof key, "dl:{%s}", names[i]);
        foreign(dlt_inspect(&s, names[i], holders, &count), key);
        foreign(dlt_break(&s, names[i], NULL), key);
        foreign(dlt_break(&s, names[i], "61616161616161616161616161616161"), key);
        dlt_request(&s, &b, names[i], 'b', 60000);
        foreign(dlt_try(&s, &b), key);
    }
    cr_assert_str_eq(dlt_redis_ask(&server, "LLEN dl:{lock}"), "1");
}

Test(look, a_list_goes_on_after_a_key_that_is_something_else)
{
    struct dlt_holder holders[8];
    size_t count = 8;
    bool job = false, other = false;

    (void)dlt_redis_ask(&server, "LPUSH dl:{other} 1");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_list(&s, "", holders, &count), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(count, 2);
    for (size_t i = 0; i < count; i++) {
        job |= strcmp(holders[i].name, "job") == 0 && holders[i].remaining_ms > 0;
        other |= strcmp(holders[i].name, "other") == 0 && holders[i].remaining_ms == -1 &&
                 strcmp(holders[i].owner, "-") == 0 &&
                 strcmp(holders[i].label, "no lock: the key is something else") == 0;
    }
    cr_assert(job && other);
}

Test(look, raw_names_with_zero_bytes)
{
    static const char *const tails[] = {"bc", "b*", "xy"};
    int count = 0;

    dlt_session_trusted(&s);
    reopen("key", "raw");
    for (size_t i = 0; i < 3; i++) {
        unsigned char name[4] = {'a', '\0', (unsigned char)tails[i][0], (unsigned char)tails[i][1]};
        struct dlt_request request;

        dlt_request(&s, &request, "-", 'a', 60000);
        request.req.name = name;
        request.req.name_len = sizeof name;
        cr_assert_eq(dlt_try(&s, &request), DLOCK_OK, "%s", s.err.message);
    }
    cr_assert_eq(s.ops->list(s.self, (const unsigned char *)"a\0b", 3, dlt_host_in(&s.host, 2000),
                             count_one, &count, &s.err),
                 DLOCK_OK);
    cr_assert_eq(count, 2);
}

Test(look, raw_list_survives_what_is_not_a_lock)
{
    struct dlt_holder holders[4];
    size_t count = 4;

    (void)dlt_redis_ask(&server, "SETRANGE job2 400000 x");
    (void)dlt_redis_ask(&server, "PEXPIRE job2 60000");
    (void)dlt_redis_ask(&server, "SET job3 x"); /* does not end: no lock */
    (void)dlt_redis_ask(&server, "SET other x");
    (void)dlt_redis_ask(&server, "ACL SETUSER raw on >pw +@all ~job* ~dl:*");
    s.target.user = "raw";
    s.target.password = "pw";
    reopen("key", "raw");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_list(&s, "", holders, &count), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(count, 2, "%zu", count);
}

Test(look, inspect_shows_all_of_many_readers)
{
    enum { READERS = 450 };
    static struct dlt_holder holders[READERS + 10];
    static bool seen[READERS];
    size_t count = READERS + 10;

    for (int i = 0; i < READERS; i++) {
        dlt_request(&s, &a, "job", 'a', 60000);
        a.req.mode = DLOCK_SHARED;
        a.req.token[0] = (unsigned char)(i / 256);
        a.req.token[1] = (unsigned char)i;
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    }
    cr_assert_eq(dlt_inspect(&s, "job", holders, &count), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(count, READERS, "%zu", count);
    for (size_t i = 0; i < count; i++)
        seen[strtol((char[]){holders[i].owner[0], holders[i].owner[1], holders[i].owner[2],
                             holders[i].owner[3], '\0'},
                    NULL, 16)] = true;
    for (size_t i = 0; i < READERS; i++)
        cr_assert(seen[i], "%zu", i);
}

Test(look, list_shows_live_holders_by_prefix_and_nothing_else)
{
    static const char *const names[] = {"a", "b1", "b2", "b[*", "b\xff{}", "c"};
    struct dlt_holder holders[8];
    struct dlt_request r[6];
    size_t count = 8;

    for (size_t i = 0; i < 6; i++) {
        dlt_request(&s, &r[i], names[i], 'r', i == 2 ? 20 : 60000);
        r[i].req.mode = i == 3 ? DLOCK_SHARED : DLOCK_EXCLUSIVE;
        cr_assert_eq(dlt_try(&s, &r[i]), DLOCK_OK);
    }
    (void)dlt_redis_ask(&server, "SET b3 other");
    (void)dlt_redis_ask(&server, "SET dl:b3 other");
    dlt_sleep_ms(25);
    cr_assert_eq(dlt_list(&s, "", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 5, "b2 has run out");
    count = 8;
    cr_assert_eq(dlt_list(&s, "b", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 3);
    count = 8;
    cr_assert_eq(dlt_list(&s, "b[", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(holders[0].name, "b[*");
    count = 8;
    cr_assert_eq(dlt_list(&s, "b\xff", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(holders[0].name, "b\xff{}");
    count = 1;
    cr_assert_eq(dlt_list(&s, "", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 1, "the callback stops it");
}

/* ---- many names ---- */

enum { MANY = 3000 };

struct told {
    unsigned count;
    bool twice, seen[MANY];
    unsigned pause_at; /* how many are told of before the server stands still */
    int64_t name_ms;   /* what each costs the caller */
};

static bool told_add(void *arg, const struct dlock_holder *lease)
{
    struct told *told = arg;
    char name[8] = "";
    unsigned long i = 0;

    memcpy(name, lease->name, lease->name_len < 7 ? lease->name_len : 7);
    i = strtoul(name + 1, NULL, 10);
    cr_assert(i < MANY);
    told->twice |= told->seen[i];
    told->seen[i] = true;
    if (++told->count == told->pause_at)
        dlt_redis_pause(&server, true);
    dlt_host_advance(s.shared, told->name_ms);
    return 0;
}

static enum dlock_status list_many(struct told *told)
{
    static const char fill[] = "for i = 0, ARGV[1] - 1 do "
                               "redis.call('SET', 'dl:{m' .. i .. '}', 't', 'PX', 600000) end";

    (void)dlt_redis_ask(&server, "EVAL %s 0 %d", fill, MANY);
    return s.ops->list(s.self, (const unsigned char *)"m", 1, dlt_host_in(s.shared, 2000), told_add,
                       told, &s.err);
}

/* C8: op_timeout is the bound of one exchange. A list is many, and names are looked at together. */
Test(look, C8_a_list_of_many_has_time_for_each_page)
{
    static struct told told = {.name_ms = 10};

    cr_assert_eq(list_many(&told), DLOCK_OK, "%u: %s", told.count, s.err.message);
    cr_assert_eq(told.count, MANY);
    cr_assert(!told.twice);
}

/* C8, and what was seen before is told. */
Test(look, C8_a_list_ends_when_the_server_stands_still)
{
    static struct told told = {.pause_at = 500};
    enum dlock_status status = list_many(&told);

    dlt_redis_pause(&server, false);
    cr_assert_eq(status, DLOCK_UNKNOWN, "%d: %s", (int)status, s.err.message);
    cr_assert(told.count >= 500 && told.count < MANY, "%u", told.count);
}

Test(look, list_of_many_shows_each_once)
{
    static struct dlt_holder holders[700];
    static char names[600][8];
    struct dlt_request r;
    size_t count = 700;

    for (size_t i = 0; i < 600; i++) {
        (void)snprintf(names[i], sizeof names[i], "m%zu", i);
        dlt_request(&s, &r, names[i], 'r', 60000);
        cr_assert_eq(dlt_try(&s, &r), DLOCK_OK);
    }
    cr_assert_eq(dlt_list(&s, "m", holders, &count), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(count, 600);
}
