/* SPDX-License-Identifier: MIT */
#include "work_command.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRUE "/bin/true"

void bench_command_beside(char *path, size_t size, const char *file)
{
    char own[400];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);

    own[length > 0 ? length : 0] = '\0';
    if (strrchr(own, '/') != NULL)
        *strrchr(own, '/') = '\0';
    (void)snprintf(path, size, "%s/%s", own, file);
}

/* As built it is beside this program; as installed it is no command of a user's. */
static void bare_find(char *path, size_t size, const char *program)
{
    char file[80];

    bench_command_beside(path, size, program);
    if (access(path, X_OK) == 0)
        return;
    (void)snprintf(file, sizeof file, BENCH_BIN_TO_LIBEXEC "/%s", program);
    bench_command_beside(path, size, file);
}

static void common_fill(const struct bench_config *config, struct bench_command *command)
{
    (void)snprintf(command->uri, sizeof command->uri, "%s", config->uri);
    (void)snprintf(command->name, sizeof command->name, "bench-%d-0", config->run);
}

void bench_work_command_dlock(const struct bench_config *config, struct bench_command *command)
{
    common_fill(config, command);
    bench_command_beside(command->program, sizeof command->program, "dlock");
    command->words[0] = command->program;
    command->words[1] = "--uri";
    command->words[2] = command->uri;
    command->words[3] = "run";
    command->words[4] = command->name;
    command->words[5] = "--";
    command->words[6] = TRUE;
    command->words[7] = NULL;
}

static void bare_fill(const struct bench_config *config, struct bench_command *command,
                      const char *program)
{
    common_fill(config, command);
    bare_find(command->program, sizeof command->program, program);
    (void)snprintf(command->name, sizeof command->name, "%d", config->run);
    command->words[0] = command->program;
    command->words[1] = command->uri;
    command->words[2] = command->name;
    command->words[3] = TRUE;
    command->words[4] = NULL;
}

static void redis_fill(const struct bench_config *config, struct bench_command *command)
{
    bare_fill(config, command, "bench-run-redis");
}

static void maria_fill(const struct bench_config *config, struct bench_command *command)
{
    bare_fill(config, command, "bench-run-maria");
}

static void sqlite_fill(const struct bench_config *config, struct bench_command *command)
{
    bare_fill(config, command, "bench-run-sqlite");
}

static void true_fill(const struct bench_config *config, struct bench_command *command)
{
    common_fill(config, command);
    command->words[0] = TRUE;
    command->words[1] = NULL;
}

/* The program finds its row there. */
static int maria_prepare(const struct bench_config *config, char *why)
{
    return bench_work_maria_text.prepare(config, why);
}

const struct bench_work bench_work_true = {.command = true_fill};
const struct bench_work bench_work_run_redis = {.command = redis_fill};
const struct bench_work bench_work_run_sqlite = {.command = sqlite_fill};
const struct bench_work bench_work_run_maria = {.prepare = maria_prepare, .command = maria_fill};
