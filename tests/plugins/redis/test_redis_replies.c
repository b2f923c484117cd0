/* SPDX-License-Identifier: MIT */
/* Tests: plugins/resp/reader.c plugins/resp/error.c plugins/resp/reply.c */
/* What does each error of a server mean, and what can a hostile one do? (failures T43; C4, C9) */
#include "hello_kit.h"
#include "redis_kit.h"

#include <criterion/criterion.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The answer to the n-th question to a script. */
#define GRANT(n) "*5\\r\\n:1\\r\\n:5\\r\\n:1000\\r\\n:0\\r\\n:" n "\\r\\n"

static struct dlt_scripted server;
static struct dlt_session s;
static struct dlt_request a;

static void play(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void play(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    hello_play(&server, format, args);
    va_end(args);
    dlt_session_init(&s, "redis", server.address);
    dlt_session_trusted(&s);
    dlt_request(&s, &a, "job", 'a', 60000);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    (void)dlt_scripted_finish(&server, 0);
}

TestSuite(replies, .fini = tear_down, .timeout = 60);

static const struct {
    const char *error;
    enum dlock_status try, renew, unlock;
} errors[] = {
    {"LOADING Redis is loading the dataset in memory", DLOCK_UNAVAILABLE, DLOCK_UNAVAILABLE,
     DLOCK_UNAVAILABLE},
    {"BUSY Redis is busy running a script.", DLOCK_UNAVAILABLE, DLOCK_UNAVAILABLE,
     DLOCK_UNAVAILABLE},
    {"OOM command not allowed", DLOCK_UNAVAILABLE, DLOCK_UNAVAILABLE, DLOCK_UNAVAILABLE},
    {"MISCONF Redis is configured to save", DLOCK_UNAVAILABLE, DLOCK_UNAVAILABLE,
     DLOCK_UNAVAILABLE},
    {"NOREPLICAS Not enough good replicas", DLOCK_UNAVAILABLE, DLOCK_UNAVAILABLE,
     DLOCK_UNAVAILABLE},
    {"CLUSTERDOWN The cluster is down", DLOCK_UNAVAILABLE, DLOCK_UNAVAILABLE, DLOCK_UNAVAILABLE},
    {"MASTERDOWN Link with MASTER is down", DLOCK_UNAVAILABLE, DLOCK_UNAVAILABLE,
     DLOCK_UNAVAILABLE},
    {"TRYAGAIN Multiple keys", DLOCK_UNAVAILABLE, DLOCK_UNAVAILABLE, DLOCK_UNAVAILABLE},
    {"ERR max number of clients reached", DLOCK_UNAVAILABLE, DLOCK_UNAVAILABLE, DLOCK_UNAVAILABLE},
    {"READONLY You can't write", DLOCK_UNAVAILABLE, DLOCK_UNAVAILABLE, DLOCK_UNAVAILABLE},
    {"MOVED 3999 127.0.0.1:6381", DLOCK_CONFIG, DLOCK_UNAVAILABLE, DLOCK_CONFIG},
    {"ASK 3999 127.0.0.1:6381", DLOCK_CONFIG, DLOCK_UNAVAILABLE, DLOCK_CONFIG},
    {"WRONGTYPE Operation against a key", DLOCK_CONFIG, DLOCK_UNAVAILABLE, DLOCK_CONFIG},
    {"ERR Error running script (call to f_1): @user_script:31: Write commands not allowed after "
     "non "
     "deterministic commands.",
     DLOCK_CONFIG, DLOCK_UNAVAILABLE, DLOCK_CONFIG},
    {"ERR unknown command 'EVALSHA', with args beginning with: '0f' '1' 'dl:{job}'", DLOCK_CONFIG,
     DLOCK_UNAVAILABLE, DLOCK_CONFIG},
    {"NOAUTH Authentication required.", DLOCK_AUTH, DLOCK_AUTH, DLOCK_AUTH},
    {"WRONGPASS invalid username-password pair", DLOCK_AUTH, DLOCK_AUTH, DLOCK_AUTH},
    {"NOPERM this user has no permissions", DLOCK_AUTH, DLOCK_AUTH, DLOCK_AUTH},
    {"EXECABORT Transaction discarded", DLOCK_UNKNOWN, DLOCK_UNKNOWN, DLOCK_UNKNOWN},
    {"FOO bar", DLOCK_UNKNOWN, DLOCK_UNKNOWN, DLOCK_UNKNOWN},
    {"ERR user_script:12: attempt to index a nil value", DLOCK_UNKNOWN, DLOCK_UNKNOWN,
     DLOCK_UNKNOWN},
    {"", DLOCK_UNKNOWN, DLOCK_UNKNOWN, DLOCK_UNKNOWN},
};

/* OPN-1, C16: what is no server that can keep a lock says so, and what to do. */
Test(replies, OPN_1_servers_that_cannot_keep_a_lock)
{
    static const struct {
        const char *hello;
        enum dlock_status status;
        const char *text;
    } servers[] = {
        {HELLO_OF(INFO_OF("4.0.14", "99")), DLOCK_CONFIG,
         "Redis 4.0.14 is too old: want Redis 5 or later"},
        {"any 7\nsend "
         "\"+OK\\r\\n$43\\r\\nredis_version:7.0.15\\r\\nredis_mode:sentinel\\r\\n\\r\\n$0\\r"
         "\\n\\r\\n$0\\r\\n\\r\\n$0\\r\\n\\r\\n-ERR unknown command\\r\\n-ERR unknown "
         "command\\r\\n\"\n",
         DLOCK_CONFIG, "a Sentinel, not a Redis server: name the master"},
        {"any 7\nsend \"HTTP/1.1 400 Bad Request\\r\\n\\r\\n\"\n", DLOCK_PROTOCOL,
         "as reply type byte: HTTP?"},
    };

    for (size_t i = 0; i < sizeof servers / sizeof servers[0]; i++) {
        play("conn\n%s", servers[i].hello);
        cr_assert_eq(dlt_session_open(&s), servers[i].status, "%zu: %s", i, s.err.message);
        cr_assert(strstr(s.err.message, servers[i].text) != NULL, "%s", s.err.message);
        tear_down();
    }
}

/* The server is not what it was when it was looked at: it is looked at again [FAI-2]. */
static bool ends_the_connection(const char *error)
{
    return strncmp(error, "READONLY", 8) == 0 || strncmp(error, "NOAUTH", 6) == 0;
}

/* After ten seconds the server is asked first what it gives: an error is not an answer to another
 * question, and the next connection is asked. */
Test(replies, TRY_4_an_error_instead_of_what_the_server_gives)
{
    play("conn\n" HELLO
         "any 4\nsend \"-BUSY running a script\\r\\n-A b\\r\\n-A b\\r\\n-A b\\r\\n\"\nend\n"
         "conn\n" HELLO "any\nsend \"" GRANT("1") "\"\n");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_host_advance(&s.host, 10000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
}

Test(replies, TRY_4_errors)
{
    char script[16384] = "conn\n" HELLO;
    size_t used = strlen(script);

    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        for (int op = 0; op < 3; op++)
            used += (size_t)snprintf(script + used, sizeof script - used,
                                     "any\nsend \"-%s\\r\\n\"\n%s", errors[i].error,
                                     ends_the_connection(errors[i].error) ? "conn\n" HELLO : "");
    play("%s", script);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        cr_assert_eq(dlt_try(&s, &a), errors[i].try, "%s: %s", errors[i].error, s.err.message);
        cr_assert_eq(dlt_renew(&s, &a), errors[i].renew, "%s: %s", errors[i].error, s.err.message);
        cr_assert_eq(dlt_unlock(&s, &a), errors[i].unlock, "%s: %s", errors[i].error,
                     s.err.message);
    }
}

/* Contract, section 3 (d): the connection that a question is sent on says whether it may be. */
Test(replies, restart_guard_is_looked_at_on_the_connection_that_is_asked)
{
    play("conn\n" HELLO
         "any\nsend \"*5\\r\\n:1\\r\\n:5\\r\\n:1000\\r\\n:0\\r\\n:1\\r\\n\"\nany\nclose\n"
         "conn\n" HELLO_AFTER_A_RESTART "command EVALSHA * 2 * * * UNLOCK 1 * *\n"
         "send \"*3\\r\\n:1\\r\\n$0\\r\\n\\r\\n:4\\r\\n\"\nend\n");
    dlt_session_option(&s, "restart_guard", "60000");
    dlt_session_option(&s, "failover", "unsafe"); /* asks for less at the beginning */
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "it is up for 99 s: %s", s.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_UNKNOWN, "it ends");
    cr_assert_eq(dlt_try(&s, &a), DLOCK_BUSY, "%s", s.err.message);
    cr_assert(strstr(s.err.message, "may still be in use for") != NULL, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    dlt_session_close(&s);
    cr_assert(dlt_scripted_finish(&server, 2000), "%s", server.report);
}

/* One of many renewals fails: an error in the midst of an answer. */
Test(replies, REN_1_an_error_of_one)
{
    struct dlock_lease_op ops[3] = {{.req = &a.req}, {.req = &a.req}, {.req = &a.req}};

    play("conn\n" HELLO
         "any\nsend \"*4\\r\\n*2\\r\\n:60000\\r\\n:0\\r\\n-OOM no memory\\r\\n-WRONGTYPE "
         "no\\r\\n:1\\r\\n\"\n");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_renew_many(s.ops, s.self, ops, 3, dlt_host_in(&s.host, 2000), &s.err),
                 DLOCK_OK);
    cr_assert_eq(ops[0].status, DLOCK_OK);
    cr_assert_eq(ops[1].status, DLOCK_UNAVAILABLE);
    cr_assert_eq(ops[2].status, DLOCK_LOST);
}

/* Answers that only look like one. None may become OK or BUSY. */
static const char *const nonsense[] = {
    "$11\\r\\n5\\x00garbage 1\\r\\n",
    ":2\\r\\n",
    "+1\\r\\n",
    "$3\\r\\n5 2\\r\\n", /* another question's */
    "$2\\r\\n 1\\r\\n",
    "$1\\r\\n1\\r\\n",
    "$2\\r\\n51\\r\\n",
    "$3\\r\\n0 1\\r\\n",
    "$4\\r\\n-5 1\\r\\n",
    "$5\\r\\n5 1 1\\r\\n",
    "$5\\r\\n5\\r\\n 1\\r\\n",
    "$22\\r\\n99999999999999999999 1\\r\\n",
    "$3\\r\\n5 1\\r\\n:1\\r\\n", /* and one more */
    "+OK\\r\\n",
    "$-1\\r\\n",
    "*-1\\r\\n",
    "*0\\r\\n",
    "$2\\r\\nhi\\r\\n",
    "*4\\r\\n:1\\r\\n:5\\r\\n:1000\\r\\n:1\\r\\n",
    "*5\\r\\n:2\\r\\n:5\\r\\n:1000\\r\\n:0\\r\\n:1\\r\\n",
    "*5\\r\\n$1\\r\\n1\\r\\n:5\\r\\n:1000\\r\\n:0\\r\\n:1\\r\\n",
    "*5\\r\\n:1\\r\\n:0\\r\\n:1000\\r\\n:0\\r\\n:1\\r\\n",
    "*5\\r\\n:1\\r\\n:-5\\r\\n:1000\\r\\n:0\\r\\n:1\\r\\n",
    "*5\\r\\n:1\\r\\n:5\\r\\n:0\\r\\n:0\\r\\n:1\\r\\n",
    "*5\\r\\n:1\\r\\n:5\\r\\n:-1000\\r\\n:0\\r\\n:1\\r\\n",
    "*5\\r\\n:1\\r\\n:5\\r\\n:9223372036854775807\\r\\n:0\\r\\n:1\\r\\n",
    "*5\\r\\n:1\\r\\n:5\\r\\n:1000\\r\\n:-1\\r\\n:1\\r\\n",
    "*5\\r\\n:1\\r\\n:5\\r\\n:1000\\r\\n:9999999999\\r\\n:1\\r\\n",
    "*5\\r\\n:1\\r\\n*1\\r\\n:5\\r\\n:1000\\r\\n:0\\r\\n:1\\r\\n",
    "*5\\r\\n:0\\r\\n:5\\r\\n:0\\r\\n:0\\r\\n:1\\r\\n",
    "*7\\r\\n:0\\r\\n:-2\\r\\n:0\\r\\n:0\\r\\n:0\\r\\n:0\\r\\n:1\\r\\n",
    "*7\\r\\n:0\\r\\n:5\\r\\n:0\\r\\n:1\\r\\n:0\\r\\n:0\\r\\n:1\\r\\n", /* queued, unasked */
    "*7\\r\\n:0\\r\\n:5\\r\\n:0\\r\\n:0\\r\\n:-1\\r\\n:0\\r\\n:1\\r\\n",
    "*5\\r\\n:1\\r\\n:5\\r\\n:1000\\r\\n:0\\r\\n:1\\r\\n:1\\r\\n", /* and one more */
    "*5\\r\\n:1\\r\\n:5\\r\\n:1000\\r\\n:0\\r\\n:1\\r\\n+OK\\r\\n",
    "*5\\r\\n:1\\r\\n:5\\r\\n:1000\\r\\n:0\\r\\n:2\\r\\n", /* another question's */
    "%2\\r\\n:1\\r\\n:5\\r\\n:1000\\r\\n:0\\r\\n",
    "_\\r\\n",
    "hello\\r\\n",
    "\\r\\n",
    "*2147483647\\r\\n",
    "*99999999999999999999\\r\\n",
    "*4097\\r\\n",
    "*1\\r\\n*1\\r\\n*1\\r\\n*1\\r\\n*1\\r\\n*1\\r\\n*1\\r\\n*1\\r\\n*1\\r\\n:1\\r\\n",
    ":99999999999999999999\\r\\n",
};

/* What answers one kind of question, and no other. */
static const char *const no_grants[] = {":1\\r\\n", "*3\\r\\n:1\\r\\n$0\\r\\n\\r\\n:1\\r\\n"};
static const char *const only_grants[] = {"$3\\r\\n5 1\\r\\n", GRANT("1")};

static void expect_neither(enum dlock_status status, const char *answer)
{
    cr_assert(status == DLOCK_PROTOCOL || status == DLOCK_UNKNOWN, "%s: %d, %s", answer, status,
              s.err.message);
}

static void expect_no_grant(const char *answer)
{
    play("conn\n" HELLO "any\nsend \"%s\"\nend\nconn\n" HELLO "any\nsend \"" GRANT("2") "\"\nend\n",
         answer);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    s.call_ms = 1000;
    expect_neither(dlt_try(&s, &a), answer);
    cr_assert_eq(strchr(s.err.message, '\n'), NULL);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "on another connection: %s: %s", answer, s.err.message);
    tear_down();
}

Test(replies, C9_nonsense_is_neither_yes_nor_no)
{
    for (size_t i = 0; i < sizeof only_grants / sizeof only_grants[0]; i++) {
        play("conn\n" HELLO "any\nsend \"%s\"\nend\n", only_grants[i]);
        cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "what an answer is like: %s", s.err.message);
        cr_assert_eq(s.grant.fence, 5);
        tear_down();
    }
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
        expect_no_grant(nonsense[i]);
    for (size_t i = 0; i < sizeof no_grants / sizeof no_grants[0]; i++)
        expect_no_grant(no_grants[i]);
}

static void expect_nothing_kept_or_freed(const char *answer)
{
    for (int op = 0; op < 2; op++) {
        play("conn\n" HELLO "any\nsend \"%s\"\nend\n", answer);
        cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
        expect_neither(op == 0 ? dlt_renew(&s, &a) : dlt_unlock(&s, &a), answer);
        tear_down();
    }
}

Test(replies, C9_nonsense_to_a_renewal_or_an_unlock)
{
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
        expect_nothing_kept_or_freed(nonsense[i]);
    for (size_t i = 0; i < sizeof only_grants / sizeof only_grants[0]; i++)
        expect_nothing_kept_or_freed(only_grants[i]);
}

static void *try_run(void *arg)
{
    struct dlt_session view;
    struct dlt_request request;
    enum dlock_status *status = arg;

    dlt_session_join(&view, &s);
    dlt_request(&view, &request, "job", 'a', 60000);
    *status = dlt_try(&view, &request);
    return NULL;
}

/* One answer that is none, with two behind it that look fine, and come with it: whose are they? */
Test(replies, C9_nonsense_in_the_midst_is_the_end_for_all_who_asked)
{
    static const char *const firsts[] = {":1", "*1\\r\\n:1",
                                         "*5\\r\\n:1\\r\\n:5\\r\\n:1000\\r\\n:0\\r\\n:9"};

    for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
        enum dlock_status status[3];
        pthread_t threads[3];
        int protocol = 0;

        play("conn\n" HELLO "any 3\nsend \"%s\\r\\n" GRANT("1") GRANT("2")
                 GRANT("3") "\"\nend\nconn\n" HELLO "any\nsend \"" GRANT("4") "\"\nend\n",
             firsts[i]);
        dlt_session_option(&s, "sockets", "1");
        cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
        for (int j = 0; j < 3; j++)
            cr_assert_eq(pthread_create(&threads[j], NULL, try_run, &status[j]), 0);
        for (int j = 0; j < 3; j++) {
            (void)pthread_join(threads[j], NULL);
            cr_assert(status[j] == DLOCK_PROTOCOL || status[j] == DLOCK_UNKNOWN, "%s: %d",
                      firsts[i], (int)status[j]);
            protocol += status[j] == DLOCK_PROTOCOL;
        }
        cr_assert_eq(protocol, 1, "%s", firsts[i]);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s: %s", firsts[i], s.err.message);
        tear_down();
    }
}

/* SCAN is no script, and its answers have no number. */
Test(replies, C9_nonsense_to_a_list)
{
    static const char *const answers[] = {":1", "+OK", "*1\\r\\n$1\\r\\n0", "*2\\r\\n:0\\r\\n*0",
                                          "*2\\r\\n$1\\r\\n0\\r\\n:1"};

    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        size_t none = 0;

        play("conn\n" HELLO "command SCAN **\nsend \"%s\\r\\n\"\nend\nconn\n" HELLO
             "any\nsend \"" GRANT("1") "\"\nend\n",
             answers[i]);
        cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
        cr_assert_eq(dlt_list(&s, "", NULL, &none), DLOCK_PROTOCOL, "%s", s.err.message);
        cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s: %s", answers[i], s.err.message);
        tear_down();
    }
}

/* Memory stays bounded, whatever is announced or sent. */
static void bounded(const char *head, size_t piece_count)
{
    static char script[1 << 17];
    size_t used =
        (size_t)snprintf(script, sizeof script, "conn\n" HELLO "any\nsend \"%s\"\n", head);
    size_t before = 0;

    for (size_t i = 0; i < piece_count; i++) /* of 1,000 bytes */
        used += (size_t)snprintf(script + used, sizeof script - used,
                                 "send \"%0250d%0250d%0250d%0250d\"\n", 0, 0, 0, 0);
    play("%s", script);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    before = mallinfo2().arena + mallinfo2().hblkhd;
    cr_assert_eq(dlt_try(&s, &a), DLOCK_PROTOCOL, "%s", s.err.message);
    cr_assert(strstr(s.err.message, "longer than any could be") != NULL, "%s", s.err.message);
    cr_assert_lt(mallinfo2().arena + mallinfo2().hblkhd, before + ((size_t)1 << 21));
}

Test(replies, bounded_memory_of_a_long_string)
{
    bounded("$2000000000\\r\\n", 70);
}

Test(replies, bounded_memory_of_a_long_array)
{
    bounded("*2000000000\\r\\n", 1);
}

static void refused(const char *hello, enum dlock_status status, const char *text)
{
    play("conn\n%s", hello);
    cr_assert_eq(dlt_session_open(&s), status, "%s", s.err.message);
    cr_assert(strstr(s.err.message, text) != NULL, "%s", s.err.message);
    tear_down();
}

/* OPN-3: what is not such a server, or has no time. */
Test(replies, OPN_3_what_a_server_says_first)
{
    refused("any 7\nsend \"HTTP/1.1 400 Bad Request\\r\\n\\r\\n\"\nend\n", DLOCK_PROTOCOL,
            "no sense");
    refused(
        "any 7\nsend \"+OK\\r\\n+OK\\r\\n+OK\\r\\n+OK\\r\\n+OK\\r\\n+OK\\r\\n+OK\\r\\n\"\nend\n",
        DLOCK_PROTOCOL, "not the answer of a Redis server");
    refused("any 7\nsend \"-ERR max number of clients reached\\r\\n\"\nclose\n", DLOCK_UNAVAILABLE,
            "max number of clients");
    refused("any 7\nsend \"-DENIED Redis is in protected mode\\r\\n\"\nclose\n", DLOCK_AUTH,
            "protected mode");
    refused("any 7\nsend \"+OK\\r\\n-NOAUTH Authentication required.\\r\\n\"\nclose\n", DLOCK_AUTH,
            "NOAUTH");
    refused("any 7\nsend \"+OK\\r\\n-NOPERM no permissions to run 'info'\\r\\n\"\nclose\n",
            DLOCK_AUTH, "info");
    refused(
        "any 7\nsend "
        "\"+OK\\r\\n$0\\r\\n\\r\\n$0\\r\\n\\r\\n$0\\r\\n\\r\\n$0\\r\\n\\r\\n-no\\r\\n-no\\r\\n\""
        "\nend\n",
        DLOCK_PROTOCOL, "INFO");
    refused("close\n", DLOCK_UNAVAILABLE, "");
    refused("reset\n", DLOCK_UNAVAILABLE, "");
}

/* C17: a server that repeats the password in its complaint. */
/* What a server says of itself is shown to people. */
Test(replies, facts_are_printable)
{
    play("conn\nany 7\nsend \"+OK\\r\\n$94\\r\\nredis_version:7\\x1b[31m.1\\r\\nrole:ma\\x07"
         "ster\\r\\nmaxmemory_policy:noeviction\\r\\nrun_id:0\\r\\nmaster_replid:0\\r\\n\\r\\n$"
         "0\\r\\n\\r\\n$"
         "0\\r\\n\\r\\n$0\\r"
         "\\n\\r\\n-NOPERM no\\r\\n-NOPERM no\\r\\n\"\n");
    cr_assert_eq(dlt_session_open(&s), DLOCK_CONFIG, "%s", s.err.message);
    cr_assert(strstr(s.err.message, "role ma?ster") != NULL, "%s", s.err.message);
}

Test(replies, C17_the_password_is_not_repeated)
{
    play("conn\nany 8\nsend \"-ERR unknown command 'AUTH', with args beginning with: 'hunter2' "
         "\\r\\n\"\nend\n");
    s.target.password = "hunter2";
    cr_assert_eq(dlt_session_open(&s), DLOCK_AUTH);
    cr_assert(strstr(s.err.message, "hunter2") == NULL, "%s", s.err.message);
}

/* A line of a log stays one line. */
Test(replies, errors_are_printable)
{
    play("conn\n" HELLO "any\nsend \"-OOM \\x1b[31m\\tred\\x00\\xff\\r\\n\"\n");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_UNAVAILABLE);
    for (const char *at = s.err.message; *at != '\0'; at++)
        cr_assert(*at >= ' ' && *at <= '~', "%s", s.err.message);
}

Test(replies, errors_are_printable_in_the_log_too)
{
    play("conn\n" HELLO
         "any\nsend \"*3\\r\\n:1\\r\\n$12\\r\\n\\x1b[31m\\tred\\x00\\n\\xff\\r\\n:1\\r\\n\"\n");
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(s.host.logs, 1);
    cr_assert(strstr(s.host.logged, "red") != NULL, "%s", s.host.logged);
    for (const char *at = s.host.logged; *at != '\0'; at++)
        cr_assert(*at >= ' ' && *at <= '~', "%s", s.host.logged);
}
