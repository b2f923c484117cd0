/* SPDX-License-Identifier: MIT */
/* Tests: plugins/postgresql/connect.c plugins/postgresql/connection.c */
/* tls_tests.c, on PostgreSQL, and the files that libpq reads. */
#include "pg_kit.h"
#include "tls_tests.h"
#include "want.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>

static struct dlt_postgres server;
static struct dlt_session s;

const struct dlt_tls dlt_tls = {
    .other_host = "does not match host name",
    .stranger = "certificate verify failed",
    .unsupported = "does not support SSL",
};

struct dlt_store_server dlt_tls_server(void)
{
    return dlt_store_postgres(&server);
}

bool dlt_tls_server_start_plain(void)
{
    return dlt_postgres_start(&server, NULL);
}

void dlt_tls_session(struct dlt_session *session)
{
    dlt_session_init(session, &server);
}

void dlt_tls_session_certified(struct dlt_session *session)
{
    session->target.user = "certified";
    session->target.password = NULL;
}

bool dlt_tls_session_is_encrypted(void)
{
    const char *count =
        dlt_postgres_ask(&server, "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity "
                                  "USING (pid) WHERE ssl AND usename IN ('u', 'certified')");

    return strcmp(count, "1") == 0;
}

static const char *file(const char *name)
{
    static char path[160];

    (void)snprintf(path, sizeof path, "%s/%s", server.directory, name);
    return path;
}

Test(tls, OPN_3_files_that_are_no_use_are_INVALID)
{
    cr_assert(dlt_postgres_start_tls(&server, "server", NULL), "%s", server.why);
    dlt_session_init(&s, &server);
    dlt_session_option(&s, "tls", "1");
    dlt_session_option(&s, "ca", "/dev/null");
    dlt_want(&s, DLOCK_INVALID, "root certificate file");
    dlt_session_option(&s, "ca", file("ca.pem"));
    dlt_session_option(&s, "cert", file("client.pem"));
    dlt_session_option(&s, "key_file", file("server.key")); /* another one's */
    dlt_want(&s, DLOCK_INVALID, "private key file");
    dlt_session_option(&s, "key_file", file("locked.key")); /* nobody is asked for a passphrase */
    (void)chmod(file("locked.key"), 0600);
    dlt_want(&s, DLOCK_INVALID, "private key file");
    (void)chmod(file("client.key"), 0644);
    dlt_session_option(&s, "key_file", file("client.key"));
    dlt_want(&s, DLOCK_INVALID, "group or world access");
    dlt_postgres_stop(&server);
}
