/* SPDX-License-Identifier: MIT */
/*
 * bench-run-redis and its like: the least program that runs a command under a lock, to measure
 * `dlock run` against. It uses the lock BENCH_RUN_WORK of work.h; RUN is a part of the name.
 *
 *     bench-run-STORE URI RUN COMMAND [WORD...]
 */
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int command_run(char **words)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        (void)execv(words[0], words);
        perror(words[0]);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                           : 1;
}

static int under_a_lock(void *worker, char **words, char *why)
{
    int status;

    if (BENCH_RUN_WORK.lock(worker, why) != 0)
        return -1;
    status = command_run(words);
    return BENCH_RUN_WORK.unlock(worker, why) != 0 ? -1 : status;
}

int main(int argc, char **argv)
{
    struct bench_config config = {.one_name = 1};
    char why[BENCH_WHY_SIZE] = "usage: URI RUN COMMAND [WORD...]";
    void *process = NULL, *worker = NULL;
    int status = -1;

    if (argc > 3) {
        config.uri = argv[1];
        config.run = (int)strtol(argv[2], NULL, 10);
        process = BENCH_RUN_WORK.open(&config, why);
    }
    if (process != NULL)
        worker = BENCH_RUN_WORK.begin(process, &config, 0, why);
    if (worker != NULL) {
        status = under_a_lock(worker, argv + 3, why);
        BENCH_RUN_WORK.end(worker);
    }
    if (process != NULL)
        BENCH_RUN_WORK.close(process);
    if (status < 0)
        (void)fprintf(stderr, "%s: %s\n", argv[0], why);
    return status < 0 ? 1 : status;
}
