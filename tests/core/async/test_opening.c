/* SPDX-License-Identifier: MIT */
/* Tests: core/async/driver.c core/api/client.c */
/* Does dlock_client_open_start return before its server has answered, and say so later? (C19) */
#include "notices.h"
#include "tap.h"

#include <arpa/inet.h>
#include <dlock/dlock.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT "connect_timeout=2s"
#define LONG_MS 60000

/* A server that takes connections and says nothing. */
static int silent_server(char *uri, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, 16) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        abort();
    (void)snprintf(uri, size, "redis://127.0.0.1:%d?restart_guard=0&" CONNECT,
                   ntohs(address.sin_port));
    return fd;
}

/* The next notice; its kind, or 0: none came. */
static int next(struct dlock_client *client, struct dlock_notice *notice, struct dlock_error *err)
{
    struct pollfd fd = {.fd = dlock_client_fd(client), .events = POLLIN};

    *notice = (struct dlock_notice){.struct_size = sizeof *notice};
    if (poll(&fd, 1, LONG_MS) != 1 || dlt_notice_take(client, notice, err) != 1)
        return 0;
    return (int)notice->kind;
}

static void says_later_that_the_server_is_silent(const char *uri)
{
    struct dlock_notice notice = {.struct_size = sizeof notice};
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;
    enum dlock_status status = dlock_client_open_start(uri, NULL, &client, &err);

    (void)dlt_ok(status == DLOCK_OK && client != NULL, "it begins: %s",
                 dlock_status_name((int)status));
    if (client == NULL)
        return;
    (void)dlt_ok(dlt_notice_take(client, &notice, &err) == 0,
                 "it has returned before the server answered");
    status = dlock_new(client, "x", 1, NULL, &lock, &err);
    (void)dlt_ok(status == DLOCK_OK, "a handle can be made meanwhile: %s", err.message);
    (void)dlt_ok(next(client, &notice, &err) == DLOCK_NOTICE_OPENED, "OPENED comes");
    (void)dlt_ok(notice.status == DLOCK_UNAVAILABLE && notice.lock == NULL, "it is UNAVAILABLE: %s",
                 dlock_status_name((int)notice.status));
    (void)dlt_ok(strstr(notice.error.message, "127.0.0.1") != NULL, "its text names the server: %s",
                 notice.error.message);
    status = dlock_op_start(lock, DLOCK_OP_LOCK, 0, &err);
    (void)dlt_ok(status == DLOCK_OK && next(client, &notice, &err) == DLOCK_NOTICE_DONE &&
                     notice.status == DLOCK_UNAVAILABLE,
                 "an operation tries to connect by itself: %s",
                 dlock_status_name((int)notice.status));
    dlock_free(lock);
    dlock_client_close(client);
}

static void close_waits_for_the_end(const char *uri)
{
    struct dlock_client *client = NULL;

    if (dlock_client_open_start(uri, NULL, &client, NULL) != DLOCK_OK)
        abort();
    dlock_client_close(client);
    (void)dlt_ok(true, "a client is closed while it is opened");
}

static void lazy_is_opened_at_once(const char *uri)
{
    struct dlock_notice notice = {.struct_size = sizeof notice};
    struct dlock_client *client = NULL;
    char lazy[256];

    (void)snprintf(lazy, sizeof lazy, "%s&open=lazy", uri);
    if (dlock_client_open_start(lazy, NULL, &client, NULL) != DLOCK_OK)
        abort();
    (void)dlt_ok(next(client, &notice, NULL) == DLOCK_NOTICE_OPENED && notice.status == DLOCK_OK,
                 "with open=lazy nothing connects: %s", dlock_status_name((int)notice.status));
    dlock_client_close(client);
}

int main(void)
{
    char uri[128];
    int server = silent_server(uri, sizeof uri);

    says_later_that_the_server_is_silent(uri);
    close_waits_for_the_end(uri);
    lazy_is_opened_at_once(uri);
    (void)close(server);
    return dlt_done();
}
