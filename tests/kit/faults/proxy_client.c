/* SPDX-License-Identifier: MIT */
#include "proxy_client.h"
#include "address.h"
#include "child.h"
#include "escape.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool fail(struct dlt_proxy *proxy, const char *what)
{
    (void)snprintf(proxy->answer, sizeof proxy->answer, "error %s: %s", what, strerror(errno));
    return false;
}

/* posix_spawn does not write what its strings say. */
static char *plain(const char *text)
{
    return (char *)(uintptr_t)text;
}

#ifndef DLT_FAULTPROXY /* in a program that is installed: the caller knows where it is */
#define DLT_FAULTPROXY "dlock-faultproxy"
#endif

bool dlt_proxy_start(struct dlt_proxy *proxy, const char *server, const char *framing,
                     const struct dlt_proxy_options *options)
{
    const char *listen = options != NULL ? options->address : NULL;
    const char *control = options != NULL ? options->control : NULL;
    const char *program =
        options != NULL && options->program != NULL ? options->program : DLT_FAULTPROXY;
    char patience[16];
    char *argv[] = {plain(program),
                    plain("--to"),
                    plain(server),
                    plain("--framing"),
                    plain(framing),
                    plain("--listen"),
                    plain(listen != NULL ? listen : "127.0.0.1:0"),
                    plain("--patience"),
                    patience,
                    control != NULL ? plain("--control") : NULL,
                    plain(control),
                    NULL};
    static const char greeting[] = "listening ";
    const char *colon;
    uint64_t port = 0;

    (void)snprintf(patience, sizeof patience, "%u", options != NULL ? options->patience_ms : 0);
    memset(proxy, 0, sizeof *proxy);
    proxy->fd = -1;
    proxy->pid = dlt_tool_start(argv, &proxy->fd);
    if (proxy->pid < 0) {
        proxy->pid = 0;
        return fail(proxy, program);
    }
    if (!dlt_line_read(proxy->fd, proxy->answer, sizeof proxy->answer) ||
        strncmp(proxy->answer, greeting, strlen(greeting)) != 0) {
        (void)dlt_proxy_stop(proxy);
        return fail(proxy, "the proxy did not start");
    }
    (void)snprintf(proxy->address, sizeof proxy->address, "%.*s", (int)sizeof proxy->address - 1,
                   proxy->answer + strlen(greeting));
    colon = strrchr(proxy->address, ':');
    if (proxy->address[0] != '/' && colon != NULL && dlt_number_parse(colon + 1, 65535, &port))
        proxy->port = (unsigned)port;
    return true;
}

bool dlt_proxy_attach(struct dlt_proxy *proxy, const char *control)
{
    struct dlt_address address;

    memset(proxy, 0, sizeof *proxy);
    proxy->fd = -1;
    if (!dlt_address_parse(control, &address) || !dlt_address_is_path(&address)) {
        errno = EINVAL;
        return fail(proxy, control);
    }
    proxy->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (proxy->fd >= 0 && connect(proxy->fd, &address.of.any, address.len) == 0)
        return true;
    (void)fail(proxy, control);
    (void)dlt_proxy_stop(proxy);
    return false;
}

bool dlt_proxy_tell(struct dlt_proxy *proxy, const char *format, ...)
{
    char line[1024];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    errno = EMSGSIZE;
    if (len < 0 || len >= (int)sizeof line - 1)
        return fail(proxy, "line");
    line[len] = '\n';
    if (!dlt_write_all(proxy->fd, line, (size_t)len + 1))
        return fail(proxy, "control channel");
    errno = ECONNRESET;
    if (!dlt_line_read(proxy->fd, proxy->answer, sizeof proxy->answer))
        return fail(proxy, "control channel");
    return strcmp(proxy->answer, "ok") == 0 || strncmp(proxy->answer, "ok ", 3) == 0;
}

int64_t dlt_proxy_count(struct dlt_proxy *proxy, uint64_t link, const char *counter)
{
    size_t len = strlen(counter);
    bool told = link == 0 ? dlt_proxy_tell(proxy, "stats")
                          : dlt_proxy_tell(proxy, "stats conn=%llu", (unsigned long long)link);
    struct dlt_words words;

    if (!told || dlt_words_split(proxy->answer, &words) != NULL)
        return -1;
    for (size_t i = 1; i < words.count; i++) {
        uint64_t value = 0;

        if (words.len[i] > len && words.at[i][len] == '=' &&
            memcmp(words.at[i], counter, len) == 0 &&
            dlt_number_parse(words.at[i] + len + 1, INT64_MAX, &value))
            return (int64_t)value;
    }
    return -1;
}

bool dlt_proxy_stop(struct dlt_proxy *proxy)
{
    int saved = errno, status = 0;

    if (proxy->fd >= 0)
        (void)close(proxy->fd);
    proxy->fd = -1;
    while (proxy->pid > 0 && waitpid(proxy->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    proxy->pid = 0;
    errno = saved;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
