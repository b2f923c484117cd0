/* SPDX-License-Identifier: MIT */
/*
 * tty.h - lends the terminal to the command's process group, as a shell does with its jobs.
 *
 * At once when dlock is a foreground job of its own, so that Ctrl-C, Ctrl-Z and reading from the
 * terminal go to the command. In a pipeline or a script the terminal stays where it is, for the
 * sake of the others, until the command is stopped for want of it.
 */
#ifndef CLI_TTY_H
#define CLI_TTY_H

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

struct tty {
    int fd;     /* -1: no terminal */
    bool eager; /* lend it at once */
    bool has_modes;
    struct termios modes; /* as found */
};

/* SIGTTOU has to be blocked from here on. */
void tty_init(struct tty *tty);
void tty_fini(struct tty *tty);

/* Async-signal-safe. */
void tty_lend(const struct tty *tty, pid_t group);

/* Who has the terminal: our own process group, or that one? */
bool tty_is_ours(const struct tty *tty);
bool tty_is_lent(const struct tty *tty, pid_t group);

/* Takes it back if `group` has it; with restore also the modes that we found. */
void tty_take_back(const struct tty *tty, pid_t group, bool restore);

#endif
