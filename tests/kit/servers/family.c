/* SPDX-License-Identifier: MIT */
/* family.c - a server whose children are processes of their own, each with a group of its own. */
#include "process.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHILDREN_MAX 1024
#define SETTLE_MS    5000

char dlt_process_state(pid_t pid, pid_t *parent)
{
    char path[32], text[256];
    const char *end = NULL; /* of the name, which may hold anything */
    FILE *file = NULL;
    char state = 'X';
    int ppid = 0;
    size_t got = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return state;
    got = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[got] = '\0';
    end = strrchr(text, ')');
    if (end == NULL || sscanf(end + 1, " %c %d", &state, &ppid) != 2)
        return 'X';
    *parent = ppid;
    return state;
}

size_t dlt_process_children(pid_t pid, pid_t *children, size_t most)
{
    size_t count = 0;
    DIR *dir = opendir("/proc");
    const struct dirent *entry = NULL;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        pid_t child = isdigit((unsigned char)entry->d_name[0])
                          ? (pid_t)strtol(entry->d_name, NULL, 10)
                          : 0,
              parent = 0;

        if (child > 0 && dlt_process_state(child, &parent) != 'X' && parent == pid && count < most)
            children[count++] = child;
    }
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

/* Waits until each of them has a state out of `states`. */
static void settle(const pid_t *children, size_t count, const char *states)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    pid_t parent = 0;
    int ms = 0;

    for (size_t i = 0; i < count; i++)
        for (; ms < SETTLE_MS && strchr(states, dlt_process_state(children[i], &parent)) == NULL;
             ms++)
            (void)nanosleep(&pause, NULL);
}

static void signal_send(const pid_t *children, size_t count, int number)
{
    for (size_t i = 0; i < count; i++)
        (void)kill(children[i], number);
}

void dlt_process_pause_family(pid_t pid, bool pause)
{
    pid_t children[CHILDREN_MAX];
    size_t count = 0;

    if (pid <= 0)
        return;
    if (pause) { /* first the one that could make more of them; it may stand still already */
        (void)kill(pid, SIGSTOP);
        settle(&pid, 1, "TtZX");
    }
    count = dlt_process_children(pid, children, CHILDREN_MAX);
    signal_send(children, count, pause ? SIGSTOP : SIGCONT);
    if (pause)
        settle(children, count, "TtZX");
    else
        (void)kill(pid, SIGCONT);
}

void dlt_process_kill_family(pid_t *pid)
{
    pid_t children[CHILDREN_MAX];
    size_t count = 0;

    if (*pid <= 0)
        return;
    dlt_process_pause_family(*pid, true);
    count = dlt_process_children(*pid, children, CHILDREN_MAX);
    signal_send(children, count, SIGKILL);
    dlt_process_kill(pid);
    settle(children, count, "ZX");
}
