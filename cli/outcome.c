/* SPDX-License-Identifier: MIT */
#include "outcome.h"
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Above the standard streams, which the command needs unchanged. */
#define FD_LEAST 3

static int fd_add(struct outcome *outcome, int fd)
{
    if (fd < 0)
        return errno;
    if (outcome->count == OUTCOME_FILES) {
        (void)close(fd);
        return EMFILE;
    }
    outcome->fds[outcome->count++] = fd;
    return 0;
}

int outcome_add_fd(struct outcome *outcome, int n)
{
    int flags = fcntl(n, F_GETFL);

    if (flags < 0)
        return errno;
    if ((flags & O_ACCMODE) == O_RDONLY)
        return EBADF;
    if (n >= FD_LEAST && fcntl(n, F_SETFD, FD_CLOEXEC) < 0)
        return errno;
    return fd_add(outcome, fcntl(n, F_DUPFD_CLOEXEC, FD_LEAST));
}

int outcome_add_file(struct outcome *outcome, const char *path)
{
    return fd_add(outcome,
                  open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666));
}

static char *line_json(const char *event, json_t *fields)
{
    json_t *line = json_pack("{s:s}", "event", event);
    char *text = NULL;

    if (fields == NULL || json_object_update(line, fields) == 0)
        text = json_dumps(line, JSON_COMPACT);
    json_decref(line);
    return text;
}

static char *line_text(const char *event, json_t *fields)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    const char *name;
    json_t *value;

    if (out == NULL)
        return NULL;
    (void)fputs(event, out);
    json_object_foreach(fields, name, value)
    {
        if (json_is_integer(value))
            (void)fprintf(out, " %s=%" JSON_INTEGER_FORMAT, name, json_integer_value(value));
        else
            (void)fprintf(out, " %s=%s", name,
                          json_is_string(value) ? json_string_value(value) : "-");
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* One write a line: a reader never gets half of a line. */
void outcome_write(struct outcome *outcome, const char *event, json_t *fields)
{
    char *text = NULL;
    size_t len;

    if (outcome->count > 0)
        text = outcome->json ? line_json(event, fields) : line_text(event, fields);
    json_decref(fields);
    if (text == NULL)
        return;
    len = strlen(text);
    text[len] = '\n';
    for (int i = 0; i < outcome->count; i++) {
        int error = cli_output_write(outcome->fds[i], text, len + 1, true);

        if (outcome->error == 0 && error != EPIPE) /* EPIPE: there is no reader */
            outcome->error = error;
    }
    free(text);
}

void outcome_fini(struct outcome *outcome)
{
    while (outcome->count > 0)
        (void)close(outcome->fds[--outcome->count]);
}

#define KEY_SIZE 24

static void key_make(char key[KEY_SIZE], const char *field, int index)
{
    if (index < 0)
        (void)snprintf(key, KEY_SIZE, "%s", field);
    else
        (void)snprintf(key, KEY_SIZE, "%s_%d", field, index);
}

void outcome_acquired(const struct cli *cli, struct outcome *outcome, const char *server,
                      const struct environment_lock *locks, size_t count)
{
    json_t *fields = json_object();
    char key[KEY_SIZE];

    cli_output_say(cli, "server %s", server);
    for (size_t i = 0; i < count; i++) {
        const char *name = cli_output_printable(locks[i].name, locks[i].name_len);
        uint64_t fence = locks[i].fence;
        int at = count > 1 ? (int)i : -1;

        if (fence != 0)
            cli_output_say(cli, "%s: acquired, fence %" PRIu64 ", token %s", name, fence,
                           locks[i].token);
        else
            cli_output_say(cli, "%s: acquired, token %s; this store gives no fencing tokens", name,
                           locks[i].token);
        key_make(key, "fence", at);
        (void)json_object_set_new(fields, key, cli_output_json_number(fence, fence != 0));
        key_make(key, "token", at);
        (void)json_object_set_new(fields, key, json_string(locks[i].token));
    }
    outcome_write(outcome, "acquired", fields);
}
