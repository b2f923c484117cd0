/* SPDX-License-Identifier: MIT */
/*
 * child.h - the command as a process: started in a process group of its own, watched without being
 * reaped (so that its number, which is also the group's, cannot pass to a stranger while we still
 * send signals), and reaped at the end.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "signals.h"
#include "tty.h"

#include <stdbool.h>
#include <sys/types.h>

struct child {
    pid_t pid;   /* and the number of its process group */
    bool ended;  /* but not reaped */
    int stopped; /* the signal that stopped it, 0: it is not stopped */
    int code;    /* once ended: exit code, or 128 + signal */
    int signal;  /* once ended: the signal that ended it, 0: it exited */
};

struct child_plan {
    char *const *argv;
    char *const *env;
    const struct signals *signals;
    const struct tty *tty;
    bool die_with_us; /* SIGKILL to the command when this process ends without having ended it */
};

/*
 * fork and exec. 0, or the errno of whatever failed: *in_exec tells failures of exec itself (the
 * command cannot be executed) from those of this process. Nothing is left behind on failure. The
 * calling thread has to live as long as the command (die_with_us is tied to it).
 */
int child_start(struct child *child, const struct child_plan *plan, bool *in_exec);

/* Reads what happened to it: ended, stopped. Does not block. */
void child_poll(struct child *child);

/* To the whole group. */
void child_signal(const struct child *child, int n);

/* Does the group have a member that is not a zombie? If nobody can tell: true. */
bool child_group_lives(const struct child *child);

/* The command has ended: no more signals after this. */
void child_reap(struct child *child);

#endif
