/* SPDX-License-Identifier: MIT */
#include "process.h"
#include "lib/time.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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
        sscanf(rest + 1, /* NOLINT(cert-err34-c): numbers of the kernel, which fit */
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

/* Clocks of stores step; a process that is younger than its lease by more is another one. */
#define YOUNGER_NS (10 * DL_NS_PER_S)

/* "@space" behind the number. */
static bool space_parse(struct process *process, char **at)
{
    size_t len;

    if (**at != '@')
        return true;
    len = strspn(*at + 1, "0123456789abcdef");
    if (len != DL_PID_SPACE_SIZE - 1)
        return false;
    memcpy(process->space, *at + 1, len);
    *at += 1 + len;
    return true;
}

/* "host:pid" or "host:pid@space" at the front of the label. */
static bool label_parse(struct process *process, const char *label)
{
    const char *colon = strchr(label, ':');
    size_t len = colon != NULL ? (size_t)(colon - label) : 0;
    char *end = NULL;

    if (len == 0 || len >= sizeof process->host || colon[1] < '0' || colon[1] > '9')
        return false;
    errno = 0;
    process->pid = strtol(colon + 1, &end, 10);
    if (errno != 0 || process->pid <= 0 || !space_parse(process, &end) ||
        (*end != '\0' && *end != ':'))
        return false;
    memcpy(process->host, label, len);
    process->host[len] = '\0';
    return true;
}

/* The process began later than its lease. */
static bool is_younger(const struct proc_stat *stat, int64_t held_ms)
{
    const int64_t ticks = sysconf(_SC_CLK_TCK);
    const int64_t since_ns = dl_time_now_ns(CLOCK_BOOTTIME) - held_ms * DL_NS_PER_MS;

    if (held_ms < 0 || ticks <= 0)
        return false;
    return (int64_t)stat->start_ticks * (DL_NS_PER_S / ticks) > since_ns + YOUNGER_NS;
}

/* What `dlock run` and `dlock hold` have started. */
static void command_read(struct process *process)
{
    struct proc_stat child;
    char path[64], first[24];
    FILE *file = NULL;

    if (strcmp(process->program, "dlock") != 0)
        return;
    (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", process->pid, process->pid);
    file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fscanf(file, "%23s", first) == 1 && proc_stat_read((pid_t)strtol(first, NULL, 10), &child))
        memcpy(process->command, child.program, sizeof process->command);
    (void)fclose(file);
}

static enum process_state state_of(struct process *process, int64_t held_ms)
{
    struct proc_stat stat;

    if (!proc_stat_read((pid_t)process->pid, &stat)) {
        /* /proc may hide the processes of other users. */
        return kill((pid_t)process->pid, 0) != 0 && errno == EPERM ? PROCESS_RUNS : PROCESS_ENDED;
    }
    if (is_younger(&stat, held_ms))
        return PROCESS_ENDED;
    memcpy(process->program, stat.program, sizeof process->program);
    command_read(process);
    return strchr("Tt", stat.state) != NULL ? PROCESS_STOPPED : PROCESS_RUNS;
}

void process_read(struct process *process, const char *label, int64_t held_ms)
{
    char host[PROCESS_HOST_SIZE] = "", space[DL_PID_SPACE_SIZE];

    *process = (struct process){.state = PROCESS_UNKNOWN};
    if (!label_parse(process, label)) {
        *process = (struct process){.state = PROCESS_UNKNOWN};
        return;
    }
    (void)gethostname(host, sizeof host - 1);
    dl_pid_space_read(space);
    if (strcmp(host, process->host) != 0)
        process->state = PROCESS_ELSEWHERE;
    else if (process->space[0] != '\0' && space[0] != '\0')
        process->state =
            strcmp(space, process->space) == 0 ? state_of(process, held_ms) : PROCESS_ELSEWHERE;
}

bool process_is_same(const struct process *a, const struct process *b)
{
    return a->pid > 0 && a->pid == b->pid && a->space[0] != '\0' &&
           strcmp(a->space, b->space) == 0 && strcmp(a->host, b->host) == 0;
}

bool process_is_here(const struct process *process)
{
    return process->state == PROCESS_RUNS || process->state == PROCESS_STOPPED;
}

size_t process_parents(const struct process *process, long parents[PROCESS_PARENTS_MOST])
{
    struct proc_stat stat = {.parent = (pid_t)process->pid};
    size_t count = 0;

    while (process_is_here(process) && count < PROCESS_PARENTS_MOST &&
           proc_stat_read(stat.parent, &stat) && stat.parent > 0)
        parents[count++] = stat.parent;
    return count;
}

bool process_is_parent(const struct process *process)
{
    struct process self = {.pid = (long)getpid(), .state = PROCESS_RUNS};
    long parents[PROCESS_PARENTS_MOST];
    size_t count = process_parents(&self, parents);

    for (size_t i = 0; process_is_here(process) && i < count; i++)
        if (parents[i] == process->pid)
            return true;
    return false;
}

const char *process_state_word(enum process_state state)
{
    static const char *const words[] = {
        [PROCESS_UNKNOWN] = "unknown", [PROCESS_ELSEWHERE] = "elsewhere", [PROCESS_RUNS] = "runs",
        [PROCESS_STOPPED] = "stopped", [PROCESS_ENDED] = "ended",
    };

    return words[state];
}
