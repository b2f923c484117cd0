/* SPDX-License-Identifier: MIT */
/* Tests: plugins/resp/connection.c plugins/resp/config.c plugins/redlock/node.c */
/* Does a holder keep its lock while the password of the nodes is changed? Real servers, and the
 * files that secrets are read from (SEC-1, C14). */
#include "redlock_kit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct dlt_nodes nodes;
static char path[80];

static void set_up(void)
{
    dlt_nodes_start(&nodes, 3, false);
    (void)snprintf(path, sizeof path, "%s/secret", nodes.servers[0].directory);
}

static void tear_down(void)
{
    dlt_nodes_stop(&nodes);
}

TestSuite(redlock_rotation, .init = set_up, .fini = tear_down, .timeout = 60);

static void passwords_set(const char *password)
{
    for (unsigned i = 0; i < nodes.count; i++)
        cr_assert_str_eq(dlt_redis_ask(&nodes.servers[i],
                                       "ACL SETUSER ann on resetpass >%s ~* &* +@all", password),
                         "OK");
}

static void connections_kill(void)
{
    for (unsigned i = 0; i < nodes.count; i++)
        (void)dlt_redis_ask(&nodes.servers[i], "CLIENT KILL USER ann");
}

/* A new file takes the place of the old one. */
static void file_write(const char *text)
{
    char fresh[96];
    FILE *file = NULL;

    (void)snprintf(fresh, sizeof fresh, "%s.new", path);
    (void)umask(077);
    file = fopen(fresh, "w");
    cr_assert_not_null(file);
    cr_assert_geq(fprintf(file, "%s\n", text), 0);
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(rename(fresh, path), 0);
}

/* The password of each node in its line of node=. */
static void uri_write(const char *password)
{
    char uri[600];

    (void)snprintf(uri, sizeof uri,
                   "redlock:?restart_guard=0&ttl=2s"
                   "&node=redis%%3A%%2F%%2Fann%%3A%s%%40127.0.0.1%%3A%u"
                   "&node=redis%%3A%%2F%%2Fann%%3A%s%%40127.0.0.1%%3A%u"
                   "&node=redis%%3A%%2F%%2Fann%%3A%s%%40127.0.0.1%%3A%u",
                   password, nodes.servers[0].port, password, nodes.servers[1].port, password,
                   nodes.servers[2].port);
    file_write(uri);
}

/* It is renewed for longer than a ttl. */
static void expect_kept(const struct dlock_handle *lock)
{
    for (int64_t end_ms = dlt_now_ms() + 2 * DLT_TTL_MS; dlt_now_ms() < end_ms;) {
        cr_assert_gt(dlock_remaining_ms(lock), 0);
        dlt_sleep_ms(50);
    }
}

static void *wait_for_it(void *arg)
{
    static enum dlock_status status;
    struct dlock_error err = DLOCK_ERROR_INIT;

    status = dlock_timedlock(arg, 30000, &err);
    return &status;
}

static unsigned subscribers(unsigned node)
{
    return strstr(dlt_redis_ask(&nodes.servers[node], "CLIENT LIST TYPE pubsub"), "user=ann") !=
           NULL;
}

/* By pass_file; a waiter's subscriptions are made anew, too. */
Test(redlock_rotation, SEC_1_a_password_is_changed_under_a_holder)
{
    struct dlock_client *client = NULL, *other = NULL;
    struct dlock_handle *lock = NULL, *waiter = NULL;
    pthread_t thread;
    void *status = NULL;
    char uri[300];

    passwords_set("before");
    file_write("before");
    (void)snprintf(uri, sizeof uri, "redlock://ann@%s,%s,%s?restart_guard=0&pass_file=%s",
                   nodes.servers[0].address, nodes.servers[1].address, nodes.servers[2].address,
                   path);
    OK(dlock_client_open(uri, NULL, &client, &dlt_err));
    OK(dlock_client_open(uri, NULL, &other, &dlt_err));
    lock = dlt_lock(client, "x", true);
    waiter = dlt_lock(other, "x", false);
    OK(dlock_trylock(lock, &dlt_err));
    cr_assert_eq(pthread_create(&thread, NULL, wait_for_it, waiter), 0);
    while (subscribers(0) + subscribers(1) + subscribers(2) < 2)
        dlt_sleep_ms(20);
    passwords_set("after");
    file_write("after");
    connections_kill();
    expect_kept(lock);
    while (subscribers(0) + subscribers(1) + subscribers(2) < 2)
        dlt_sleep_ms(20);
    OK(dlock_unlock(lock, &dlt_err));
    cr_assert_eq(pthread_join(thread, &status), 0);
    cr_expect_eq(*(enum dlock_status *)status, DLOCK_OK);
    dlock_free(lock);
    dlock_free(waiter);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* In node=, of a URI that is in a file. */
Test(redlock_rotation, SEC_1_the_passwords_of_nodes_are_changed_under_a_holder)
{
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;
    char uri[100];

    passwords_set("before");
    uri_write("before");
    (void)snprintf(uri, sizeof uri, "@%s", path);
    OK(dlock_client_open(uri, NULL, &client, &dlt_err));
    lock = dlt_lock(client, "x", true);
    OK(dlock_trylock(lock, &dlt_err));
    passwords_set("after");
    uri_write("after");
    connections_kill();
    expect_kept(lock);
    OK(dlock_unlock(lock, &dlt_err));
    dlock_free(lock);
    dlock_client_close(client);
}
