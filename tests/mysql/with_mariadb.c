/* SPDX-License-Identifier: MIT */
/*
 * with_mariadb [SERVER-ARGUMENT...] -- COMMAND [ARGUMENT...]
 *
 * Runs COMMAND beside a mariadbd of its own and ends with its status. {port}, {socket}
 * and {dir} in the arguments stand for what the server got.
 */
#include "maria_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct word {
    const char *name, *value;
};

/* The text with the first of the words in it replaced, until there is none. */
static char *expand(const char *text, const struct word *words)
{
    char *out = strdup(text);

    if (out == NULL)
        abort();
    for (; words->name != NULL; words++) {
        char *at = NULL;

        while ((at = strstr(out, words->name)) != NULL) {
            char *longer = NULL;

            if (asprintf(&longer, "%.*s%s%s", (int)(at - out), out, words->value,
                         at + strlen(words->name)) < 0 ||
                longer == NULL)
                abort();
            free(out);
            out = longer;
        }
    }
    return out;
}

static int run(char **argv, const struct word *words)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        argv[0] = expand(argv[0], words);
        for (size_t i = 1; argv[i] != NULL; i++)
            argv[i] = expand(argv[i], words);
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
    struct dlt_maria server;
    const char *args[DLT_MARIA_ARGS_MAX] = {0};
    char port[16];
    int at = 1, status = 0, count = 0;

    for (; at < argc && strcmp(argv[at], "--") != 0 && count + 1 < DLT_MARIA_ARGS_MAX; at++)
        args[count++] = argv[at];
    if (at + 1 >= argc) {
        (void)fputs("usage: with_mariadb [ARGUMENT...] -- COMMAND...\n", stderr);
        return 64;
    }
    if (!dlt_maria_start(&server, args)) {
        (void)fprintf(stderr, "with_mariadb: %s\n", server.why);
        dlt_maria_stop(&server);
        return 69;
    }
    (void)snprintf(port, sizeof port, "%u", server.port);
    (void)setenv("DLT_MARIA_PORT", port, 1);
    (void)setenv("DLT_MARIA_DIRECTORY", server.directory, 1);
    status = run(argv + at + 1, (const struct word[]){{"{port}", port},
                                                      {"{socket}", server.socket},
                                                      {"{dir}", server.directory},
                                                      {NULL, NULL}});
    dlt_maria_stop(&server);
    return status;
}
