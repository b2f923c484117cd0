/* SPDX-License-Identifier: MIT */
/*
 * with_redis [--tls] [SERVER-ARGUMENT...] -- COMMAND [ARGUMENT...]
 *
 * Runs COMMAND beside a redis-server of its own and ends with its status. {port}, {tls}, {socket}
 * and {dir} in the arguments stand for what the server got.
 */
#include "redis_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct word {
    const char *name, *value;
};

/* The text with each of the words in it replaced; not freed, the command begins soon. */
static const char *expand(const char *text, const struct word *words)
{
    for (; words->name != NULL; words++) {
        for (const char *at = strstr(text, words->name); at != NULL;
             at = strstr(text, words->name)) {
            char *longer = NULL;

            if (asprintf(&longer, "%.*s%s%s", (int)(at - text), text, words->value,
                         at + strlen(words->name)) < 0 ||
                longer == NULL)
                _exit(71);
            text = longer;
        }
    }
    return text;
}

static int run(char **argv, const struct word *words)
{
    pid_t pid = argv[0] != NULL ? fork() : -1;
    int status = 0;

    if (pid == 0) {
        for (size_t i = 0; argv[i] != NULL; i++)
            argv[i] = (char *)expand(argv[i], words);
        (void)execvp(argv[0], argv);
        perror(argv[0]);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 126;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    struct dlt_redis server;
    const char *args[DLT_REDIS_ARGS_MAX] = {0};
    char port[16], tls_port[16];
    int at = 1, status = 0, count = 0;
    bool tls = argc > 1 && strcmp(argv[1], "--tls") == 0;

    for (at += tls; at < argc && strcmp(argv[at], "--") != 0 && count + 1 < DLT_REDIS_ARGS_MAX;
         at++)
        args[count++] = argv[at];
    if (at + 1 >= argc) {
        (void)fputs("usage: with_redis [--tls] [ARGUMENT...] -- COMMAND...\n", stderr);
        return 64;
    }
    if (!(tls ? dlt_redis_start_tls(&server, "server", "optional")
              : dlt_redis_start(&server, args))) {
        (void)fprintf(stderr, "with_redis: %s\n", server.why);
        return 69;
    }
    (void)snprintf(port, sizeof port, "%u", server.port);
    (void)snprintf(tls_port, sizeof tls_port, "%u", server.tls_port);
    status = run(argv + at + 1, (const struct word[]){{"{port}", port},
                                                      {"{tls}", tls_port},
                                                      {"{socket}", server.socket},
                                                      {"{dir}", server.directory},
                                                      {NULL, NULL}});
    dlt_redis_stop(&server);
    return status;
}
