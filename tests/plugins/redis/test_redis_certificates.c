/* SPDX-License-Identifier: MIT */
/* Tests: plugins/net/tls.c */
/* Certificates are renewed while a client is open: each new connection uses what is in the files
 * (C17). */
#include "redis_kit.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define FILE_MOST 8192

static struct dlt_redis server;
static struct dlt_session s;
static struct dlt_request a;
static char next[DLT_DIRECTORY_SIZE]; /* the certificates of another authority */

static const char *path_of(char out[96], const char *directory, const char *name)
{
    (void)snprintf(out, 96, "%s/%s", directory, name);
    return out;
}

/* A file of the next generation takes the place of the one with this name. */
static void replace(const char *from, const char *to)
{
    char before[96], after[96];

    cr_assert_eq(rename(path_of(before, next, from), path_of(after, server.directory, to)), 0);
}

static void start(void)
{
    static char where[64];

    cr_assert(dlt_redis_start_tls(&server, "server", "yes"), "%s", server.why);
    cr_assert(dlt_directory_make(next, "next") && dlt_certificates_make(next));
    (void)snprintf(where, sizeof where, "127.0.0.1:%u", server.tls_port);
    dlt_session_init(&s, "rediss", where);
    s.target.directory = server.directory;
    dlt_session_option(&s, "ca", "ca.pem");
    dlt_session_option(&s, "cert", "client.pem");
    dlt_session_option(&s, "key_file", "client.key");
    dlt_request(&s, &a, "job", 'a', 60000);
}

static void stop(void)
{
    dlt_session_close(&s);
    dlt_redis_stop(&server);
    dlt_directory_remove(next);
}

/* The server reads its files again, and ends all connections. */
static void server_rotate(void)
{
    char cert[96], key[96], ca[96];
    const char *answer = dlt_redis_ask(&server,
                                       "CONFIG SET tls-cert-file %s tls-key-file %s "
                                       "tls-ca-cert-file %s",
                                       path_of(cert, server.directory, "server.pem"),
                                       path_of(key, server.directory, "server.key"),
                                       path_of(ca, server.directory, "ca.pem"));

    cr_assert_str_eq(answer, "OK", "%s", answer);
}

static void connections_end(void)
{
    (void)dlt_redis_ask(&server, "CLIENT KILL TYPE normal SKIPME yes");
    dlt_sleep_ms(20);
}

Test(certificates, FAI_2_a_new_connection_uses_the_certificates_of_now, .fini = stop)
{
    start();
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    replace("ca.pem", "ca.pem");
    replace("client.pem", "client.pem");
    replace("client.key", "client.key");
    replace("server.pem", "server.pem");
    replace("server.key", "server.key");
    server_rotate();
    connections_end();
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
}

/* A later fault of a file is a reason to wait: its repair is used, too. */
Test(certificates, FAI_2_files_that_do_not_fit_together_yet_are_UNAVAILABLE, .fini = stop)
{
    start();
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    replace("client.key", "client.key");
    connections_end();
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_UNAVAILABLE);
    cr_assert(strstr(s.err.message, "not the key of cert=") != NULL, "%s", s.err.message);
    replace("client.pem", "client.pem");
    replace("ca.pem", "ca.pem");
    replace("server.pem", "server.pem");
    replace("server.key", "server.key");
    server_rotate();
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
}

/* As for a process that gave up its rights after it had opened the client. */
Test(certificates, files_that_cannot_be_seen_any_more_are_those_of_before, .fini = stop)
{
    static const char *const names[] = {"ca.pem", "client.pem", "client.key"};
    char path[96];

    start();
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        cr_assert_eq(unlink(path_of(path, server.directory, names[i])), 0);
    connections_end();
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
}

/* ca=<(command) of a shell */
Test(certificates, what_came_through_a_pipe_serves_later_connections, .fini = stop)
{
    char bytes[FILE_MOST], path[96];
    ssize_t len = 0;
    int ends[2], file = 0;

    start();
    file = open(path_of(path, server.directory, "ca.pem"), O_RDONLY | O_CLOEXEC);
    len = read(file, bytes, sizeof bytes);
    cr_assert(len > 0 && pipe(ends) == 0 && write(ends[1], bytes, (size_t)len) == len);
    (void)close(file);
    (void)close(ends[1]);
    (void)snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    dlt_session_option(&s, "ca", path);
    cr_assert_eq(dlt_session_open(&s), DLOCK_OK, "%s", s.err.message);
    (void)close(ends[0]);
    cr_assert_eq(dlt_try(&s, &a), DLOCK_OK, "%s", s.err.message);
    connections_end();
    cr_assert_eq(dlt_renew(&s, &a), DLOCK_OK, "%s", s.err.message);
}
