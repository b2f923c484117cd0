/* SPDX-License-Identifier: MIT */
#include "peer_kit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Found once: after a mount in a mount namespace of its own the link may lead out of the root. */
static const char *peer_path(void)
{
    static char path[512];
    char self[400] = "";
    ssize_t n = path[0] == '\0' ? readlink("/proc/self/exe", self, sizeof self - 1) : 0;
    char *slash = n > 0 ? strrchr(self, '/') : NULL;

    if (path[0] != '\0')
        return path;
    if (slash == NULL)
        abort();
    *slash = '\0';
    (void)snprintf(path, sizeof path, "%s/sqlite_peer", self);
    return path;
}

static void child_exec(const char *wrapper, const char *path)
{
    char command[1024];

    if (wrapper == NULL) {
        (void)execl(path, path, (char *)NULL);
    } else {
        (void)snprintf(command, sizeof command, "exec %s %s", wrapper, path);
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    }
    _exit(127);
}

void dlt_peer_start(struct dlt_peer *peer, const char *wrapper)
{
    const char *path = peer_path();
    int in[2], out[2];

    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        abort();
    peer->pid = fork();
    if (peer->pid < 0)
        abort();
    if (peer->pid == 0) {
        (void)dup2(in[0], 0);
        (void)dup2(out[1], 1);
        child_exec(wrapper, path);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    peer->to = fdopen(in[1], "w");
    peer->from = fdopen(out[0], "r");
    if (peer->to == NULL || peer->from == NULL)
        abort();
}

void dlt_peer_kill(struct dlt_peer *peer)
{
    if (peer->pid <= 0)
        return;
    (void)kill(peer->pid, SIGKILL);
    (void)waitpid(peer->pid, NULL, 0);
    (void)fclose(peer->to);
    (void)fclose(peer->from);
    peer->pid = 0;
}

__attribute__((format(printf, 2, 0))) static void say(struct dlt_peer *peer, const char *format,
                                                      va_list args)
{
    (void)vfprintf(peer->to, format, args);
    (void)fputc('\n', peer->to);
    (void)fflush(peer->to);
}

void dlt_peer_say(struct dlt_peer *peer, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(peer, format, args);
    va_end(args);
}

static enum dlock_status status_of(const char *name)
{
#define STATUS_NAMED(id, value, class_, text) \
    if (strcmp(name, #id) == 0)               \
        return DLOCK_##id;
    DLOCK_STATUS_MAP(STATUS_NAMED)
#undef STATUS_NAMED
    return DLOCK_PROTOCOL;
}

struct dlt_answer dlt_peer_hear(struct dlt_peer *peer)
{
    struct dlt_answer answer = {.status = DLOCK_PROTOCOL};
    char line[1024], *rest = NULL, *end = NULL;

    if (fgets(line, sizeof line, peer->from) == NULL)
        return answer;
    line[strcspn(line, "\n")] = '\0';
    rest = line + strcspn(line, " ");
    answer.fence = strtoull(rest, &end, 10);
    answer.lease_ms = strtoll(end, &end, 10);
    answer.holder_ms = strtoll(end, &end, 10);
    answer.queued = (int)strtol(end, &end, 10);
    (void)snprintf(answer.message, sizeof answer.message, "%.255s", end + (*end == ' '));
    *rest = '\0';
    answer.status = status_of(line);
    return answer;
}

struct dlt_answer dlt_peer_ask(struct dlt_peer *peer, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(peer, format, args);
    va_end(args);
    return dlt_peer_hear(peer);
}

int dlt_peer_answers(struct dlt_peer *peer, int timeout_ms)
{
    struct pollfd fd = {.fd = fileno(peer->from), .events = POLLIN};

    return poll(&fd, 1, timeout_ms) > 0;
}
