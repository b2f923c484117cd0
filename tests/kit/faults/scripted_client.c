/* SPDX-License-Identifier: MIT */
#include "scripted_client.h"
#include "child.h"
#include "escape.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

bool dlt_scripted_start(struct dlt_scripted *server, const char *script)
{
    char *argv[] = {(char[]){DLT_SCRIPTED}, NULL};
    static const char greeting[] = "listening 127.0.0.1:";
    size_t len = strlen(script);
    const char *end = len == 0 || script[len - 1] == '\n' ? ".\n" : "\n.\n";
    uint64_t port = 0;

    memset(server, 0, sizeof *server);
    server->fd = -1;
    server->pid = dlt_tool_start(argv, &server->fd);
    if (server->pid < 0) {
        server->pid = 0;
        (void)snprintf(server->report, sizeof server->report, "%s: %s", DLT_SCRIPTED,
                       strerror(errno));
        return false;
    }
    /* A script that is refused may not be read to its end. */
    (void)(dlt_write_all(server->fd, script, len) && dlt_write_all(server->fd, end, strlen(end)));
    if (dlt_line_read(server->fd, server->report, sizeof server->report) &&
        strncmp(server->report, greeting, strlen(greeting)) == 0 &&
        dlt_number_parse(server->report + strlen(greeting), 65535, &port)) {
        server->port = (unsigned)port;
        (void)snprintf(server->address, sizeof server->address, "127.0.0.1:%u", server->port);
        server->report[0] = '\0';
        return true;
    }
    (void)close(server->fd);
    server->fd = -1;
    (void)waitpid(server->pid, NULL, 0);
    server->pid = 0;
    return false;
}

bool dlt_scripted_finish(struct dlt_scripted *server, int timeout_ms)
{
    struct pollfd wait = {.fd = server->fd, .events = POLLIN};
    char line[1024];
    size_t used = 0;
    int status = -1;

    if (server->pid == 0)
        return false;
    /* The first word since it began to listen is a mismatch or "done". */
    (void)poll(&wait, 1, timeout_ms);
    (void)shutdown(server->fd, SHUT_WR);
    while (dlt_line_read(server->fd, line, sizeof line) && strcmp(line, "done") != 0) {
        int wrote = snprintf(server->report + used, sizeof server->report - used, "%s\n", line);

        used += wrote > 0 ? (size_t)wrote : 0;
        if (used >= sizeof server->report)
            used = sizeof server->report - 1;
    }
    (void)close(server->fd);
    server->fd = -1;
    while (waitpid(server->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    server->pid = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
