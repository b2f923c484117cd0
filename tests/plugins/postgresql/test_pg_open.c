/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/connect.c plugins/postgresql/open.c */
/* Tests: plugins/net/cloexec.c */
/* What is refused at open, with which status, and what is not; open_tests.c has more. */
#include "open_tests.h"
#include "pg_kit.h"
#include "want.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct dlt_postgres server;
static struct dlt_session s;

static void set_up(void)
{
    dlt_open_session(&s);
}

static void tear_down(void)
{
    dlt_session_close(&s);
    dlt_postgres_stop(&server);
}

TestSuite(open, .init = set_up, .fini = tear_down);

const struct dlt_open dlt_open = {
    .denied = "authentication failed", .user_timeout_ms = 12000, .lookups = 3};

void dlt_open_session(struct dlt_session *session)
{
    cr_assert(dlt_postgres_borrow(&server), "%s", server.why);
    dlt_session_init(session, &server);
}

Test(open, OPN_3_AUTH)
{
    s.target.password = "secretly wrong";
    dlt_want(&s, DLOCK_AUTH, "password authentication failed for user \"u\" (28P01)");
    s.target.user = "nobody";
    dlt_want(&s, DLOCK_AUTH, "authentication failed");
    s.target.user = "u";
    s.target.password = NULL;
    dlt_want(&s, DLOCK_AUTH, "no password supplied");
}

Test(open, OPN_3_a_database_that_is_not_there)
{
    s.target.path = "/no_such_database";
    dlt_want(&s, DLOCK_CONFIG, "does not exist (3D000)");
    dlt_session_option(&s, "create", "0");
    dlt_want(&s, DLOCK_NO_STORE, "no_such_database");
}

Test(open, OPN_3_UNAVAILABLE_when_nobody_listens)
{
    (void)snprintf(s.address, sizeof s.address, "127.0.0.1:1");
    dlt_want(&s, DLOCK_UNAVAILABLE, "127.0.0.1:1: Connection refused");
    (void)snprintf(s.address, sizeof s.address, "localhost:1");
    dlt_want(&s, DLOCK_UNAVAILABLE, "localhost:1: Connection refused");
    (void)snprintf(s.address, sizeof s.address, "no-such-host.invalid:1");
    dlt_want(&s, DLOCK_UNAVAILABLE, "looking up the host");
    s.hosts[0] = NULL;
    dlt_session_option(&s, "unix_socket", "/tmp/no/such");
    dlt_want(&s, DLOCK_UNAVAILABLE, "No such file or directory");
}

Test(open, a_unix_socket_by_its_directory_or_by_its_file)
{
    s.hosts[0] = NULL;
    dlt_session_option(&s, "unix_socket", server.socket);
    dlt_want(&s, DLOCK_OK, "");
    *strrchr(s.options[2][1], '/') = '\0'; /* on the default port nobody listens */
    dlt_want(&s, DLOCK_UNAVAILABLE, ".s.PGSQL.5432");
}

/* A wait for it would never end. Root may open each socket, and is somebody else here. */
Test(open, OPN_3_a_unix_socket_that_the_user_may_not_open_is_AUTH)
{
    char directory[] = "/tmp/dlock-barred-XXXXXX", text[96];
    const bool is_root = geteuid() == 0;

    cr_assert_not_null(mkdtemp(directory));
    cr_assert(is_root ? seteuid(65534) == 0 : chmod(directory, 0) == 0);
    s.hosts[0] = NULL;
    dlt_session_option(&s, "unix_socket", directory);
    (void)snprintf(text, sizeof text, "%s/.s.PGSQL.5432: Permission denied", directory);
    dlt_want(&s, DLOCK_AUTH, text);
    cr_assert(!is_root || seteuid(0) == 0);
    (void)rmdir(directory);
}

/* What a server says to the first client, whatever that asks. */
struct speech {
    int fd;
    const char *bytes;
    size_t len;
};

static void *speak(void *arg)
{
    const struct speech *speech = arg;
    char request[1024];
    int fd = accept(speech->fd, NULL, NULL);

    cr_assert_gt(recv(fd, request, sizeof request, 0), 0);
    (void)send(fd, speech->bytes, speech->len, MSG_NOSIGNAL);
    dlt_sleep_ms(200);
    (void)close(fd);
    return NULL;
}

static void want_from(const char *bytes, size_t len, enum dlock_status status, const char *text)
{
    struct speech speech = {
        .fd = dlt_open_silent(s.address, sizeof s.address), .bytes = bytes, .len = len};
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, speak, &speech), 0);
    dlt_want(&s, status, text);
    (void)pthread_join(thread, NULL);
    (void)close(speech.fd);
}

#define AUTH_OK "R\0\0\0\x8\0\0\0\0"
#define KEY     "K\0\0\0\xc\0\0\0\x1\0\0\0\x2"
#define READY   "Z\0\0\0\x5I"

Test(open, OPN_3_PROTOCOL_and_answers_that_make_no_sense)
{
    static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    static const char fatal[] = "E\0\0\0\x25SFATAL\0C53300\0Mtoo many\nclients\0\0";
    static const char mute[] = "E\0\0\0\x5\0";
    static const char huge[] = "R\x7f\xff\xff\xff\0\0\0\0";
    static const char idle[] = AUTH_OK KEY READY;

    want_from(http, sizeof http - 1, DLOCK_PROTOCOL, "authentication request");
    want_from(fatal, sizeof fatal - 1, DLOCK_UNAVAILABLE, "too many (53300)");
    want_from(mute, sizeof mute - 1, DLOCK_UNAVAILABLE, "");
    want_from(huge, sizeof huge - 1, DLOCK_PROTOCOL, "");
    want_from(idle, sizeof idle - 1, DLOCK_CONFIG, "want PostgreSQL 14"); /* says no version */
}

Test(open, OPN_1_a_server_that_is_too_old_is_CONFIG)
{
    static const char old[] = AUTH_OK "S\0\0\0\x19server_version\00013.11\0" KEY READY;

    want_from(old, sizeof old - 1, DLOCK_CONFIG,
              "want PostgreSQL 14 or later, not PostgreSQL 13.11");
}

/* What steers other programs with this library does not steer us. */
Test(open, no_variable_changes_where_we_go)
{
    static const char *const variables[][2] = {
        {"PGOPTIONS", "-c role=nobody"},
        {"PGHOST", "203.0.113.1"},
        {"PGHOSTADDR", "203.0.113.1"},
        {"PGPORT", "1"},
        {"PGUSER", "wrong"},
        {"PGPASSWORD", "wrong"},
        {"PGDATABASE", "wrong"},
        {"PGSSLMODE", "verify-full"},
        {"PGSSLROOTCERT", "/nowhere"},
        {"PGGSSENCMODE", "require"},
        {"PGCLIENTENCODING", "SJIS"},
        {"PGTARGETSESSIONATTRS", "standby"},
        {"PGCONNECT_TIMEOUT", "1"},
        {"PGCHANNELBINDING", "require"},
        {"PGPASSFILE", "/etc/passwd"},
        {"PGSSLMAXPROTOCOLVERSION", "TLSv1.1"},
        {"PGSSLSNI", "x"},
        {"PGREQUIREAUTH", "none"}, /* this and the rest: of libpq 16 to 18 */
        {"PGLOADBALANCEHOSTS", "x"},
        {"PGSSLCERTMODE", "require"},
        {"PGSSLNEGOTIATION", "direct"},
        {"PGMINPROTOCOLVERSION", "3.2"},
        {"PGMAXPROTOCOLVERSION", "x"},
    };

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        (void)setenv(variables[i][0], variables[i][1], 1);
    dlt_want(&s, DLOCK_OK, "");
}

/* The address of a variable would be another server than that of the socket. */
Test(open, no_variable_leads_away_from_a_socket)
{
    s.hosts[0] = NULL;
    dlt_session_option(&s, "unix_socket", server.socket);
    (void)setenv("PGHOSTADDR", "", 1);
    dlt_want(&s, DLOCK_OK, "");
    (void)setenv("PGHOSTADDR", "127.0.0.1", 1);
    dlt_want(&s, DLOCK_INVALID, "PGHOSTADDR");
}

Test(open, a_service_sets_neither_role_nor_address)
{
    char path[] = "/tmp/dlock-service-XXXXXX";
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    cr_assert_gt(dprintf(fd, "[other]\nhostaddr=127.0.0.1\noptions=-c role=nobody\n"), 0);
    (void)close(fd);
    (void)setenv("PGSERVICEFILE", path, 1);
    (void)setenv("PGSERVICE", "other", 1);
    dlt_want(&s, DLOCK_OK, "");
    s.hosts[0] = NULL;
    dlt_session_option(&s, "unix_socket", server.socket);
    dlt_want(&s, DLOCK_INVALID, "PGSERVICE");
    (void)unlink(path);
}

/* ---- servers of their own ---- */

Test(own, OPN_1_a_standby_is_CONFIG)
{
    char path[160];
    FILE *file = NULL;

    cr_assert(dlt_postgres_start(&server, NULL), "%s", server.why);
    dlt_session_init(&s, &server);
    dlt_want(&s, DLOCK_OK, "");
    dlt_postgres_kill(&server);
    (void)snprintf(path, sizeof path, "%s/data/standby.signal", server.directory);
    file = fopen(path, "w");
    cr_assert_not_null(file);
    (void)fclose(file);
    cr_assert(dlt_postgres_again(&server), "%s", server.why);
    dlt_want(&s, DLOCK_CONFIG, "standby");
    dlt_session_strategy(&s, "session", "standby");
    dlt_want(&s, DLOCK_CONFIG, "standby");
    tear_down();
}

Test(own, max_connections_reached_is_UNAVAILABLE)
{
    static struct dlt_session held[4];
    enum dlock_status status = DLOCK_OK;
    size_t count = 0;

    cr_assert(dlt_postgres_start(&server, (const char *[]){"-c", "max_connections=4", "-c",
                                                           "superuser_reserved_connections=1", "-c",
                                                           "max_wal_senders=0", NULL}),
              "%s", server.why);
    for (; count < 4 && status == DLOCK_OK; count++) {
        dlt_session_init(&held[count], &server);
        status = dlt_session_open(&held[count]);
    }
    cr_assert_eq(status, DLOCK_UNAVAILABLE);
    cr_assert(strstr(held[count - 1].err.message, "(53300)") != NULL, "%s",
              held[count - 1].err.message);
    while (count-- > 0)
        dlt_session_close(&held[count]);
    dlt_session_init(&s, &server);
    for (int i = 0; i < 100 && status != DLOCK_OK; i++) {
        status = dlt_session_open(&s);
        dlt_session_close(&s);
        dlt_sleep_ms(20);
    }
    cr_assert_eq(status, DLOCK_OK, "%s", s.err.message);
    tear_down();
}
