/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redis/servers/sentinels.c */
/* Tests: plugins/redis/link/config.c */
/* Is the master found by what sentinels say, and nothing else believed? Sentinels that lie are
 * scripted (OPN-1, SEC-1). */
#include "redis_kit.h"
#include "scripted_client.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 3

#define NONSENSE "*2\\r\\n$2\\r\\nip\\r\\n$3\\r\\n::1\\r\\n"

static struct dlt_redis server, other;
static struct dlt_scripted sentinels[MOST];
static unsigned sentinel_count;
static struct dlt_session s;
static struct dlt_request a;

static void tear_down(void)
{
    dlt_session_close(&s);
    for (unsigned i = 0; i < sentinel_count; i++)
        (void)dlt_scripted_finish(&sentinels[i], 0);
    dlt_redis_stop(&server);
    dlt_redis_stop(&other);
}

TestSuite(sentinel, .fini = tear_down, .timeout = 120);

static void start(struct dlt_redis *one, const char *const *args)
{
    cr_assert(dlt_redis_start(one, args), "%s", one->why);
}

/* A sentinel that answers so to SENTINEL MASTER and GET-MASTER-ADDR-BY-NAME, and knows these
 * others. */
static void sentinel_scripted(const char *answer, const char *address, const char *others)
{
    char script[2048];

    (void)snprintf(script, sizeof script,
                   "conn *\n"
                   "command CLIENT SETNAME dlock\nsend \"+OK\\r\\n\"\n"
                   "command SENTINEL MASTER locks\nsend \"%s\"\n"
                   "command SENTINEL GET-MASTER-ADDR-BY-NAME locks\nsend \"%s\"\n"
                   "command SENTINEL SENTINELS locks\nsend \"%s\"\n"
                   "end\n",
                   answer, address, others);
    cr_assert(dlt_scripted_start(&sentinels[sentinel_count], script), "%s",
              sentinels[sentinel_count].report);
    sentinel_count++;
}

/* row: the port in what the sentinel has of the service, which is old while the sentinel leads a
 * failover; port: where it sends clients. */
static void sentinel_leads(unsigned row, unsigned port, unsigned epoch, const char *others)
{
    char answer[512], address[128];

    (void)snprintf(answer, sizeof answer,
                   "*8\\r\\n$4\\r\\nname\\r\\n$5\\r\\nlocks\\r\\n$2\\r\\nip\\r\\n$9\\r\\n127.0.0.1"
                   "\\r\\n$4\\r\\nport\\r\\n$5\\r\\n%05u\\r\\n$12\\r\\nconfig-epoch\\r\\n$1\\r\\n%u"
                   "\\r\\n",
                   row, epoch);
    (void)snprintf(address, sizeof address, "*2\\r\\n$9\\r\\n127.0.0.1\\r\\n$5\\r\\n%05u\\r\\n",
                   port);
    sentinel_scripted(answer, address, others);
}

static void sentinel_says(unsigned port, unsigned epoch)
{
    sentinel_leads(port, port, epoch, "*0\\r\\n");
}

/* Names so many of the sentinels, and others at a port where nobody listens. */
static void named(unsigned alive, unsigned all)
{
    dlt_session_init(&s, "redis+sentinel", "/locks");
    for (unsigned i = 0; i < all; i++)
        s.hosts[i] = i < alive ? sentinels[i].address : "127.0.0.1:1";
}

static void opens_at(const struct dlt_redis *one)
{
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_str_eq(s.info.endpoint, one->address);
    dlt_request(&s, &a, "job", 1, 3000);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_unlock(&s, &a), DLOCK_OK, "%s", s.err.message);
}

static void refused(enum dlock_status status, const char *text)
{
    cr_assert_eq(dlt_session_open(&s), status, "%d: %s", s.err.status, s.err.message);
    cr_assert(strstr(s.err.message, text) != NULL, "%s", s.err.message);
}

/* ---- who is believed ---- */

Test(sentinel, an_isolated_sentinel_with_an_old_epoch_is_not_believed)
{
    start(&server, NULL);
    start(&other, NULL);
    sentinel_says(other.port, 3);
    sentinel_says(server.port, 4);
    sentinel_says(server.port, 4);
    named(3, 3);
    opens_at(&server);
}

/* The first one leads a failover, which goes on until all replicas follow; until then its SENTINEL
 * MASTER has the new epoch and the old address. The second one has not heard of it. */
Test(sentinel, C1_the_leader_of_a_failover_names_the_new_master)
{
    start(&server, NULL);
    start(&other, NULL);
    sentinel_leads(other.port, server.port, 5, "*0\\r\\n");
    sentinel_says(other.port, 4);
    sentinel_says(server.port, 5);
    named(3, 3);
    opens_at(&server);
}

Test(sentinel, one_that_is_gone_and_one_that_talks_nonsense_are_outvoted)
{
    start(&server, NULL);
    sentinel_says(server.port, 4);
    sentinel_says(server.port, 4);
    sentinel_scripted(NONSENSE, NONSENSE, "*0\\r\\n");
    named(3, 3);
    opens_at(&server);
    dlt_session_close(&s);
    named(2, 3);
    opens_at(&server);
}

Test(sentinel, UNAVAILABLE_a_minority_is_not_believed)
{
    start(&server, NULL);
    sentinel_says(server.port, 4);
    named(1, 3);
    refused(DLOCK_UNAVAILABLE, "1 of 3 sentinels name the master");
}

static void replica_wait(bool there)
{
    const char *text = there ? "state=online" : "connected_slaves:0";

    (void)dlt_redis_ask(&other, there ? "REPLICAOF 127.0.0.1 %u" : "REPLICAOF NO ONE", server.port);
    for (int i = 0; i < 400; i++) {
        if (strstr(dlt_redis_ask(&server, "INFO replication"), text) != NULL)
            return;
        dlt_sleep_ms(20);
    }
    cr_assert_fail("no %s", text);
}

/* The connection is good: without a majority of the sentinels there would be no other one. */
Test(sentinel, C8_a_master_that_lost_its_replicas_for_a_moment_is_kept)
{
    start(&server, (const char *[]){"--min-replicas-to-write", "1", NULL});
    start(&other, (const char *[]){"--repl-diskless-sync-delay", "0", NULL});
    for (int i = 0; i < 3; i++)
        sentinel_says(server.port, 5);
    named(3, 3);
    replica_wait(true);
    opens_at(&server);
    for (unsigned i = 1; i < 3; i++)
        (void)dlt_scripted_finish(&sentinels[i], 0);
    sentinel_count = 1;
    replica_wait(false);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_UNAVAILABLE, "%s", s.err.message);
    cr_assert_not_null(strstr(s.err.message, "NOREPLICAS"), "%s", s.err.message);
    replica_wait(true);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
}

Test(sentinel, UNAVAILABLE_sentinels_that_name_several_masters)
{
    sentinel_says(11111, 1);
    sentinel_says(22222, 1);
    sentinel_says(33333, 1);
    named(3, 3);
    refused(DLOCK_UNAVAILABLE, "no 2 of them agree");
}

/* One that says nothing is not waited for when the others agree. */
Test(sentinel, a_silent_sentinel_delays_nobody)
{
    start(&server, NULL);
    sentinel_says(server.port, 4);
    sentinel_says(server.port, 4);
    cr_assert(dlt_scripted_start(&sentinels[sentinel_count++], "conn *\nany\ndelay 100000\nend\n"));
    named(3, 3);
    s.call_ms = 20000;
    opens_at(&server);
}

/* The URI names one sentinel, which is isolated and knows others: they outvote it. */
Test(sentinel, those_that_the_sentinels_know_are_asked_too)
{
    char others[512];

    start(&server, NULL);
    start(&other, NULL);
    sentinel_says(server.port, 5);
    (void)snprintf(
        others, sizeof others,
        "*1\\r\\n*4\\r\\n$2\\r\\nip\\r\\n$9\\r\\n127.0.0.1\\r\\n$4\\r\\nport\\r\\n$5\\r\\n"
        "%05u\\r\\n",
        sentinels[0].port);
    sentinel_leads(other.port, other.port, 4, others);
    named(0, 0);
    s.hosts[0] = sentinels[1].address;
    opens_at(&other);
    dlt_redis_kill(&other);
    dlt_request(&s, &a, "job", 2, 3000);
    while (dlt_try(&s, &a) != DLOCK_OK)
        dlt_sleep_ms(20);
    cr_assert_eq(strcmp(dlt_redis_ask(&server, "EXISTS dl:{job}"), "1"), 0);
}

/* ---- what is refused ---- */

Test(sentinel, UNAVAILABLE_a_master_that_is_a_replica)
{
    start(&server, (const char *[]){"--replicaof", "127.0.0.1 1", NULL});
    for (unsigned i = 0; i < 3; i++)
        sentinel_says(server.port, 4);
    named(3, 3);
    refused(DLOCK_UNAVAILABLE, "replica");
}

Test(sentinel, CONFIG_no_such_service_and_no_sentinel)
{
    for (unsigned i = 0; i < 3; i++)
        sentinel_scripted("-ERR No such master with that name\\r\\n", "*-1\\r\\n",
                          "-ERR No such master with that name\\r\\n");
    named(3, 3);
    refused(DLOCK_CONFIG, "No such master");
    start(&server, NULL);
    named(0, 0);
    s.hosts[0] = server.address;
    refused(DLOCK_CONFIG, "unknown command");
}

Test(sentinel, PROTOCOL_a_majority_that_talks_nonsense)
{
    for (unsigned i = 0; i < 2; i++)
        sentinel_scripted(NONSENSE, NONSENSE, "*0\\r\\n");
    named(2, 3);
    refused(DLOCK_PROTOCOL, "not the answer of a Sentinel");
}

Test(sentinel, INVALID_what_core_could_not_check)
{
    dlt_session_init(&s, "redis+sentinel", "");
    s.hosts[0] = "h";
    refused(DLOCK_INVALID, "the name of the service");
    dlt_session_init(&s, "redis+sentinel", "/locks");
    refused(DLOCK_INVALID, "want the sentinels");
    dlt_session_init(&s, "redis", "h");
    dlt_session_option(&s, "sentinel_user", "u");
    refused(DLOCK_INVALID, "option of sentinels");
}

/* ---- logging in, TLS ---- */

static char file[96];

static void password_write(const char *password, mode_t mode)
{
    int fd = -1;

    (void)snprintf(file, sizeof file, "%s/pass", server.directory);
    fd = creat(file, 0600);
    cr_assert(fd >= 0 && write(fd, password, strlen(password)) == (ssize_t)strlen(password));
    (void)close(fd);
    cr_assert_eq(chmod(file, mode), 0);
}

/* A server that knows the user, and no SENTINEL, stands for a sentinel: after the login it says
 * so. The file is read again for each connection. */
Test(sentinel, SEC_1_user_and_password_of_the_sentinels)
{
    start(&server, (const char *[]){"--user", "watch", "on", ">s3cret", "+@all", NULL});
    named(0, 0);
    s.hosts[0] = server.address;
    dlt_session_option(&s, "sentinel_user", "watch");
    password_write("wrong\n", 0600);
    dlt_session_option(&s, "sentinel_pass_file", file);
    refused(DLOCK_AUTH, "refused");
    password_write("s3cret\n", 0644);
    refused(DLOCK_CONFIG, "unknown command");
    cr_assert(strstr(s.host.logged, "all users may read the secret") != NULL, "%s", s.host.logged);
    password_write("s3cret\n", 0622);
    refused(DLOCK_CONFIG, "others may write");
    if (geteuid() == 0) {
        password_write("s3cret\n", 0600);
        cr_assert_eq(chown(file, 65534, 65534), 0);
        refused(DLOCK_CONFIG, "belongs to user 65534");
    }
    (void)unlink(file);
    refused(DLOCK_INVALID, "sentinel_pass_file");
    dlt_session_option(&s, "sentinel_pass_file", "pass");
    refused(DLOCK_INVALID, "sentinel_pass_file: an absolute path is needed");
}

Test(sentinel, TLS_to_sentinels_and_to_the_master)
{
    char ca[96];

    cr_assert(dlt_redis_start_tls(&server, "server", "optional"), "%s", server.why);
    (void)snprintf(ca, sizeof ca, "%s/ca.pem", server.directory);
    for (unsigned i = 0; i < 3; i++)
        sentinel_says(server.tls_port, 1);
    dlt_session_init(&s, "rediss+sentinel", "/locks");
    for (unsigned i = 0; i < 3; i++)
        s.hosts[i] = sentinels[i].address;
    dlt_session_option(&s, "ca", ca);
    dlt_session_option(&s, "sentinel_tls", "off");
    s.call_ms = 20000;
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    dlt_session_close(&s);
    dlt_session_init(&s, "redis+sentinel", "/locks");
    s.hosts[0] = server.address;
    (void)snprintf(s.address, sizeof s.address, "127.0.0.1:%u", server.tls_port);
    s.hosts[0] = s.address;
    dlt_session_option(&s, "ca", ca);
    dlt_session_option(&s, "sentinel_tls", "on");
    s.call_ms = 20000;
    refused(DLOCK_CONFIG, "unknown command");
}
