/* SPDX-License-Identifier: MIT */
/*
 * child.h - the command as a process, in a process group of its own. It is reaped at the very end:
 * until then no other process can get its number, which is also the group's, so that signals reach
 * the right process.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "descendants.h"
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
    struct descendants descendants;
};

struct child_plan {
    char *const *argv;
    char *const *env;
    const struct signals *signals;
    const struct tty *tty;
    bool die_with_us; /* the command gets SIGKILL when this process dies */
};

/*
 * fork and exec. 0 or an errno; *in_exec: exec failed (the command cannot be executed), and not a
 * call of this process. On failure no process is left. The calling thread must live as long as the
 * command, because die_with_us depends on the thread.
 */
int child_start(struct child *child, const struct child_plan *plan, bool *in_exec);

/* Reads whether it ended or stopped, and reaps its descendants. Does not block. */
void child_poll(struct child *child);

/* To the whole group. */
void child_signal(const struct child *child, int n);

/* The command has ended: no more signals after this. */
void child_reap(struct child *child);

/* What to add to the message of a command that was not found: the command may be a whole command
 * line in one word. "": nothing. */
const char *child_shell_hint(char *const *argv);

#endif
