/* SPDX-License-Identifier: MIT */
#include "process.h"

#include "lib/time.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAT_SIZE 1024
/* Clocks of stores step; a process that is younger than its lease by more is another one. */
#define YOUNGER_NS (10 * DL_NS_PER_S)

struct stat_line {
    char state;
    long parent;
    unsigned long long start_ticks; /* since the boot */
    char program[16];
};

/* "host:pid" at the front of the label. */
static bool label_parse(struct process *process, const char *label)
{
    const char *colon = strchr(label, ':');
    size_t len = colon != NULL ? (size_t)(colon - label) : 0;
    char *end = NULL;

    if (len == 0 || len >= sizeof process->host || colon[1] < '0' || colon[1] > '9')
        return false;
    errno = 0;
    process->pid = strtol(colon + 1, &end, 10);
    if (errno != 0 || process->pid <= 0 || (*end != '\0' && *end != ':'))
        return false;
    memcpy(process->host, label, len);
    process->host[len] = '\0';
    return true;
}

/* False: there is no such process, or it is a zombie. The name is in parentheses, and may have any
 * byte. */
static bool stat_read(long pid, struct stat_line *line)
{
    char path[64], text[STAT_SIZE];
    const char *name = NULL, *rest = NULL;
    FILE *file = NULL;
    size_t len = 0;

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    len = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[len] = '\0';
    name = strchr(text, '(');
    rest = strrchr(text, ')');
    if (name == NULL || rest == NULL || rest < name ||
        sscanf(rest + 1,
               " %c %ld %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
               &line->state, &line->parent, &line->start_ticks) != 3)
        return false;
    (void)snprintf(line->program, sizeof line->program, "%.*s", (int)(rest - name - 1), name + 1);
    return strchr("ZX", line->state) == NULL;
}

/* The process began later than its lease. */
static bool is_younger(const struct stat_line *line, int64_t held_ms)
{
    const int64_t ticks = sysconf(_SC_CLK_TCK);
    const int64_t since_ns = dl_time_now_ns(CLOCK_BOOTTIME) - held_ms * DL_NS_PER_MS;

    if (held_ms < 0 || ticks <= 0)
        return false;
    return (int64_t)line->start_ticks * (DL_NS_PER_S / ticks) > since_ns + YOUNGER_NS;
}

static enum process_state state_of(struct process *process, int64_t held_ms)
{
    struct stat_line line;

    if (!stat_read(process->pid, &line)) {
        /* /proc may hide the processes of other users. */
        return kill((pid_t)process->pid, 0) != 0 && errno == EPERM ? PROCESS_RUNS : PROCESS_ENDED;
    }
    if (is_younger(&line, held_ms))
        return PROCESS_ENDED;
    memcpy(process->program, line.program, sizeof process->program);
    return strchr("Tt", line.state) != NULL ? PROCESS_STOPPED : PROCESS_RUNS;
}

void process_read(struct process *process, const char *label, int64_t held_ms)
{
    char host[PROCESS_HOST_SIZE] = "";

    *process = (struct process){.state = PROCESS_UNKNOWN};
    if (!label_parse(process, label)) {
        process->host[0] = '\0';
        process->pid = 0;
        return;
    }
    (void)gethostname(host, sizeof host - 1);
    process->state =
        strcmp(host, process->host) == 0 ? state_of(process, held_ms) : PROCESS_ELSEWHERE;
}

bool process_is_same(const struct process *a, const struct process *b)
{
    return a->pid > 0 && a->pid == b->pid && strcmp(a->host, b->host) == 0;
}

bool process_is_here(const struct process *process)
{
    return process->state == PROCESS_RUNS || process->state == PROCESS_STOPPED;
}

size_t process_parents(const struct process *process, long parents[PROCESS_PARENTS_MOST])
{
    struct stat_line line = {.parent = process->pid};
    size_t count = 0;

    while (process_is_here(process) && count < PROCESS_PARENTS_MOST &&
           stat_read(line.parent, &line) && line.parent > 1)
        parents[count++] = line.parent;
    return count;
}

const char *process_state_word(enum process_state state)
{
    static const char *const words[] = {
        [PROCESS_UNKNOWN] = "unknown", [PROCESS_ELSEWHERE] = "elsewhere", [PROCESS_RUNS] = "runs",
        [PROCESS_STOPPED] = "stopped", [PROCESS_ENDED] = "ended",
    };

    return words[state];
}
