/* SPDX-License-Identifier: MIT */
/* What does it cost a node if readers by the hundred waited together? And do they still pass no
 * writer that came earlier? The scripts themselves, on one node. */
#include "redis_server.h"
#include "redlock/lua/script.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CROWD 600
#define NAME  "rl:{job}"

static struct dlt_redis server;

static void set_up(void)
{
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
}

static void tear_down(void)
{
    dlt_redis_stop(&server);
}

TestSuite(redlock_crowd, .init = set_up, .fini = tear_down, .timeout = 60);

/* The text of a script, until the next call. */
static const char *body(enum redlock_script_id id)
{
    static char text[32 * 1024];

    cr_assert_lt(redlock_scripts[id].len, sizeof text);
    memcpy(text, redlock_scripts[id].body, redlock_scripts[id].len);
    text[redlock_scripts[id].len] = '\0';
    return text;
}

/* True: the node's vote. */
static bool takes(unsigned token, const char *mode)
{
    return strncmp(dlt_redis_ask(&server, "EVAL %s 1 " NAME " %032x 1 %s 60000 TRY label -",
                                 body(REDLOCK_SCRIPT_ACQUIRE), token, mode),
                   "1\n", 2) == 0;
}

/* True: the name is free for it. */
static bool waits(unsigned token, unsigned ticket, const char *mode)
{
    return strncmp(dlt_redis_ask(&server, "EVAL %s 1 " NAME " %032x %u %s 60000 rl:channel",
                                 body(REDLOCK_SCRIPT_WAIT), token, ticket, mode),
                   "1\n", 2) == 0;
}

static void release(unsigned token, const char *what)
{
    (void)dlt_redis_ask(&server, "EVAL %s 1 " NAME " %032x * %s", body(REDLOCK_SCRIPT_RELEASE),
                        token, what);
}

static long calls(const char *command)
{
    char key[48];
    const char *at = NULL;

    (void)snprintf(key, sizeof key, "cmdstat_%s:calls=", command);
    at = strstr(dlt_redis_ask(&server, "INFO commandstats"), key);
    return at != NULL ? strtol(at + strlen(key), NULL, 10) : 0;
}

/* As clients do it: each takes the name, and leaves the queue. */
Test(redlock_crowd, of_readers_costs_each_of_them_the_same)
{
    cr_assert(takes(0, "x"));
    for (unsigned i = 1; i <= CROWD; i++)
        cr_assert_not(waits(i, 1000 + i, "s"));
    release(0, "UNLOCK");
    cr_assert_str_eq(dlt_redis_ask(&server, "CONFIG RESETSTAT"), "OK");
    for (unsigned i = 1; i <= CROWD; i++)
        cr_assert(takes(i, "s"), "%u", i);
    for (unsigned i = 1; i <= CROWD; i++)
        release(i, "DEQUEUE");
    cr_expect_lt(calls("hget"), 30L * CROWD);
    cr_expect_lt(calls("publish"), 10L * CROWD);
}

Test(redlock_crowd, C13_readers_pass_no_writer_that_came_earlier)
{
    cr_assert(takes(0, "x"));
    for (unsigned i = 1; i <= 300; i++)
        (void)waits(i, 1000 + i, i == 250 ? "x" : "s");
    release(0, "UNLOCK");
    for (unsigned i = 1; i < 250; i++)
        cr_assert(takes(i, "s"), "%u", i);
    for (unsigned i = 251; i <= 300; i++)
        cr_assert_not(takes(i, "s"), "%u came after the writer", i);
    cr_assert_not(takes(400, "s"), "and so did one without a ticket");
    (void)waits(500, 1100, "x"); /* arrives late, and has an early ticket */
    release(250, "DEQUEUE");
    cr_assert_not(takes(251, "s"), "the other writer came earlier, too");
    release(500, "DEQUEUE");
    for (unsigned i = 251; i <= 300; i++)
        cr_assert(takes(i, "s"), "%u", i);
}
