/* SPDX-License-Identifier: MIT */
/* etcd_ask.c - what a test asks its members: their metrics, and etcdctl. */
#include "etcd_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_S       2 /* of a member that runs */
#define LEADER_WAIT_MS 10000
#define METRICS_MAX    ((size_t)256 << 10)

static int metrics_connect(const struct dlt_etcd_member *member)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)member->metrics_port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = ANSWER_S};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

/* GET path; the answer is to be freed. NULL: none. */
static char *page_get(const struct dlt_etcd_member *member, const char *path)
{
    char request[64], *page = malloc(METRICS_MAX + 1);
    int fd = page != NULL ? metrics_connect(member) : -1;
    size_t len = 0;
    ssize_t got = 1;

    (void)snprintf(request, sizeof request, "GET %s HTTP/1.0\r\n\r\n", path);
    if (fd < 0 || send(fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request))
        got = 0;
    while (got > 0 && len < METRICS_MAX) {
        do /* a stop ends a recv that has a time limit */
            got = recv(fd, page + len, METRICS_MAX - len, 0);
        while (got < 0 && errno == EINTR);
        len += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    if (len == 0) {
        free(page);
        return NULL;
    }
    page[len] = '\0';
    return page;
}

bool dlt_etcd_healthy(const struct dlt_etcd_member *member)
{
    char *page = page_get(member, "/health");
    /* etcd 3.5 has a reason behind it. */
    bool good = page != NULL && strstr(page, "{\"health\":\"true\"") != NULL;

    free(page);
    return good;
}

double dlt_etcd_metric(const struct dlt_etcd *server, unsigned member, const char *name)
{
    char *page = page_get(&server->members[member], "/metrics");
    size_t len = strlen(name);
    double sum = 0;

    if (page == NULL)
        return -1;
    for (const char *line = page; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && (line[len] == ' ' || line[len] == '{'))
            sum += strtod(line + len + strcspn(line + len, " "), NULL);
    }
    free(page);
    return sum;
}

int dlt_etcd_leader(const struct dlt_etcd *server)
{
    for (unsigned i = 0; i < server->count; i++)
        if (!server->members[i].paused && dlt_etcd_metric(server, i, "etcd_server_is_leader") == 1)
            return (int)i;
    return -1;
}

static void sleep_ms(int ms)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * INT64_C(1000000)}, NULL);
}

int dlt_etcd_leader_wait(const struct dlt_etcd *server)
{
    int leader = dlt_etcd_leader(server);

    for (int ms = 0; leader < 0 && ms < LEADER_WAIT_MS; ms += 10) {
        sleep_ms(10);
        leader = dlt_etcd_leader(server);
    }
    return leader;
}

/* ---- etcdctl ---- */

static void endpoints_make(const struct dlt_etcd *server, char *text, size_t size)
{
    char url[DLT_ETCD_URL_SIZE];
    size_t used = 0;

    for (unsigned i = 0; i < server->count; i++) {
        const struct dlt_etcd_member *member = &server->members[i];

        if ((member->pid <= 0 && !server->borrowed) || member->paused)
            continue;
        dlt_etcd_url(url, server, member->port);
        used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? "," : "", url);
    }
}

/* True: etcdctl said it with status 0. */
static bool question(const struct dlt_etcd *server, const char *words, char *answer, size_t size)
{
    char endpoints[DLT_ETCD_MEMBERS_MAX * DLT_ETCD_URL_SIZE] = "", tls[320] = "", command[4096];
    FILE *pipe = NULL;
    size_t len = 0;

    endpoints_make(server, endpoints, sizeof endpoints);
    if (server->certificate != NULL)
        (void)snprintf(tls, sizeof tls,
                       "--cacert %s/ca.pem --cert %s/client.pem --key %s/client.key",
                       server->directory, server->directory, server->directory);
    (void)snprintf(command, sizeof command,
                   "env -u LD_PRELOAD ETCDCTL_API=3 etcdctl --endpoints=%s %s %s %s 2>&1",
                   endpoints, tls, server->auth ? "--user root:root" : "", words);
    pipe = popen(command, "re");
    if (pipe != NULL)
        len = fread(answer, 1, size - 1, pipe);
    while (len > 0 && answer[len - 1] == '\n')
        len--;
    answer[len] = '\0';
    return pipe != NULL && pclose(pipe) == 0;
}

const char *dlt_etcd_ask(const struct dlt_etcd *server, const char *format, ...)
{
    static _Thread_local char answer[16384];
    char words[2048];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(words, sizeof words, format, args);
    va_end(args);
    (void)question(server, words, answer, sizeof answer);
    return answer;
}

bool dlt_etcd_auth(struct dlt_etcd *server, const char *prefix)
{
    char grant[160];
    const char *const steps[] = {"user add root:root",
                                 "user grant-role root root",
                                 "role add keys",
                                 grant,
                                 "user add u:secret",
                                 "user grant-role u keys",
                                 "user add client --no-password",
                                 "user grant-role client keys",
                                 "auth enable"};

    (void)snprintf(grant, sizeof grant, "role grant-permission --prefix=true keys readwrite '%s'",
                   prefix);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        char answer[512];

        if (!question(server, steps[i], answer, sizeof answer)) {
            (void)snprintf(server->why, sizeof server->why, "etcdctl %s: %s", steps[i], answer);
            return false;
        }
    }
    server->auth = true;
    return true;
}
