/* SPDX-License-Identifier: MIT */
#include "proc_stat.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STAT_SIZE 1024

/* A zombie whose other threads run on has not ended: its main thread has. */
static bool has_ended(char state, long threads)
{
    return state == 'X' || state == 'x' || (state == 'Z' && threads <= 1);
}

/* The name is in parentheses, and may have any byte. */
static bool stat_parse(const char *text, struct proc_stat *out)
{
    const char *name = strchr(text, '(');
    const char *rest = strrchr(text, ')');
    long threads = 0;

    if (name == NULL || rest == NULL || rest < name ||
        sscanf(rest + 1,
               " %c %d %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld %*s %llu",
               &out->state, &out->parent, &out->group, &threads, &out->start_ticks) != 5)
        return false;
    (void)snprintf(out->program, sizeof out->program, "%.*s", (int)(rest - name - 1), name + 1);
    return !has_ended(out->state, threads);
}

bool proc_stat_read(pid_t pid, struct proc_stat *out)
{
    char path[32], text[STAT_SIZE];
    ssize_t len = 0;
    int fd = -1;

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    len = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (len <= 0)
        return false;
    text[len] = '\0';
    *out = (struct proc_stat){.pid = pid};
    return stat_parse(text, out);
}
