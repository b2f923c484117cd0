/* SPDX-License-Identifier: MIT */
/*
 * slow_machine SEED COMMAND [ARGUMENT...]
 *
 * Runs COMMAND and ends with its status. At moments out of SEED it stops COMMAND and all that
 * descends from it, for a second. What stands still already, because a test has stopped it, stays
 * so.
 */
#include "process.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STOP_MS   1000
#define LEAST_MS  400 /* between two stops */
#define RANGE_MS  3000
#define MEMBERS   4096
#define EXIT_FAIL 126

/* Parents before their children; negative: had been stopped before. */
static pid_t members[MEMBERS];

/* Stops the children of this one; returns the new count. */
static size_t children_stop(pid_t parent, size_t count)
{
    pid_t found[MEMBERS];
    size_t number = dlt_process_children(parent, found, MEMBERS);

    for (size_t i = 0; i < number && count < MEMBERS; i++) {
        pid_t unused = 0;
        char state = dlt_process_state(found[i], &unused);

        if (state == 'Z' || state == 'X')
            continue;
        members[count++] = state == 'T' ? -found[i] : found[i];
        if (state != 'T')
            (void)kill(found[i], SIGSTOP);
    }
    return count;
}

static size_t all_stop(void)
{
    size_t count = children_stop(getpid(), 0);

    for (size_t i = 0; i < count; i++)
        count = children_stop(abs(members[i]), count);
    return count;
}

/* Children first: no parent sees that one stands still. */
static void all_continue(size_t count)
{
    while (count-- > 0)
        if (members[count] > 0)
            (void)kill(members[count], SIGCONT);
}

/* Orphans are ours, so that they are stopped, too. */
static pid_t command_start(char **argv)
{
    pid_t self = getpid(), pid = -1;

    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == self)
            (void)execvp(argv[0], argv);
        perror(argv[0]);
        _exit(EXIT_FAIL);
    }
    return pid;
}

static void orphans_reap(pid_t but)
{
    siginfo_t info = {0};

    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 &&
           info.si_pid != but) {
        (void)waitpid(info.si_pid, NULL, WNOHANG);
        info.si_pid = 0;
    }
}

int main(int argc, char **argv)
{
    const struct timespec stop = {STOP_MS / 1000, STOP_MS % 1000 * 1000000};
    struct pollfd end = {.events = POLLIN};
    unsigned seed = 0;
    int status = 0, stops = 0;
    pid_t pid = -1;

    if (argc < 3) {
        (void)fputs("usage: slow_machine SEED COMMAND...\n", stderr);
        return 64;
    }
    seed = (unsigned)strtoul(argv[1], NULL, 10);
    pid = command_start(argv + 2);
    end.fd = pid > 0 ? pidfd_open(pid, 0) : -1;
    if (end.fd < 0)
        return EXIT_FAIL;
    /* The first one soon: a test may be short. */
    while (poll(&end, 1, LEAST_MS + rand_r(&seed) % (stops == 0 ? LEAST_MS : RANGE_MS)) == 0) {
        size_t count = all_stop();

        (void)nanosleep(&stop, NULL);
        all_continue(count);
        orphans_reap(pid);
        stops++;
    }
    (void)waitpid(pid, &status, 0);
    (void)fprintf(stderr, "# slow_machine: %d stops, seed %s\n", stops, argv[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
