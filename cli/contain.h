/* SPDX-License-Identifier: MIT */
/*
 * contain.h - a PID namespace for the command alone: the end of its first process (the init) ends
 * all processes in the namespace. Group, session and parent do not matter. The init is no part of
 * the command: the init reaps, and dies with this process.
 *
 * A user that may not make such a namespace makes it in a user namespace of its own, in which only
 * this user and its group have numbers.
 */
#ifndef CLI_CONTAIN_H
#define CLI_CONTAIN_H

#include <sys/types.h>

/* Makes one and ends it. 0, or the errno: this user may not, or the system has none. */
int contain_check(void);

/*
 * As fork, into a new namespace: both processes become children of this thread. 0 or an errno; in
 * the command *command is 0, and only async-signal-safe calls are allowed there.
 * fds: a pipe. The command has its write end, and nobody else in the namespace has either.
 */
int contain_fork(pid_t *command, pid_t *init, const int fds[2]);

/* Ends each process of the namespace. The command has to be reaped before the init can be. */
void contain_kill(pid_t init);

#endif
