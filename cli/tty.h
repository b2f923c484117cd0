/* SPDX-License-Identifier: MIT */
/*
 * tty.h - gives the terminal to the command's process group, as a shell does with its jobs.
 *
 * If dlock is a foreground job of its own, the command gets the terminal at once, so that Ctrl-C,
 * Ctrl-Z and input reach it. In a pipeline or a script other processes need the terminal, too, and
 * the command gets it only when it is stopped because it asked for it.
 */
#ifndef CLI_TTY_H
#define CLI_TTY_H

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

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

#endif
