/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/call/call.c plugins/resp/keys.c plugins/redis/renew.c */
/* Tests: plugins/redis/inspect.c */
/* On a cluster a server moves the keys of a slot one by one, and looks only at the keys that a
 * script declares: does each call declare every key that its script touches? */
#include "redis/servers/session.h"
#include "redis_kit.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct dlt_redis server;
static struct dlt_session s;
static FILE *monitor;
static char line[65536], declared[65536]; /* a line may have a whole script */
static unsigned calls, touched, undeclared;

static void set_up(void)
{
    cr_assert(dlt_redis_start(&server, NULL), "%s", server.why);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    if (monitor != NULL)
        (void)fclose(monitor);
    dlt_redis_stop(&server);
}

TestSuite(declared, .init = set_up, .fini = tear_down, .timeout = 120);

static int server_connect(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server.port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    return -1;
}

static void open_with(const char *key, bool all_keys)
{
    int fd = -1;

    dlt_session_init(&s, "redis", server.address);
    dlt_session_trusted(&s);
    dlt_session_option(&s, "key", key);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    ((struct redis_session *)s.self)->config.all_keys = all_keys;
    fd = server_connect();
    cr_assert_geq(fd, 0);
    monitor = fdopen(fd, "r+");
    cr_assert(monitor != NULL && fputs("MONITOR\r\n", monitor) >= 0 && fflush(monitor) == 0);
    cr_assert(fgets(line, sizeof line, monitor) != NULL && strcmp(line, "+OK\r\n") == 0);
}

/* The next word in quotes, with its quotes; NULL: there is none. */
static char *word(char **at)
{
    char *begin = strchr(*at, '"'), *end = begin;

    if (begin == NULL)
        return NULL;
    for (end++; *end != '"' && *end != '\0'; end++)
        if (*end == '\\')
            end++;
    if (*end == '\0')
        return NULL;
    *at = end + 1;
    if (**at != '\0')
        *(*at)++ = '\0';
    return begin;
}

/* "EVALSHA" "sha" "count" "key" ... */
static void call_read(char *at)
{
    size_t len = 0;
    long count = 0;

    (void)word(&at);
    (void)word(&at);
    count = strtol(word(&at) + 1, NULL, 10);
    declared[0] = '\0';
    for (long i = 0; i < count && len < sizeof declared; i++)
        len += (size_t)snprintf(declared + len, sizeof declared - len, "%s", word(&at));
    calls++;
}

/* What a script does: words that are keys of ours, or the raw key. */
static void touch_read(char *at)
{
    for (char *one = word(&at); one != NULL; one = word(&at)) {
        if (strncmp(one, "\"dl:{", 5) != 0 && strcmp(one, "\"job\"") != 0)
            continue;
        touched++;
        if (strstr(declared, one) == NULL)
            undeclared++;
    }
}

static void monitor_read(void)
{
    calls = touched = undeclared = 0;
    (void)dlt_redis_ask(&server, "ECHO that-is-all");
    while (fgets(line, sizeof line, monitor) != NULL && strstr(line, "that-is-all") == NULL) {
        char *at = strchr(line, ']');

        if (at != NULL && strstr(line, " lua] ") != NULL)
            touch_read(at);
        else if (at != NULL && strstr(line, "\"EVAL") != NULL)
            call_read(at);
    }
}

/* Each script, on each of its ways: free, held, queued, passed on, readers, downgraded, broken. */
static void use_all(bool queue)
{
    struct dlt_request a, b, c;
    struct dlt_holder holders[8];
    struct dlt_queued waiters[8];
    size_t count = 8;

    dlt_request(&s, &a, "job", 'a', 20000);
    dlt_request(&s, &b, "job", 'b', 20000);
    dlt_request(&s, &c, "job", 'c', 20000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_BUSY);
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_inspect(&s, "job", holders, &count), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(count, 1);
    if (queue) {
        c.req.mode = DLOCK_SHARED;
        cr_assert_eq(dlt_enqueue(&s, &b), DLOCK_BUSY);
        cr_assert_eq(dlt_enqueue(&s, &c), DLOCK_BUSY);
        count = 8;
        cr_assert_eq(dlt_list_waiters(&s, "job", waiters, &count), DLOCK_OK, "%s", s.err.message);
        cr_assert_eq(count, 2);
        cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK);
        cr_assert_eq(dlt_refresh(&s, &b), DLOCK_OK);
        b.req.flags = DLOCK_REQ_DOWNGRADE;
        cr_assert_eq(dlt_renew(&s, &b), DLOCK_OK);
        b.req.flags = 0;
        cr_assert_eq(dlt_refresh(&s, &c), DLOCK_OK, "a reader beside a reader");
        count = 8;
        cr_assert_eq(dlt_list(&s, "", holders, &count), DLOCK_OK, "%s", s.err.message);
        cr_assert_eq(count, 2);
        cr_assert_eq(dlt_unlock(&s, &c), DLOCK_OK);
    }
    cr_assert_eq(dlt_break(&s, "job", NULL), DLOCK_OK, "%s", s.err.message);
    s.ops->forget(s.self, &b.req);
    s.ops->forget(s.self, &c.req);
}

Test(declared, every_key_that_a_script_touches_is_declared)
{
    open_with("name", true);
    use_all(true);
    monitor_read();
    cr_assert_gt(calls, 10);
    cr_assert_gt(touched, 50);
    cr_assert_eq(undeclared, 0, "%u of %u", undeclared, touched);
}

Test(declared, with_a_raw_key_too)
{
    struct dlt_request other;

    open_with("raw", true);
    use_all(false);
    monitor_read();
    cr_assert_gt(touched, 20);
    cr_assert_eq(undeclared, 0, "%u of %u", undeclared, touched);
    dlt_request(&s, &other, "no{t}there", 'd', 20000);
    cr_assert_eq(dlt_try(&s, &other), DLOCK_INVALID, "its raw key has another slot");
}

/* Can this test fail? A single server is not told of all keys. */
Test(declared, a_single_server_is_told_of_two)
{
    open_with("name", false);
    use_all(true);
    monitor_read();
    cr_assert_gt(undeclared, 10);
}

/* The names of a list, and the leases of a round of renewals, have slots of their own. */
Test(declared, no_call_has_keys_of_two_names)
{
    struct dlt_request a, b;
    struct dlock_lease_op ops[2], *list[2] = {&ops[0], &ops[1]};
    struct dlt_holder holders[8];
    size_t count = 8;

    open_with("name", true);
    dlt_request(&s, &a, "one", 'a', 20000);
    dlt_request(&s, &b, "two", 'b', 20000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK);
    cr_assert_eq(dlt_try(&s, &b), DLOCK_OK);
    memset(ops, 0, sizeof ops);
    ops[0].req = dlt_due(&s, &a, 5000);
    ops[1].req = dlt_due(&s, &b, 5000);
    cr_assert_eq(s.ops->renew(s.self, list, 2, ops[0].req->deadline_ns, &s.err), DLOCK_OK);
    cr_assert_eq(ops[0].status, DLOCK_OK);
    cr_assert_eq(ops[1].status, DLOCK_OK);
    cr_assert_eq(dlt_list(&s, "", holders, &count), DLOCK_OK);
    cr_assert_eq(count, 2);
    (void)dlt_redis_ask(&server, "ECHO that-is-all");
    while (fgets(line, sizeof line, monitor) != NULL && strstr(line, "that-is-all") == NULL)
        cr_assert(strstr(line, "dl:{one}") == NULL || strstr(line, "dl:{two}") == NULL, "%s", line);
}
