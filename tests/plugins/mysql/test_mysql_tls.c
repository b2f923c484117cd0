/* SPDX-License-Identifier: MIT */
/* Tests: plugins/net/tls_option.c plugins/mysql/connect_thread.c plugins/mysql/connect.c */
/* tls_tests.c, on MariaDB (M15). */
#include "my_kit.h"
#include "tls_tests.h"

#include <string.h>

static struct dlt_maria server;

/* What the library says of certificates changes with its versions. */
const struct dlt_tls dlt_tls = {
    .other_host = "", .stranger = "", .unsupported = "the server does not support"};

struct dlt_store_server dlt_tls_server(void)
{
    return dlt_store_maria(&server);
}

bool dlt_tls_server_start_plain(void)
{
    return dlt_maria_start(&server, (const char *[]){"--skip-ssl", NULL});
}

void dlt_tls_session(struct dlt_session *session)
{
    dlt_session_init(session, &server);
}

void dlt_tls_session_certified(struct dlt_session *session)
{
    (void)session;
    (void)dlt_maria_ask(&server, "ALTER USER u REQUIRE X509");
}

bool dlt_tls_session_is_encrypted(void)
{
    static const char none[] = "Ssl_finished_accepts 0";

    return strcmp(dlt_maria_ask(&server, "SHOW GLOBAL STATUS LIKE 'Ssl_finished_accepts'"), none) !=
           0;
}
