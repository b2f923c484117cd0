/* SPDX-License-Identifier: MIT */
#include "gauge.h"

#include "stopwatch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t cpu_of(pid_t pid)
{
    struct timespec spent = {0};
    clockid_t clock = 0;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &spent) != 0)
        return 0;
    return spent.tv_sec * BENCH_NS_PER_S + spent.tv_nsec;
}

long long bench_gauge_number(const char *path, int number)
{
    char line[512] = "", *at = line;
    long long value = 0;
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return 0;
    if (fgets(line, sizeof line, file) == NULL)
        line[0] = '\0';
    (void)fclose(file);
    for (; number >= 0; number--)
        value = strtoll(at, &at, 10);
    return value;
}

static int64_t resident_of(const char *who)
{
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/%s/statm", who);
    return bench_gauge_number(path, 1) * sysconf(_SC_PAGESIZE);
}

static int sockets_of(const char *who)
{
    char path[64], target[64];
    const struct dirent *entry = NULL;
    DIR *directory = NULL;
    int count = 0;

    (void)snprintf(path, sizeof path, "/proc/%s/fd", who);
    directory = opendir(path);
    if (directory == NULL)
        return 0;
    while ((entry = readdir(directory)) != NULL) {
        ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1);

        count += length > 0 && strncmp(target, "socket:", 7) == 0;
    }
    (void)closedir(directory);
    return count;
}

void bench_gauge_read(const pid_t *pids, int count, struct bench_gauge *gauge)
{
    memset(gauge, 0, sizeof *gauge);
    for (int i = 0; i < count; i++) {
        char who[16];
        int64_t memory_kb = 0;
        int sockets = 0;

        (void)snprintf(who, sizeof who, "%d", (int)pids[i]);
        memory_kb = resident_of(who) / 1024;
        sockets = sockets_of(who);
        gauge->cpu_ns += cpu_of(pids[i]);
        gauge->memory_kb = memory_kb > gauge->memory_kb ? memory_kb : gauge->memory_kb;
        gauge->sockets = sockets > gauge->sockets ? sockets : gauge->sockets;
    }
}

int64_t bench_gauge_resident(void)
{
    return resident_of("self");
}
