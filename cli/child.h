/* SPDX-License-Identifier: MIT */
/*
 * child.h - the command as a process, in a process group of its own. It is reaped at the very end:
 * until then no other process can get its number, which is also the group's, so that signals reach
 * the right process.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "process.h"
#include "signals.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <termios.h>

/*
 * Gives the terminal to the command's process group, as a shell does with its jobs.
 *
 * If dlock is a foreground job of its own, the command gets the terminal at once, so that Ctrl-C,
 * Ctrl-Z and input reach it. In a pipeline or a script other processes need the terminal, too, and
 * the command gets it only when it is stopped because it asked for it.
 */
struct tty {
    int fd;     /* -1: no terminal */
    bool eager; /* give it at once */
    bool has_modes;
    struct termios modes; /* at the start */
};

/* SIGTTOU has to be blocked from here on. */
void tty_init(struct tty *tty);
void tty_fini(struct tty *tty);

/* Async-signal-safe. */
void tty_lend(const struct tty *tty, pid_t group);

/* True: our own process group has the terminal; that group has it. */
bool tty_is_ours(const struct tty *tty);
bool tty_is_lent(const struct tty *tty, pid_t group);

/* Takes it back if `group` has it; with restore, also sets its first modes again. */
void tty_take_back(const struct tty *tty, pid_t group, bool restore);

/*
 * The processes that this process and its children have started, in any group and
 * session. A process whose parent has ended becomes a child of this one, so that no
 * descendant gets out of sight. Processes that another service starts on request (at, cron,
 * systemd-run, a container engine, a running tmux) are none.
 *
 * A descendant may start another one while it is counted or before a signal reaches it: repeat the
 * call until none is left.
 */
struct descendants {
    pid_t kept; /* a child that its owner reaps; 0: none */
    pid_t init; /* of contain.h; 0: none. It counts as none of them, and its children do */

    size_t living;  /* processes that had not ended */
    size_t refused; /* of these: processes of another user, which the signal does not reach */
    struct proc_stat stubborn; /* the first of the refused */

    struct proc_stat
        *elders; /* were there before, as children that this process inherited by exec */
    size_t elder_count;
};

/* Reaps the children that have ended, up to the child `kept`; 0: all of them. */
void descendants_reap(pid_t kept);

/* Counts them. There are none where /proc is missing, or shows another PID namespace. */
void descendants_count(struct descendants *descendants);

/* Counts them, and sends SIGTERM and SIGCONT to each that is not in this process group; 0: to all.
 */
void descendants_term(struct descendants *descendants, pid_t group);

/* Counts them, and sends SIGKILL to each; with an init, to all at once. */
void descendants_kill(struct descendants *descendants);

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
    bool contain;     /* in a PID namespace of its own (contain.h) */
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

/* The command has ended: no more signals after this. If it was contained, ends what is left of its
 * namespace, and returns when nothing is left. */
void child_reap(struct child *child);

/* What to add to the message of a command that was not found: the command may be a whole command
 * line in one word. "": nothing. */
const char *child_shell_hint(char *const *argv);

#endif
